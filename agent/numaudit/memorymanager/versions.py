"""The Kubernetes versions whose kubelets decide differently, and the feature gates that matter.

Source: pkg/features/kube_features.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from numaudit.errors import InputError

KubernetesVersion = tuple[int, int]
"""Major and minor: (1, 36)."""

LATEST: KubernetesVersion = (1, 36)
"""The newest kubelet this project was checked against."""

DESCRIBED: tuple[KubernetesVersion, ...] = ((1, 23), (1, 28), (1, 32), LATEST)
"""The versions whose behaviour is known; one in between behaves as the one below it."""

_VERSION = re.compile(r"v?(\d{1,2})\.(\d{1,3})(?:[.+-].*)?", re.ASCII)


_GATES: Mapping[str, tuple[KubernetesVersion, KubernetesVersion | None]] = {
    "PodLevelResources": ((1, 32), (1, 34)),
    "PodLevelResourceManagers": ((1, 36), None),
    "InPlacePodVerticalScaling": ((1, 27), (1, 33)),
}
"""Gate -> the version that has it first, as alpha and off, and the first in which it is on (None = none yet)."""


@dataclass(frozen=True, slots=True)
class KubeletFeatures:
    """What of a kubelet's version and feature gates changes its memory management.

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
    status replaces the requests of its spec. Later kubelets hand over the pod as it was allocated."""

    @property
    def manages_pod_level(self) -> bool:
        """Are pods with pod-level resources given exclusive memory and CPUs at all?"""
        return self.counts_pod_level and self.pod_level_resource_managers and self.version >= (1, 36)

    @property
    def counts_pod_level(self) -> bool:
        """Do pod-level resources decide a pod's quality of service?"""
        return self.pod_level_resources and self.version >= (1, 32)

    @property
    def knows_sidecars(self) -> bool:
        """Are restartable init containers told from ordinary ones?"""
        return self.version >= (1, 32)

    @property
    def checks_groups_on_allocation(self) -> bool:
        """Is the rule that groups are disjoint enforced on the final hint, too?"""
        return self.version >= (1, 32)

    @classmethod
    def of(cls, version: str, gates: Mapping[str, bool] | None = None) -> tuple[KubeletFeatures, str | None]:
        """The features of a version ("v1.36.2", "1.28") with `featureGates`, and a notice or None.

        The notice tells that the version behaves as another one here. Gates that do not matter to
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
        )
        return features, notice


LATEST_FEATURES = KubeletFeatures()
"""The newest described kubelet with its default feature gates."""


def parse_version(text: str) -> KubernetesVersion:
    """Read "1.36", "v1.36.2" or "1.32.10+rke2r1". Raises InputError."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise InputError(f"not a Kubernetes version such as 1.36 or v1.32.4: {text[:60]!r}")
    return int(match[1]), int(match[2])


def nearest_described(version: KubernetesVersion) -> tuple[KubernetesVersion, str | None]:
    """The described version that this one is taken for, and a notice when it is another one."""
    described = max((one for one in DESCRIBED if one <= version), default=DESCRIBED[0])
    if described == version:
        return described, None
    return described, f"Kubernetes {_text(version)} is taken for {_text(described)}, whose kubelet is known exactly"


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
