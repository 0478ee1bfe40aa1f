"""The kubelet that would start with a host's checkpoints: each value with its source. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.checkpoints.start.outlook import KubeletAtStart
from numaudit.containermanager.memory.state import ReservedTooMuch
from numaudit.containermanager.versions import (
    DRA_GATE,
    DRIFT_GATE,
    LATEST,
    POD_LEVEL_GATE,
    KubernetesVersion,
    parse_version,
)
from numaudit.errors import InputError
from numaudit.intent.kubelet import KubeletConfig
from numaudit.memorymanager.kubelet import Kubelet, NotModelled, names_its_amounts, read_drift_tolerance, read_kubelet
from numaudit.topology.machine import Machine

OPTION = "option"
"""The source of a value that somebody asked about."""


class AskedKubelet(Struct, frozen=True):
    """Another kubelet than the host's that somebody asks about. None = as on the host."""

    version: KubernetesVersion | None = None
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that are other than the host's."""
    memory_policy: str | None = None
    cpu_policy: str | None = None

    @property
    def pod_level(self) -> bool | None:
        """The gate PodLevelResourceManagers."""
        return self.gates.get(POD_LEVEL_GATE, self.gates.get("AllAlpha"))


class Starting(Struct, frozen=True):
    """The kubelet that would start, and where each of its values is from."""

    kubelet: KubeletAtStart = KubeletAtStart()
    sources: Mapping[str, str] = field(default_factory=dict)
    """Field of StartingKubelet -> `option`, `configz`, `flag`, `file`, `default`, `log` or `metrics`.
    A field that is missing is not known: then it counts as it is in the checkpoint."""


def starting(config: KubeletConfig, machine: Machine | None, asked: AskedKubelet) -> Starting:
    """The kubelet with these settings. `machine` None = reservations cannot be worked out."""
    version, sources = LATEST, {"version": "default"}
    if asked.version is not None:
        version, sources["version"] = asked.version, OPTION
    elif config.version is not None:
        try:
            version, sources["version"] = parse_version(config.version), config.origins.get("version", "file")
        except InputError:  # a build of one's own: taken for the newest kubelet that is known
            version = LATEST
    is_known = sources["version"] != "default"
    pod_level = _gate(config, asked, sources)
    memory = _policy(config, "memory_manager_policy", asked.memory_policy, "memory_policy", sources)
    cpu = _policy(config, "cpu_manager_policy", asked.cpu_policy, "cpu_policy", sources)
    kubelet = KubeletAtStart(
        version,
        pod_level,
        memory,
        cpu,
        drift_tolerance=_drift_tolerance(config, asked),
        reads_claims=_reads_claims(version, config.feature_gates),
        version_is_known=is_known,
    )
    if config.document is None or machine is None:
        return Starting(kubelet, sources)
    found, problem, refused = _configured(changed_document(config.document, asked), machine, version)
    kubelet = replace(kubelet, reservation_problem=problem, configuration_problem=refused)
    if found is not None:
        kubelet = replace(kubelet, reserved_memory=found.reserved_memory, cpu_manager=found.cpu)
        if found.reserved_memory is not None:
            sources["reserved_memory"] = _source_of_document(config)
    return Starting(kubelet, sources)


def _drift_tolerance(config: KubeletConfig, asked: AskedKubelet) -> str | None:
    """The gate alone changes nothing."""
    gates = {**(config.feature_gates or {}), **asked.gates}
    return read_drift_tolerance(config.document or {}, gate=gates.get(DRIFT_GATE, False))


def _reads_claims(version: KubernetesVersion, gates: Mapping[str, bool] | None) -> bool:
    """Is DRA on? `gates` None = not known; then it is, for the file is there."""
    if gates is None or version >= (1, 35):
        return True
    by_default = version >= (1, 34) or gates.get("AllBeta" if version >= (1, 32) else "AllAlpha", False)
    return gates.get(DRA_GATE, by_default)


def _gate(config: KubeletConfig, asked: AskedKubelet, sources: dict[str, str]) -> bool | None:
    if asked.pod_level is not None:
        sources["pod_level"] = OPTION
        return asked.pod_level
    gates = config.feature_gates
    if gates is None:
        return None
    found = next((gates[name] for name in (POD_LEVEL_GATE, "AllAlpha") if name in gates), None)
    sources["pod_level"] = "default" if found is None else _source_of_document(config)
    return bool(found)


def _source_of_document(config: KubeletConfig) -> str:
    return "configz" if "configz" in config.origins.values() else "file"


def _policy(config: KubeletConfig, name: str, asked: str | None, field: str, sources: dict[str, str]) -> str | None:
    """The configured policy. A policy that only the checkpoint names is not a configuration."""
    if asked is not None:
        sources[field] = OPTION
        return asked
    value: str | None = getattr(config, name)
    origin = config.origins.get(name)
    if value is None or origin in (None, "checkpoint"):
        return None
    sources[field] = origin
    return value


def changed_document(document: Mapping[str, object], asked: AskedKubelet) -> Mapping[str, object]:
    """The configuration with what somebody asks about."""
    changed = dict(document)
    if asked.gates:
        gates = document.get("featureGates")
        changed["featureGates"] = {**(gates if isinstance(gates, Mapping) else {}), **asked.gates}
    if asked.memory_policy in ("None", "Static"):
        changed["memoryManagerPolicy"] = asked.memory_policy
    if asked.cpu_policy in ("none", "static"):
        changed["cpuManagerPolicy"] = asked.cpu_policy
    return changed


def _configured(
    document: Mapping[str, object], machine: Machine, version: KubernetesVersion
) -> tuple[Kubelet | None, str | None, str | None]:
    """The kubelet; else why what it reserves is not known, or why it refuses the whole configuration.

    Amounts that do not add up are of the first kind where reservations may also be given by flags that cannot be seen.
    """
    named = f"{version[0]}.{version[1]}"
    try:
        return read_kubelet(document, machine, kubernetes_version=named)[0], None, None
    except NotModelled as error:
        return None, str(error), None
    except InputError as error:
        problem = str(error)
    if not machine.cpus:
        return None, problem, None
    try:
        read_kubelet(_without_reservations(document, machine), machine, kubernetes_version=named)
    except InputError as error:
        return None, None, str(error)
    if names_its_amounts(document):
        try:
            read_kubelet(_with_a_reserved_cpu(document, machine), machine, kubernetes_version=named)
        except ReservedTooMuch:  # a kubelet counts on
            pass
        except InputError as error:
            return None, None, str(error)
    return None, problem, None


def _with_a_reserved_cpu(document: Mapping[str, object], machine: Machine) -> Mapping[str, object]:
    return {**document, "reservedSystemCPUs": document.get("reservedSystemCPUs") or str(machine.cpus[0].id)}


def _without_reservations(document: Mapping[str, object], machine: Machine) -> Mapping[str, object]:
    """The configuration so that no amount in it is compared with another."""
    changed = dict(_with_a_reserved_cpu(document, machine))
    if document.get("memoryManagerPolicy") == "Static":
        changed["memoryManagerPolicy"] = "None"
    return changed
