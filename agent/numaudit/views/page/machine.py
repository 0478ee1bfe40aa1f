"""The page's part about the machine: the drawing of its nodes, their memory, distances and headroom."""

from __future__ import annotations

from numaudit.api.document import Topology, TopologyNode
from numaudit.report.columns import placed
from numaudit.report.node_columns import NODE_COLUMNS, node_rows
from numaudit.report.sums.occupants import occupants
from numaudit.report.values import NodeReport, Report
from numaudit.report.words import or_unknown
from numaudit.topology.sizes import in_units
from numaudit.views.page.drawing import DrawnNode, machine_file, node_map
from numaudit.views.page.markup import Markup, element
from numaudit.views.page.part import PageSection
from numaudit.views.page.tables import box, table

_MAP = (
    "Solid = judged memory of containers of this report. Hatched = all else in use, such as page cache and the kernel. "
    "Empty = free. ! = misaligned. The tables have every figure."
)
_RESIDUAL = "Residual = the node's own count - containers - unattributed, each read on its own."


def topology_file(topology: Topology) -> str:
    """`numaudit topology -o svg`."""
    nodes = tuple(
        DrawnNode(one.numa_node, str(one.cpus), one.memory_bytes, None, None, _remarks(one)) for one in topology.nodes
    )
    number = "1 NUMA node" if len(nodes) == 1 else f"{len(nodes)} NUMA nodes"
    return machine_file(nodes, {one.numa_node: one.distances for one in topology.nodes}, f"A machine with {number}")


def _remarks(node: TopologyNode) -> tuple[str, ...]:
    cores = () if not node.cores else (f"{len(node.cpus)} CPUs, {node.cores} cores",)
    sockets = () if not node.sockets else (f"socket {', '.join(map(str, node.sockets))}",)
    pages = tuple(
        f"{in_units(one.page_size_bytes)} pages: {'?' if one.free is None else one.free} free of {one.total}"
        for one in node.huge_pages
    )
    return (*cores, *sockets, *pages)


def nodes_part(report: Report) -> PageSection:
    """The map with the containers in it, then the nodes and their distances as tables."""
    title = "Map of the NUMA nodes and the containers that hold most memory on each"
    drawn = node_map([_drawn(node, report) for node in report.nodes], title)
    content = (
        element("figure", box(drawn, aria_label="Map of the nodes"), element("figcaption", _MAP)),
        _memory(report),
        element("p", _RESIDUAL),
        _distances(report.nodes),
    )
    return PageSection("nodes", "Nodes", content)


def _memory(report: Report) -> Markup:
    columns = placed(NODE_COLUMNS, "page", report)
    titles = [column.heading(place) for column, place in columns]
    return table(
        "Memory of each node", titles, ([column.text(row) for column, _ in columns] for row in node_rows(report))
    )


def _drawn(node: NodeReport, report: Report) -> DrawnNode:
    held = occupants(report, node.numa_node)
    return DrawnNode(node.numa_node, str(node.cpus), node.total_bytes, node.free_bytes, held)


def _distances(nodes: tuple[NodeReport, ...]) -> Markup:
    if not any(node.distances for node in nodes):
        return element("p", "The firmware gives no distances between nodes.")
    titles = ("From node", *(f"to {node.numa_node}" for node in nodes))
    rows = ((str(node.numa_node), *(or_unknown(node.distances.get(to.numa_node)) for to in nodes)) for node in nodes)
    return table("Distances between nodes, by the firmware: 10 = its own memory", titles, rows)
