"""Start of the CPU Manager: policy, options, reserved CPUs, and whether its state file is still true.

Source: pkg/kubelet/cm/cpumanager/{cpu_manager,policy_static,policy_none}.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.containermanager.cpu.allocation import take
from numaudit.containermanager.cpu.hints import CPUPolicy
from numaudit.containermanager.cpu.options import CPUOptions, check_cpu_options, parse_cpu_options
from numaudit.containermanager.cpu.topology import CPUState, CPUTopology
from numaudit.containermanager.topologymanager.policy import NONE, AdmissionError, OptionGates
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
