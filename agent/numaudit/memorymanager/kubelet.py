"""A kubelet and its machine, as far as they decide admissions; read from a KubeletConfiguration.

Source: pkg/kubelet/apis/config/types.go, pkg/kubelet/cm/container_manager_linux.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.cpu.start import create_cpu_manager
from numaudit.containermanager.cpu.topology import CPUPolicy, CPUTopology
from numaudit.containermanager.memory.reserved import read_reserved_memory, system_reserved, validate_reserved_memory
from numaudit.containermanager.memory.state import SystemReserved, check_reservations_fit, hugepages_name
from numaudit.containermanager.plain import given, read_mapping, read_quantity, read_text, shown
from numaudit.containermanager.pod.spec import CPU, HUGEPAGES_PREFIX, MEMORY
from numaudit.containermanager.predicates import EPHEMERAL_STORAGE, PODS, Amounts, amounts
from numaudit.containermanager.topologymanager.policy import (
    CONTAINER_SCOPE,
    NONE,
    Distances,
    OptionGates,
    TopologyManager,
    TopologyOptions,
    create_topology_manager,
)
from numaudit.containermanager.versions import (
    DRIFT_OPTION,
    LATEST_FEATURES,
    PARTITION_GATE,
    KubeletFeatures,
    at_least_described,
    parse_version,
)
from numaudit.encoding.go_syntax import quote
from numaudit.errors import InputError, ParseError, nearest
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import (
    ZERO,
    Quantities,
    Quantity,
    eviction_threshold,
    node_allocatable_reservation,
)

MemoryManagerPolicy = Literal["None", "Static"]

DEFAULT_EVICTION = {"memory.available": "100Mi", "nodefs.available": "10%"}


class NotModelled(InputError):
    """A setting that would change the answer, and is not known well enough here to tell how."""


class Kubelet(Struct, frozen=True, dict=True):
    """A kubelet that started on a machine."""

    machine: Machine
    features: KubeletFeatures = LATEST_FEATURES
    memory_policy: MemoryManagerPolicy = "Static"
    reserved_memory: SystemReserved | None = None
    """Node id -> resource -> bytes; None = nothing reserved."""
    topology: TopologyManager = TopologyManager(NONE, NONE, TopologyOptions())
    cpu: CPUPolicy | None = None
    """None = CPU Manager policy none."""
    allocatable: Amounts | None = None
    """Resources of the empty node for pods, as far as they are known; None = not at all."""
    drift_tolerance: str | None = None
    """`memory-drift-tolerance` of memoryManagerPolicyOptions, where its gate is on; None = memory may not differ."""

    @cached_property
    def distances(self) -> Distances | None:
        """The machine's SLIT; None when the firmware gives none."""
        return _distances(self.machine)


def read_kubelet(
    configuration: object, machine: Machine, *, kubernetes_version: str = "1.36"
) -> tuple[Kubelet, tuple[str, ...]]:
    """Set a kubelet up from a KubeletConfiguration (YAML or JSON that was read already), with notices.

    Keys that do not bear on admission are ignored; missing ones have the kubelet's defaults.
    Raises InputError as the kubelet does at its start, in its words where it has some, ReservedTooMuch when
    more memory is reserved on a node than it has (a kubelet would count on), NotModelled for a setting
    whose effect cannot be told.
    """
    config = read_mapping(configuration, "KubeletConfiguration")
    if given(config, "kind", "KubeletConfiguration") != "KubeletConfiguration":
        raise InputError(f"kind: a KubeletConfiguration is needed, not {shown(config['kind'])}")
    gates = _booleans(config, "featureGates")
    if given(config, "systemPartition", None) is not None:
        raise NotModelled(
            f"systemPartition: cannot tell what the system's partition (gate {PARTITION_GATE}, KEP-5894) leaves for "
            "pods; leave it out to ask without it"
        )
    features, notice = KubeletFeatures.of(kubernetes_version, gates)
    reservations = read_reserved_memory(given(config, "reservedMemory", []))
    problems = validate_reserved_memory(reservations, version=features.version)
    if problems:
        raise InputError("; ".join(problems))
    with _about(config, "topologyManager"):
        topology = create_topology_manager(
            _name(config, "topologyManagerPolicy", NONE),
            _name(config, "topologyManagerScope", CONTAINER_SCOPE),
            _texts(config, "topologyManagerPolicyOptions"),
            nodes=len(machine.nodes),
            distances=_distances(machine),
            gates=_option_gates(gates, "TopologyManagerPolicy"),
            version=parse_version(kubernetes_version),
        )
    reservation = read_reservation(config, machine)
    cpu_policy, cpu_options = _name(config, "cpuManagerPolicy", NONE), _texts(config, "cpuManagerPolicyOptions")
    is_none, reserved_cpus = cpu_policy == NONE, _reserved_cpus(config)
    with _about(config, "cpuManager"):
        cpu = create_cpu_manager(
            cpu_policy,
            cpu_options,
            CPUTopology({}) if is_none else CPUTopology.from_machine(machine),
            reserved_cpu=reservation[CPU].milli_value if CPU in reservation else None,
            reserved_cpus=CpuSet() if is_none else reserved_cpus,
            topology_manager_policy=topology.policy,
            gates=_option_gates(gates, "CPUManagerPolicy"),
            version=at_least_described(parse_version(kubernetes_version)),
        )
    if cpu is not None:  # options ripen by the real version
        cpu = replace(cpu, version=max(cpu.version, features.version))
    with _about(config, "memoryManager"):
        policy = _memory_policy(_name(config, "memoryManagerPolicy", "None"))
    with _about(config, "reservedMemory"):
        reserved = system_reserved(machine, reservations, reservation) if policy == "Static" else None
        if reserved is not None:
            check_reservations_fit(machine, reserved)
    tolerance = read_drift_tolerance(config, gate=features.tolerates_drift)
    kubelet = Kubelet(machine, features, policy, reserved, topology, cpu, drift_tolerance=tolerance)
    return kubelet, (notice,) if notice else ()


def read_reservation(configuration: Mapping[str, object], machine: Machine) -> Quantities:
    """What kubeReserved, systemReserved and evictionHard keep from pods, by resource. Raises InputError."""
    return _node_allocatable_reservation(configuration, _capacity(machine))


def read_drift_tolerance(configuration: Mapping[str, object], *, gate: bool) -> str | None:
    """The option as it was written; None = it is off, or not there, or the gate is off."""
    options = configuration.get("memoryManagerPolicyOptions")
    value = options.get(DRIFT_OPTION) if isinstance(options, Mapping) else None
    return str(value) if gate and value not in (None, "off") else None


def names_its_amounts(document: Mapping[str, object]) -> bool:
    """Are both sides of the comparison of reservations in the configuration, so that no flag is needed for them?"""
    amounts = (document.get(field) for field in ("systemReserved", "kubeReserved"))
    named = {str(resource) for of in amounts if isinstance(of, Mapping) for resource in of}
    return bool(document.get("reservedMemory")) and any(
        one == MEMORY or one.startswith(HUGEPAGES_PREFIX) for one in named
    )


@contextmanager
def _about(config: Mapping[str, object], begin: str) -> Iterator[None]:
    """A kubelet's message, which names no field, gets the one that it is about: its words tell which of those given."""
    try:
        yield
    except InputError as error:
        words = str(error).casefold()
        about = {"scope": "Scope", "option": "PolicyOptions", "reserved-cpus": "reservedSystemCPUs"}
        named = [
            name if name.startswith("reserved") else f"{begin}{name}" for word, name in about.items() if word in words
        ]
        error.field = next((name for name in (*named, f"{begin}Policy", begin) if name in config), "")
        raise


def read_allocatable(
    configuration: Mapping[str, object], machine: Machine, *, devices: Mapping[str, int], storage: int | None = None
) -> dict[str, int]:
    """Resources of a node for pods: `status.allocatable` of its Node, by resource.

    `devices`: the healthy ones of each plugin. `storage`: bytes of the file system of the kubelet's folder; None =
    not known, then the result has none either. Raises InputError as `read_kubelet` does.

    Source: pkg/kubelet/nodestatus/setters.go (MachineInfo), pkg/kubelet/cm/node_container_manager_linux.go.
    """
    capacity = _capacity(machine)
    if storage is not None:
        capacity[EPHEMERAL_STORAGE] = Quantity.of(storage)
    reserved = dict(_node_allocatable_reservation(configuration, capacity))
    if own_cpus := _reserved_cpus(configuration):  # named ones take the place of numbers
        reserved[CPU] = Quantity.of(len(own_cpus))
    if storage is not None:
        reserved[EPHEMERAL_STORAGE] = reserved.get(EPHEMERAL_STORAGE, ZERO) + _kept_storage(configuration, storage)
    left = {name: max(0, amount.nano - reserved.get(name, ZERO).nano) for name, amount in capacity.items()}
    huge = sum(amount.nano for name, amount in capacity.items() if name.startswith(HUGEPAGES_PREFIX))
    left[MEMORY] = max(0, left[MEMORY] - huge)
    most, per_core = (_count(configuration, key, default) for key, default in (("maxPods", 110), ("podsPerCore", 0)))
    pods = min(most, per_core * len(machine.cpus)) if per_core else most
    return {**amounts({name: Quantity(nano) for name, nano in left.items()}), **devices, PODS: pods}


def _kept_storage(config: Mapping[str, object], storage: int) -> Quantity:
    """Below this much free storage the kubelet evicts pods."""
    kept = _texts(config, "evictionHard", DEFAULT_EVICTION).get("nodefs.available")
    try:
        return ZERO if kept is None else eviction_threshold(kept, storage)
    except ParseError as error:
        raise InputError(f"evictionHard.nodefs.available: {error}") from None


def _count(config: Mapping[str, object], key: str, default: int) -> int:
    value = given(config, key, default)
    if type(value) is not int or value < 0:
        raise InputError(f"{key}: must be a number, not {shown(value)}")
    return value


def _memory_policy(name: str) -> MemoryManagerPolicy:
    """Names are case-sensitive."""
    if name == "None":
        return "None"
    if name == "Static":
        return "Static"
    if name == "BestEffort":
        raise InputError('policy "BestEffort" is not available for platform "linux"')
    raise InputError(f"unknown policy: {quote(name)}{nearest(name, ('None', 'Static'))}")


def _reserved_cpus(config: Mapping[str, object]) -> CpuSet:
    text = given(config, "reservedSystemCPUs", "")
    try:
        return CpuSet.parse(text if isinstance(text, str) else read_text(text, "reservedSystemCPUs"))
    except ParseError as error:
        raise InputError(f"reservedSystemCPUs: {error}") from None


def _node_allocatable_reservation(config: Mapping[str, object], capacity: Quantities) -> Quantities:
    eviction = _texts(config, "evictionHard", DEFAULT_EVICTION)
    try:
        return node_allocatable_reservation(
            capacity,
            system_reserved=_quantities(config, "systemReserved"),
            kube_reserved=_quantities(config, "kubeReserved"),
            hard_eviction_memory=eviction.get("memory.available"),
        )
    except ParseError as error:
        raise InputError(f"evictionHard.memory.available: {error}") from None


def _capacity(machine: Machine) -> dict[str, Quantity]:
    capacity = {CPU: len(machine.cpus), MEMORY: sum(node.memory or 0 for node in machine.nodes)}
    for node in machine.nodes:
        for pages in node.huge_pages:
            name = hugepages_name(pages.page_size)
            capacity[name] = capacity.get(name, 0) + pages.total * pages.page_size
    return {name: Quantity.of(amount) for name, amount in capacity.items()}


def _distances(machine: Machine) -> Distances | None:
    if not all(node.distances for node in machine.nodes):
        return None
    return {node.id: node.distances for node in machine.nodes}


def _option_gates(gates: Mapping[str, bool], prefix: str) -> OptionGates:
    defaults = OptionGates()
    return OptionGates(
        alpha=gates.get(f"{prefix}AlphaOptions", defaults.alpha),
        beta=gates.get(f"{prefix}BetaOptions", defaults.beta),
    )


def _name(config: Mapping[str, object], key: str, default: str) -> str:
    return read_text(given(config, key, default), key)


def _texts(config: Mapping[str, object], key: str, default: Mapping[str, str] | None = None) -> Mapping[str, str]:
    fields = read_mapping(given(config, key, default or {}), key)
    return {name: read_text(value, f"{key}.{name}") for name, value in fields.items()}


def _booleans(config: Mapping[str, object], key: str) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, value in read_mapping(given(config, key, {}), key).items():
        if not isinstance(value, bool):
            raise InputError(f"{key}.{name}: must be true or false, not {shown(value)}")
        found[name] = value
    return found


def _quantities(config: Mapping[str, object], key: str) -> dict[str, Quantity]:
    fields = read_mapping(given(config, key, {}), key)
    return {name: read_quantity(value, f"{key}.{name}") for name, value in fields.items()}
