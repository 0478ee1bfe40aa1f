"""A machine as a scenario describes it, or as `numaudit topology -o json` wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from numaudit.containermanager.device.hints import Device
from numaudit.containermanager.plain import Document, read_mapping, read_quantity, shown
from numaudit.errors import ParseError, nearest
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

Devices = Mapping[str, Mapping[str, Device]]
"""Resource name -> device id -> device."""

_MACHINE = ("nodes", "cores", "sockets", "devices")
_NODE = ("id", "cpus", "memory", "hugepages", "distances")
_TOPOLOGY = (
    "apiVersion",
    "kind",
    "host",
    "generator",
    "takenAt",
    "nodes",
    "online",
    "possible",
    "cores",
    "sockets",
    "devices",
    "memoryTiers",
    "demotionEnabled",
    "numaBalancing",
    "problems",
)
_TOPOLOGY_NODE = (
    "numaNode",
    "cpus",
    "sockets",
    "cores",
    "memoryBytes",
    "hugePages",
    "distances",
    "memoryTier",
    "demotionTargets",
    "memorySpeed",
)
_LARGEST = 1 << 62


def read_machine(document: Document) -> Machine:
    """The machine: nodes, CPUs, memory with huge pages included. Raises InputError that names the place."""
    is_topology = isinstance(document.value, Mapping) and document.value.get("kind") is not None
    fields = document.fields(_TOPOLOGY if is_topology else _MACHINE)
    if fields.get("kind", "Topology") != "Topology":
        raise document.part("kind").error(f"a machine or a Topology is needed, not {shown(fields['kind'])}")
    nodes = [(_topology_node if is_topology else _node)(one) for one in document.part("nodes").elements()]
    if not nodes:
        raise document.part("nodes").error("a machine needs at least one node")
    nodes.sort(key=lambda one: one.id)
    _refuse_repeated(document, nodes)
    nodes = _with_all_page_sizes(nodes)
    return Machine(tuple(nodes), tuple(_cpus(document, nodes)), NodeSet.from_ids(node.id for node in nodes))


def read_devices(document: Document, machine: Machine) -> Devices:
    """`devices` of a machine: {resource: {device id: node}}; null = the plugin gives no topology, [] = an empty one."""
    plugins: dict[str, dict[str, Device]] = {}
    part = document.part("devices")
    for resource in _mapping(part):
        listed = part.part(resource)
        plugins[resource] = {name: _device(name, listed.part(name), machine) for name in _mapping(listed)}
    return plugins


def _device(name: str, place: Document, machine: Machine) -> Device:
    value = place.value
    if value is None:
        return Device(name)
    ids: list[int] = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, bool) or not isinstance(one, int):
            raise place.error(f"must be a node, a list of nodes or null, not {shown(one)}")
        if one not in machine.by_id:
            raise place.error(f"there is no node {shown(one)}; the machine has {machine.online}")
        ids.append(one)
    return Device(name, NodeSet.from_ids(ids))


def _node(place: Document) -> Node:
    fields = place.fields(_NODE)
    distances = fields.get("distances")
    if distances is not None and not isinstance(distances, list):
        raise place.part("distances").error(f"must be a list such as [10, 20], not {shown(distances)}")
    row = [_count(one) for one in place.part("distances").elements()]
    pages = place.part("hugepages")
    return Node(
        _id(place.part("id")),
        _cpu_list(place.part("cpus")),
        _size(place.part("memory")),
        tuple(sorted((_pages(size, pages.part(size)) for size in _mapping(pages)), key=lambda one: one.page_size)),
        dict(enumerate(row)),
    )


def _pages(size: str, place: Document) -> HugePages:
    with place.located():
        page_size = read_quantity(size, "").value
    if not page_size:
        raise place.error("a page needs a size such as 2Mi")
    return HugePages(page_size, _count(place))


def _topology_node(place: Document) -> Node:
    fields = place.fields(_TOPOLOGY_NODE)
    if fields.get("cpus", "") is None:
        raise place.part("cpus").error("the CPUs of this node were not known when the file was made: give them")
    distances = place.part("distances")
    return Node(
        _id(place.part("numaNode")),
        _cpu_list(place.part("cpus")),
        _count(place.part("memoryBytes")),
        tuple(
            HugePages(_count(one.part("pageSizeBytes")), _count(one.part("total")))
            for one in place.part("hugePages").elements()
        ),
        {int(node): _count(distances.part(node)) for node in _mapping(distances) if node.isdecimal()},
    )


def _with_all_page_sizes(nodes: list[Node]) -> list[Node]:
    """A kernel shows every page size on every node, with 0 pages where there are none."""
    sizes = sorted({pages.page_size for node in nodes for pages in node.huge_pages})
    all_of = [{pages.page_size: pages for pages in node.huge_pages} for node in nodes]
    return [
        replace(node, huge_pages=tuple(own.get(size, HugePages(size, 0)) for size in sizes))
        for node, own in zip(nodes, all_of, strict=True)
    ]


def _refuse_repeated(document: Document, nodes: list[Node]) -> None:
    ids = [node.id for node in nodes]
    for node in nodes:
        if ids.count(node.id) > 1:
            raise document.part("nodes").error(f"node {node.id} is given twice")
        if node.distances and len(node.distances) != len(nodes):
            raise document.part("nodes").error(
                f"node {node.id} has {len(node.distances)} distances, but there are {len(nodes)} nodes"
            )
        for other in nodes:
            both = (node.cpus or CpuSet()) & (other.cpus or CpuSet())
            if other.id < node.id and both:
                raise document.part("nodes").error(f"CPU {both} is on node {other.id} and on node {node.id}")
    for index, node in enumerate(nodes):
        if node.distances and node.distances.keys() != set(ids):
            nodes[index] = replace(node, distances=dict(zip(ids, node.distances.values(), strict=True)))


def _cpus(document: Document, nodes: list[Node]) -> Iterator[Cpu]:
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus or ()}
    cores = _groups(document.part("cores"), node_of)
    sockets = _groups(document.part("sockets"), node_of)
    socket_of = {cpu: index for index, cpus in enumerate(sockets) for cpu in cpus}
    core_of = {cpu: (index, cpus) for index, cpus in enumerate(cores) for cpu in cpus}
    for cpu, node in sorted(node_of.items()):
        core, siblings = core_of.get(cpu, (len(cores) + cpu, CpuSet.of(cpu)))
        if sockets and cpu not in socket_of:
            raise document.part("sockets").error(f"CPU {cpu} is on no socket: name them all, or leave sockets out")
        yield Cpu(cpu, node, socket_of.get(cpu), core, siblings)


def _groups(place: Document, known: Mapping[int, int]) -> list[CpuSet]:
    """Lists of CPUs, [[0, 1], [2, 3]] or ["0-1", "2-3"]; a CPU is in one at most."""
    groups: list[CpuSet] = []
    seen = CpuSet()
    for one in place.elements():
        listed = list(_cpu_list(one)) if isinstance(one.value, str) else [_count(cpu) for cpu in one.elements()]
        strange = [cpu for cpu in listed if cpu not in known]
        if strange:
            raise one.error(f"there is no CPU {shown(strange[0])}; name the CPUs of the nodes")
        cpus = CpuSet.from_ids(listed)
        if cpus & seen:
            raise one.error(f"CPU {cpus & seen} is given twice")
        seen |= cpus
        groups.append(cpus)
    return groups


def _mapping(place: Document) -> Mapping[str, object]:
    """A mapping; empty where it is absent. YAML takes a key of digits for a number."""
    if place.value is None:
        return {}
    with place.located():
        return read_mapping(place.value, "")


def _count(place: Document) -> int:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise place.error(f"must be a whole number, not {shown(value) if value is not None else 'absent'}")
    return value


def _id(place: Document) -> int:
    node = _count(place)
    if node >= NodeSet.limit:
        raise place.error(f"a node is a number below {NodeSet.limit}, not {node}")
    return node


def _size(place: Document) -> int:
    if place.value is None:
        raise place.error("is missing; give a quantity such as 64Gi")
    with place.located():
        size = read_quantity(place.value, "").value
    if size >= _LARGEST:
        raise place.error("is more memory than any machine has")
    return size


def _cpu_list(place: Document) -> CpuSet:
    if place.value is None:
        return CpuSet()
    text = shown(place.value) if isinstance(place.value, int) and not isinstance(place.value, bool) else place.value
    if not isinstance(text, str):
        raise place.error(f"must be a list of CPUs such as '0-3,8', not {shown(place.value)}")
    try:
        return CpuSet.parse(text)
    except (ParseError, ValueError) as error:
        raise place.error(str(error)) from None


def check_devices(wanted: Mapping[str, int], devices: Devices, place: Document) -> None:
    """Raise InputError for a device that no plugin of the machine lists."""
    for resource in wanted:
        if resource not in devices:
            known = nearest(resource, devices, f"; it has {', '.join(devices) or 'none'}")
            raise place.error(f"the machine has no device {resource}{known}; describe it in machine.devices")
