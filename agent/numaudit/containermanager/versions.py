"""The Kubernetes versions whose kubelets decide differently, and the feature gates that matter.

Source: pkg/features/kube_features.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from numaudit.encoding.go_syntax import GoSyntaxError, parse_bool
from numaudit.errors import InputError

KubernetesVersion = tuple[int, int]
"""Major and minor: (1, 36)."""

LATEST: KubernetesVersion = (1, 36)
"""The newest kubelet this project was checked against: the default wherever a version may be given."""

DESCRIBED: tuple[KubernetesVersion, ...] = ((1, 23), (1, 28), (1, 32), LATEST, (1, 37), (1, 38))
"""The versions whose behaviour is known, that of 1.37 and of the first alpha of 1.38 by their source alone; one in
between behaves as the one below, but for those of `MERGES_EQUAL_HINTS` and later, which behave as 1.28."""

MERGES_EQUAL_HINTS: KubernetesVersion = (1, 24)
"""The first whose merged hint is preferred only if all masks are equal (kubernetes/kubernetes#108052, #108154)."""

_VERSION = re.compile(r"v?(\d{1,2})\.(\d{1,3})(?:[.+-].*)?", re.ASCII)


_GATES: Mapping[str, tuple[KubernetesVersion, KubernetesVersion | None]] = {
    "PodLevelResources": ((1, 32), (1, 34)),
    "PodLevelResourceManagers": ((1, 36), None),
    "InPlacePodVerticalScaling": ((1, 27), (1, 33)),
}
"""Gate -> the version that has it first, as alpha and off, and the first in which it is on (None = none yet)."""

POD_LEVEL_GATE = "PodLevelResourceManagers"
DRA_GATE = "DynamicResourceAllocation"
"""On since 1.34 and locked since 1.35."""
DRIFT_GATE = "MemoryManagerDriftTolerance"
DRIFT_OPTION = "memory-drift-tolerance"
"""KEP-6232, alpha in 1.38: with the gate and this one of memoryManagerPolicyOptions the kubelet starts although the
memory of a node differs a little."""
PARTITION_GATE = "NodeSystemPartition"
"""KEP-5894, alpha in 1.37. The gate alone changes nothing: see the field `systemPartition`."""
HUGE_PAGES_GATE = "MemoryManagerHugepagesVerification"
"""KEP-5759."""
CPU_RESIZE_GATE = "InPlacePodVerticalScalingExclusiveCPUs"
"""KEP-5554. Before 1.38 it changes nothing (kubernetes/kubernetes#140031)."""
_NOT_MODELLED: Mapping[str, str] = {
    DRIFT_GATE: f"with {DRIFT_OPTION} it lets a kubelet start although a node's memory differs a little",
    HUGE_PAGES_GATE: "it refuses pods for huge pages that the kernel does not have free",
    CPU_RESIZE_GATE: "since 1.38 it resizes pods that have exclusive CPUs",
    PARTITION_GATE: "it takes memory and CPUs for the system's own pods",
}
"""Gate -> what it changes of the answers."""

KNOWN_GATES = (
    *_GATES,
    *_NOT_MODELLED,
    "AllAlpha",
    "AllBeta",
    "CPUManager",
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
    "CPUManagerPolicyOptions",
    "DisableCPUQuotaWithExclusiveCPUs",
    "InPlacePodVerticalScalingExclusiveMemory",
    "MemoryManager",
    "MemoryQoS",
    "SidecarContainers",
    "TopologyManager",
    "TopologyManagerPolicyAlphaOptions",
    "TopologyManagerPolicyBetaOptions",
    "TopologyManagerPolicyOptions",
)
"""All gates, of any version, that bear on the resource managers."""


def charges_pods_again(version: KubernetesVersion) -> bool:
    """Does AllocatePod charge a pod that has its memory and CPUs already, as it does after a restart?

    In 1.36, which was the first to have it, it does not check. 1.38.0-alpha.1 restores what they have
    (kubernetes/kubernetes#141041, #141070). 1.37 counts as the one or the other: see `READMISSION_UNKNOWN`.
    """
    return version == (1, 36)


READMISSION_UNKNOWN: KubernetesVersion = (1, 37)
"""No source says whether the corrections of 1.38.0-alpha.1 were taken over into this version."""


@dataclass(frozen=True, slots=True)
class KubeletFeatures:
    """Differences in memory management between kubelet versions and feature gates.

    `of` knows which gates a version has and how they stand there; the defaults here are those of 1.36.
    """

    version: KubernetesVersion = LATEST
    """One of DESCRIBED."""
    pod_level_resources: bool = True
    """Gate PodLevelResources: alpha 1.32, on since 1.34."""
    pod_level_resource_managers: bool = False
    """Gate PodLevelResourceManagers: alpha and off in 1.36."""
    in_place_pod_vertical_scaling: bool = False
    """Gate InPlacePodVerticalScaling in a version before 1.33, where `allocatedResources` of the pod's
    status replaces the requests of its spec. Later kubelets hand over the pod as it was allocated, which `/pods` and
    the API do not: see `pod.manifest.as_allocated`."""
    tolerates_drift: bool = False
    """Gate MemoryManagerDriftTolerance, which changes nothing without its option."""
    verifies_huge_pages: bool = False
    """Gate MemoryManagerHugepagesVerification."""
    resizes_exclusive_cpus: bool = False
    """Gate InPlacePodVerticalScalingExclusiveCPUs, since 1.38."""

    @property
    def manages_pod_level(self) -> bool:
        """Are pods with pod-level resources given exclusive memory and CPUs at all?"""
        return self.counts_pod_level and self.pod_level_resource_managers and self.version >= (1, 36)

    @property
    def readmission_problem(self) -> str | None:
        """The reason why it is not known what a restart does to a pod that has CPUs as a whole; None = it is known."""
        if self.version != READMISSION_UNKNOWN or not self.manages_pod_level:
            return None
        return (
            "no source says whether Kubernetes 1.37 leaves a pod with pod-level resources what it has "
            "(kubernetes/kubernetes#140989, corrected in 1.38.0-alpha.1)"
        )

    @property
    def counts_pod_level(self) -> bool:
        """Do pod-level resources decide a pod's quality of service?"""
        return self.pod_level_resources and self.version >= (1, 32)

    @property
    def knows_sidecars(self) -> bool:
        """Does it treat restartable init containers apart from ordinary ones?"""
        return self.version >= (1, 32)

    @property
    def checks_groups_on_allocation(self) -> bool:
        """Is the rule that groups are disjoint enforced on the final hint, too?"""
        return self.version >= (1, 32)

    @classmethod
    def of(cls, version: str, gates: Mapping[str, bool] | None = None) -> tuple[KubeletFeatures, str | None]:
        """The features of a version ("v1.36.2", "1.28") with `featureGates`, and a notice or None.

        The notice says that the version behaves as another one here, or that the effect of a gate is
        not known. Gates that do not matter to
        memory management are ignored. Raises InputError when the text is no version, and for one of
        the gates that matter where the version does not have it: such a kubelet does not start.
        """
        real = parse_version(version)
        described, notice = nearest_described(real)
        stands = {name: _stands(name, real, gates or {}) for name in _GATES}
        features = cls(
            described,
            pod_level_resources=stands["PodLevelResources"],
            pod_level_resource_managers=stands["PodLevelResourceManagers"],
            in_place_pod_vertical_scaling=stands["InPlacePodVerticalScaling"] and real < (1, 33),
            tolerates_drift=(gates or {}).get(DRIFT_GATE, False),
            verifies_huge_pages=(gates or {}).get(HUGE_PAGES_GATE, False),
            resizes_exclusive_cpus=(gates or {}).get(CPU_RESIZE_GATE, False) and real >= (1, 38),
        )
        notices = [notice] if notice else []
        notices += [
            f"the feature gate {name} is on, which is not modelled here: {what}"
            for name, what in _NOT_MODELLED.items()
            if (gates or {}).get(name)
        ]
        return features, "; ".join(notices) or None


LATEST_FEATURES = KubeletFeatures()
"""The newest described kubelet with its default feature gates."""


def read_feature_gates(text: str) -> dict[str, bool]:
    """Read `--feature-gates`: `PodLevelResourceManagers=true,AllAlpha=false`.

    Raises InputError for another form, and for a gate that has nothing to do with the resource managers,
    with the name that is nearest.
    """
    gates: dict[str, bool] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        try:
            is_on = parse_bool(value)
        except GoSyntaxError:
            raise InputError(f"--feature-gates {pair[:60]!r}: write it as {POD_LEVEL_GATE}=true") from None
        if name not in KNOWN_GATES:
            begin_alike = [one for one in KNOWN_GATES if name and one.startswith(name)]
            nearest = begin_alike or get_close_matches(name, KNOWN_GATES, 1, cutoff=0.0)
            raise InputError(
                f"--feature-gates: unknown gate {name[:60]!r}; of the resource managers' gates {nearest[0]} is the "
                "nearest: correct it, or leave it out"
            )
        gates[name] = is_on
    return gates


def parse_version(text: str) -> KubernetesVersion:
    """Read "1.36", "v1.36.2" or "1.32.10+rke2r1". Raises InputError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InputError(f"not a Kubernetes version such as 1.36 or v1.32.4: {text[:60]!r}")
    return int(match[1]), int(match[2])


def nearest_described(version: KubernetesVersion) -> tuple[KubernetesVersion, str | None]:
    """The described version that this one is taken for, and a notice when it is another one."""
    low, high = DESCRIBED[:2]
    described = (
        high if MERGES_EQUAL_HINTS <= version < high else max((one for one in DESCRIBED if one <= version), default=low)
    )
    if described == version:
        return described, None
    how = "whose kubelet is known exactly" if described <= LATEST else "the newest that is known here"
    return described, f"Kubernetes {_text(version)} is taken for {_text(described)}, {how}"


def at_least_described(version: KubernetesVersion) -> KubernetesVersion:
    """The version itself, or the oldest one that is described."""
    return max(version, DESCRIBED[0])


def _stands(name: str, version: KubernetesVersion, gates: Mapping[str, bool]) -> bool:
    """Is the gate open in this version? AllAlpha and AllBeta stand for all gates of a kind that are not named."""
    first, on_since = _GATES[name]
    if version < first:
        if name in gates:
            raise InputError(
                f"featureGates: unrecognized feature gate: {name}; Kubernetes {_text(version)} does not have it "
                f"and would not start, {_text(first)} is the first that has: leave it out"
            )
        return False
    is_on = on_since is not None and version >= on_since
    return gates.get(name, gates.get("AllBeta" if is_on else "AllAlpha", is_on))


def _text(version: KubernetesVersion) -> str:
    return f"{version[0]}.{version[1]}"
