"""Start of the CPU Manager: policy, options, reserved CPUs, and whether its state file is still true.

Source: pkg/kubelet/cm/cpumanager/{cpu_manager,policy_static,policy_none,policy_options}.go, pkg/features.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.containermanager.cpu.allocation import take
from numaudit.containermanager.cpu.topology import CPUOptions, CPUPolicy, CPUState, CPUTopology
from numaudit.containermanager.topologymanager.policy import (
    NONE,
    SINGLE_NUMA_NODE,
    AdmissionError,
    OptionGates,
    OptionLevels,
    bool_option,
    option_level,
)
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.encoding.go_syntax import quote
from numaudit.errors import InputError, nearest
from numaudit.topology.nodeset import CpuSet

STATIC = "static"


def create_cpu_manager(
    name: str,
    options: Mapping[str, str],
    topology: CPUTopology,
    *,
    reserved_cpu: int | None,
    reserved_cpus: CpuSet = CpuSet(),
    topology_manager_policy: str = NONE,
    gates: OptionGates = OptionGates(),  # noqa: B008 -- an immutable value
    version: KubernetesVersion = LATEST,
) -> CPUPolicy | None:
    """Check a CPU Manager's configuration as the kubelet does, with the kubelet's words.

    `reserved_cpu` is the cpu of kube-reserved and system-reserved in thousandths; None = neither
    names cpu. `reserved_cpus` is `reservedSystemCPUs`, which replaces it when it is not empty.
    The answer is None for policy none. Raises InputError.
    """
    if name == NONE:
        if options:
            shown = " ".join(f"{key}:{options[key]}" for key in sorted(options))
            raise InputError(f"new none policy error: None policy: received unsupported options=map[{shown}]")
        return None
    if name != STATIC:
        raise InputError(f"unknown policy: {quote(name)}{nearest(name, (NONE, STATIC))}")
    if not reserved_cpus <= topology.cpus:
        raise InputError(f"reserved-cpus: {reserved_cpus} is not a subset of online-cpus: {topology.cpus}")
    if reserved_cpus:
        reserved_cpu = len(reserved_cpus) * 1000
    if reserved_cpu is None:
        raise InputError("[cpumanager] unable to determine reserved CPU resources for static policy")
    if reserved_cpu == 0:
        raise InputError(
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
        )
    try:
        parsed = parse_cpu_options(options, gates=gates, version=version)
        check_cpu_options(parsed, topology, topology_manager_policy=topology_manager_policy, version=version)
        reserved = reserved_cpus or _choose_reserved(topology, parsed, -(-reserved_cpu // 1000), version)
    except InputError as error:
        raise InputError(f"new static policy error: {error}") from None
    return CPUPolicy(topology, reserved, parsed, version)


def start(policy: CPUPolicy, state: CPUState | None = None) -> CPUState:
    """The CPU state a kubelet works with after its start.

    `state` is what the state file holds; None = there is no file. Raises InputError with the
    kubelet's text when it would refuse to start with this state on this machine. Where several
    containers overlap with the shared pool the kubelet names any one of them; here it is the first.
    """
    reserved, strict = policy.reserved, policy.options.strict_cpu_reservation
    usable = policy.topology.cpus - reserved if strict else policy.topology.cpus
    if state is None or not state.default_cpus:
        if state is not None and state.entries:
            raise InputError("default cpuset cannot be empty")
        return CPUState(usable)
    default = state.default_cpus
    if strict and not reserved.isdisjoint(default):
        raise InputError(
            f'some of strictly reserved cpus: "{reserved & default}" are present in defaultCpuSet: "{default}"'
        )
    if not strict and not reserved <= default:
        raise InputError(f'not all reserved cpus: "{reserved}" are present in defaultCpuSet: "{default}"')
    known = default
    for uid, containers in state.entries.items():
        for name, cpus in containers.items():
            if not cpus.isdisjoint(default):
                raise InputError(
                    f'pod: {uid}, container: {name} cpuset: "{cpus}" overlaps with default cpuset "{default}"'
                )
            known |= cpus
    for cpus in state.pod_entries.values():
        known |= cpus
    if known != usable:
        raise InputError(f'current set of available CPUs "{usable}" doesn\'t match with CPUs in state "{known}"')
    return replace(state, reusable={})


def _choose_reserved(topology: CPUTopology, options: CPUOptions, count: int, version: KubernetesVersion) -> CpuSet:
    try:
        reserved = take(topology, options, topology.cpus, count, version=version)
    except AdmissionError:
        reserved = CpuSet()  # the kubelet drops this error; the size decides
    if len(reserved) != count:
        raise InputError(
            f"[cpumanager] unable to reserve the required amount of CPUs (size of {reserved} did not equal {count})"
        )
    return reserved


FULL_PCPUS = "full-pcpus-only"
ACROSS_NUMA = "distribute-cpus-across-numa"
BY_SOCKET = "align-by-socket"
ACROSS_CORES = "distribute-cpus-across-cores"
STRICT = "strict-cpu-reservation"
BY_UNCORE = "prefer-align-cpus-by-uncorecache"

_LEVELS: OptionLevels = {
    FULL_PCPUS: {(1, 22): "alpha", (1, 23): "beta", (1, 36): "stable"},
    ACROSS_NUMA: {(1, 23): "alpha", (1, 36): "beta"},
    BY_SOCKET: {(1, 25): "alpha"},
    ACROSS_CORES: {(1, 32): "alpha"},
    STRICT: {(1, 32): "alpha", (1, 36): "stable"},
    BY_UNCORE: {(1, 32): "alpha", (1, 36): "stable"},
}

_CONFLICTS: Mapping[KubernetesVersion, tuple[tuple[str, str], ...]] = {
    (1, 32): ((FULL_PCPUS, ACROSS_CORES), (ACROSS_NUMA, ACROSS_CORES)),
    (1, 36): ((BY_UNCORE, ACROSS_CORES), (BY_UNCORE, ACROSS_NUMA)),
}
"""Since when -> options that exclude each other."""


def parse_cpu_options(
    options: Mapping[str, str],
    *,
    gates: OptionGates = OptionGates(),  # noqa: B008 -- an immutable value
    version: KubernetesVersion = LATEST,
) -> CPUOptions:
    """Read `cpuManagerPolicyOptions`; raises InputError with the kubelet's text.

    Where several options are wrong the kubelet names any one of them; here it is the first.
    """
    values: dict[str, bool] = {}
    for name, value in options.items():
        _check_available(name, gates, version)
        values[name.replace("-", "_")] = bool_option(name, value)
    return CPUOptions(**values)


def check_cpu_options(
    options: CPUOptions, topology: CPUTopology, *, topology_manager_policy: str, version: KubernetesVersion = LATEST
) -> None:
    """Raise InputError when options exclude each other, the Topology Manager's policy or the machine."""
    for since, pairs in _CONFLICTS.items():
        for one, other in pairs if version >= since else ():
            if _is_on(options, one) and _is_on(options, other):
                raise InputError(f"static policy options {one} and {other} can not be used at the same time")
    if options.align_by_socket:
        if topology_manager_policy == SINGLE_NUMA_NODE:
            raise InputError(
                "Topolgy manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
            )
        if topology.num_sockets > topology.num_numa_nodes:
            raise InputError(
                "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
            )


def _is_on(options: CPUOptions, name: str) -> bool:
    return bool(getattr(options, name.replace("-", "_")))


def _check_available(name: str, gates: OptionGates, version: KubernetesVersion) -> None:
    level = option_level("CPU", name, _LEVELS, version)
    if not gates.allow(level):
        raise InputError(
            f"CPU Manager Policy {level.capitalize()}-level Options not enabled, but option {quote(name)} provided"
        )
