"""A node's kubelet and memory map, rebuilt from what its agent exports. Pure.

What is built is what the library takes from files elsewhere: the same start checks it and the same admission uses it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from numaudit.containermanager.memory.state import MachineState, MemoryState, MemoryTable, NUMANodeState
from numaudit.containermanager.memory.static_policy import MemoryPolicy
from numaudit.containermanager.pod.spec import CPU, HUGEPAGES_PREFIX, MEMORY
from numaudit.containermanager.predicates import PODS, Capacity
from numaudit.containermanager.topologymanager.hints import MOST_NODES
from numaudit.containermanager.topologymanager.policy import POLICIES, PREFER_CLOSEST
from numaudit.containermanager.versions import LATEST
from numaudit.errors import InputError, ParseError
from numaudit.fleet.answers import Sample
from numaudit.fleet.cpu_map import CpusThere, cpus_there, undecided
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.huge_pages import HugePageRoom
from numaudit.scenario.values import Setup
from numaudit.topology.machine import HugePages, Machine, Node
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import Quantity

_MANAGER = "numaudit_memory_manager_"
_UNREQUESTED = "numaudit_node_unrequested_"
_WHOLES = ("total", "system_reserved", "allocatable")
_EXACT = 1 << 53
"""A sample is a float64: larger numbers of bytes are not exact."""


class NotExported(Exception):
    """An agent exports too little to admit a pod; the message says what is missing."""


class NodeThere(Struct, frozen=True):
    """A kubelet somewhere else, as far as its agent tells; without devices."""

    setup: Setup
    state: NodeState
    notices: tuple[str, ...]
    """Notices about its version and gates."""
    no_cpus: str | None
    """Reason why CPUs do not count; None = they do, or no container gets any of its own there."""
    huge_pages: Mapping[str, HugePageRoom] = field(default_factory=dict)
    """By resource, where the agent exports the kernel's pools."""


def prefers_closest(samples: Iterable[Sample]) -> bool:
    """Does one of these policies ask for the machine's distances?"""
    return any(f"{PREFER_CLOSEST}=true" in one.label("topology_manager_options") for one in samples)


def is_static(samples: Iterable[Sample]) -> bool | None:
    """Does the Memory Manager of one agent promise anything? None = its policy is not known."""
    policies = {one.label("memory_manager") for one in samples if one.label("__name__") == "numaudit_node_policy_info"}
    known = policies - {""}
    return "Static" in known if known else None


def node_there(samples: Sequence[Sample], distances: Iterable[Sample] = ()) -> NodeThere:
    """The kubelet of one agent's samples (`queries.MAP`), with the Memory Manager's policy Static.

    Raises NotExported, also for numbers that make no memory map and for a configuration that no kubelet starts with.
    """
    machine_state = _machine_state(samples)
    if not machine_state:
        raise NotExported(
            "it exports no numaudit_memory_manager_total_bytes: the kubelet's checkpoint cannot be read there"
        )
    info = policy_info(samples)
    counts = _cpu_counts(samples)
    no_cpus = _why_no_cpus(info, counts)
    cpus = cpus_there({} if no_cpus is not None else counts)
    machine = _machine(machine_state, distances, cpus)
    version = info.label("kubernetes_version")
    newest = ".".join(map(str, LATEST))
    setup = Setup(machine, _configuration(samples, machine_state, cpus), version or newest)
    try:
        _, notices = setup.started
    except InputError as error:
        raise NotExported(f"no kubelet would start with what it exports: {error}") from None
    if not version:
        notices += (f"the kubelet's version is not known, so it is taken for {newest}",)
    state = NodeState(
        MemoryPolicy(MemoryState(machine_state)),
        cpus.state if cpus.cpus else None,
        capacity=capacity_there(samples),
    )
    return NodeThere(setup, state, notices, no_cpus, _rooms(samples, machine_state))


def capacity_there(samples: Iterable[Sample]) -> Capacity | None:
    """The rest that the pods there leave of the node as a whole; None = it is not known. Raises NotExported."""
    found: dict[str, int] = {}
    for one in samples:
        match one.label("__name__").removeprefix(_UNREQUESTED):
            case "cpus":
                found[CPU] = round(one.value * 1000)
            case "bytes":
                found[one.label("type")] = _whole(one, signed=True)
            case "pods":
                found[PODS] = _whole(one, signed=True)
    return Capacity(found) if found else None


def _rooms(samples: Sequence[Sample], machine: MachineState) -> dict[str, HugePageRoom]:
    """Free pages of the kernel, by resource; of a node or group whose series is missing nothing is known."""
    free: defaultdict[str, dict[int, int | None]] = defaultdict(dict)
    unclaimed: defaultdict[str, dict[NodeSet, int | None]] = defaultdict(dict)
    reserved: dict[str, int] = {}
    for one in samples:
        name = one.label("type")
        match one.label("__name__").removeprefix(_MANAGER):
            case "pool_bytes" if one.label("state") == "free":
                free[name][_node(one)] = _whole(one)
            case "pool_reserved_bytes":
                reserved[name] = _whole(one)
            case "unclaimed_bytes":
                unclaimed[name][NodeSet.from_ids(_group(one))] = _whole(one)
    rooms = {}
    for name, of_nodes in free.items():
        known = NodeSet.from_ids(node for group in unclaimed[name] for node in group)
        alone: dict[NodeSet, int | None] = {NodeSet.of(node): None for node in machine if node not in known}
        of_all = {node: of_nodes.get(node) for node in machine}
        rooms[name] = HugePageRoom(_page_size(name), of_all, {**alone, **unclaimed[name]}, reserved.get(name, 0))
    return rooms


def _cpu_counts(samples: Iterable[Sample]) -> dict[int, dict[str, int]]:
    counts: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for one in samples:
        if one.label("__name__") == "numaudit_cpu_manager_cpus":
            counts[_node(one)][one.label("state")] = _whole(one)
    if sum(sum(states.values()) for states in counts.values()) > NodeSet.limit:
        raise NotExported("its numaudit_cpu_manager_cpus are more than a machine has")
    return counts


def _why_no_cpus(info: Sample, counts: Mapping[int, Mapping[str, int]]) -> str | None:
    match info.label("cpu_manager"):
        case "none":
            return None
        case "static" if not counts:
            return "it exports no numaudit_cpu_manager_cpus: is its agent too old, or the checkpoint unreadable?"
        case "static":
            return undecided(_settings(info.label("cpu_manager_options")))
        case _:
            return "its numaudit_node_policy_info does not name the CPU Manager's policy"


def _machine_state(samples: Iterable[Sample]) -> MachineState:
    tables: defaultdict[int, defaultdict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
    assignments: dict[int, int] = {}
    groups: dict[int, tuple[int, ...]] = {}
    for one in samples:
        family = one.label("__name__").removeprefix(_MANAGER)
        if family == "bytes":
            tables[_node(one)][one.label("type")][one.label("state")] = _whole(one)
        elif family == "assignments":
            assignments[_node(one)] = _whole(one)
        elif family == "group":
            groups[_node(one)] = _group(one)
        elif family.removesuffix("_bytes") in _WHOLES:
            tables[_node(one)][one.label("type")][family.removesuffix("_bytes")] = _whole(one)
    if len(tables) > MOST_NODES:
        raise NotExported(f"it has {len(tables)} NUMA nodes, and at most {MOST_NODES} can be tried")
    for node in tables:
        if node not in assignments or (assignments[node] and node not in groups):
            family = "assignments" if node not in assignments else "group"
            raise NotExported(f"it exports no numaudit_memory_manager_{family} of node {node}; is the agent too old?")
    return {
        node: NUMANodeState(
            assignments[node],
            {name: _table(table, name, node) for name, table in sorted(tables[node].items())},
            groups[node] if assignments[node] else (node,),
        )
        for node in sorted(tables)
    }


def _table(found: Mapping[str, int], name: str, node: int) -> MemoryTable:
    for key in (*_WHOLES, "reserved", "free"):
        if key not in found:
            family = f'bytes{{state="{key}"}}' if key in ("reserved", "free") else f"{key}_bytes"
            raise NotExported(f"it exports no numaudit_memory_manager_{family} of {name} on node {node}")
    return MemoryTable(**{key: found[key] for key in (*_WHOLES, "reserved", "free")})


def _machine(state: MachineState, distances: Iterable[Sample], cpus: CpusThere) -> Machine:
    rows: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for one in distances:
        rows[_node(one, "from_numa_node")][_node(one, "to_numa_node")] = _whole(one)
    nodes = [
        Node(
            id_,
            cpus.of_node(id_),
            memory=_of_memory(node, id_).total,
            huge_pages=_huge_pages(node),
            distances=rows.get(id_, {}),
        )
        for id_, node in state.items()
    ]
    return Machine(tuple(nodes), cpus.cpus, NodeSet.from_ids(state))


def _of_memory(node: NUMANodeState, id_: int) -> MemoryTable:
    try:
        return node.memory_map[MEMORY]
    except KeyError:
        raise NotExported(f"it exports no memory of node {id_}") from None


def _huge_pages(node: NUMANodeState) -> tuple[HugePages, ...]:
    found = []
    for name, table in node.memory_map.items():
        if name.startswith(HUGEPAGES_PREFIX):
            size = _page_size(name)
            found.append(HugePages(size, table.total // size))
    return tuple(sorted(found, key=lambda one: one.page_size))


def _page_size(name: str) -> int:
    try:
        size = Quantity.parse(name.removeprefix(HUGEPAGES_PREFIX)).value
    except ParseError:
        size = 0
    if size <= 0:
        raise NotExported(f"it exports a resource {name[:60]!r}, which is not a page size")
    return size


def _configuration(samples: Iterable[Sample], state: MachineState, cpus: CpusThere) -> dict[str, object]:
    """The KubeletConfiguration."""
    info = policy_info(samples)
    policy = info.label("topology_manager")
    if policy not in POLICIES:
        raise NotExported("its numaudit_node_policy_info does not name the Topology Manager's policy")
    reserved = [
        {
            "numaNode": id_,
            "limits": {
                name: str(Quantity.of(table.system_reserved))
                for name, table in node.memory_map.items()
                if table.system_reserved
            },
        }
        for id_, node in state.items()
    ]
    cpu_manager = {"cpuManagerPolicy": "static", "reservedSystemCPUs": str(cpus.reserved)} if cpus.cpus else {}
    return {
        **cpu_manager,
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": policy,
        "topologyManagerScope": info.label("scope") or "container",
        "topologyManagerPolicyOptions": _settings(info.label("topology_manager_options")),
        "featureGates": {name: value == "true" for name, value in _settings(info.label("feature_gates")).items()},
        "reservedMemory": [one for one in reserved if one["limits"]],
    }


def policy_info(samples: Iterable[Sample]) -> Sample:
    found = [one for one in samples if one.label("__name__") == "numaudit_node_policy_info"]
    if not found:
        raise NotExported("it exports no numaudit_node_policy_info: the kubelet's settings are not known there")
    return found[0]


def _settings(text: str) -> dict[str, str]:
    """`name=true,other=false`"""
    pairs = (one.partition("=") for one in text.split(",") if one)
    return {name: value for name, _, value in pairs}


def _node(sample: Sample, label: str = "numa_node") -> int:
    text = sample.label(label)
    if not (text.isascii() and text.isdecimal()) or len(text) > 4 or int(text) >= NodeSet.limit:
        raise NotExported(f"its {sample.label('__name__')} has {label}={text[:20]!r}, which is not a node")
    return int(text)


def _group(sample: Sample) -> tuple[int, ...]:
    try:
        return tuple(NodeSet.parse(sample.label("group")))
    except (ParseError, ValueError):
        raise NotExported(f"its {sample.label('__name__')} has group={sample.label('group')[:20]!r}") from None


def _whole(sample: Sample, *, signed: bool = False) -> int:
    value = sample.value
    if not (-_EXACT if signed else 0) <= value <= _EXACT or value != int(value):
        raise NotExported(f"its {sample.label('__name__')} is {sample.stamped[1][:30]}, which is not an exact number")
    return int(value)
