"""`numaudit topology -o svg`: the machine as a file."""

from __future__ import annotations

from numaudit.api.document import Topology, TopologyNode
from numaudit.topology.sizes import in_units, plural
from numaudit.views.page.drawing import DrawnNode, machine_file


def topology_file(topology: Topology) -> str:
    """`numaudit topology -o svg`."""
    nodes = tuple(
        DrawnNode(one.numa_node, str(one.cpus), one.memory_bytes, None, None, _remarks(one)) for one in topology.nodes
    )
    number = plural(len(nodes), "NUMA node")
    return machine_file(nodes, {one.numa_node: one.distances for one in topology.nodes}, f"A machine with {number}")


def _remarks(node: TopologyNode) -> tuple[str, ...]:
    cores = () if not node.cores else (f"{plural(len(node.cpus), 'CPU')}, {plural(node.cores, 'core')}",)
    sockets = () if not node.sockets else (f"socket {', '.join(map(str, node.sockets))}",)
    pages = tuple(
        f"{in_units(one.page_size_bytes)} pages: {'?' if one.free is None else one.free} free of {one.total}"
        for one in node.huge_pages
    )
    return (*cores, *sockets, *pages)
