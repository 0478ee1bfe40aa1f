"""The page's part about the machine: the map with arcs to remote memory, the nodes' memory, distances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.containermanager.pod.spec import MEMORY
from numaudit.report.columns import ColumnPlaces, placed
from numaudit.report.node_columns import NODE_COLUMNS, node_rows
from numaudit.report.nodes import Occupants, occupants
from numaudit.report.values import NodeReport, Report
from numaudit.report.words import UNKNOWN, size
from numaudit.topology.nodeset import CpuSet
from numaudit.views.notes import rates_in_words
from numaudit.views.page.arcs import arc_list, arcs_drawing, arcs_of
from numaudit.views.page.markup import Markup, PageSection, box, columns_table, element, legend_item, short
from numaudit.views.page.node_map import CpuOwners, MappedNode, far, node_map, places
from numaudit.views.page.own_page import Addresses

_SHADES = 5
"""Classes of the style sheet: heat0 is a node's own memory, heat5 the longest way."""
_CAPTION = "Distances by the firmware: 10 = its own memory"


def heat_map(nodes: Sequence[NodeReport]) -> Markup:
    """From each node (rows) to each node (columns)."""
    if not any(node.distances for node in nodes):
        return element("p", "The firmware gives no distances between nodes.")
    ids = [node.numa_node for node in nodes]
    longest = max(distance for node in nodes for distance in node.distances.values())
    corner = element("th", "From node", scope="col")
    heads = (element("th", f"to {id_}", scope="col") for id_ in ids)
    rows = (
        element("tr", element("th", str(node.numa_node), scope="row"), (_cell(node, to, longest) for to in ids))
        for node in nodes
    )
    table = element(
        "table",
        element("caption", _CAPTION),
        element("thead", element("tr", corner, heads)),
        element("tbody", rows),
        class_="heat",
    )
    return box(table, aria_label=_CAPTION)


def _cell(node: NodeReport, to: int, longest: int) -> Markup:
    distance = node.distances.get(to)
    if distance is None:
        return element("td", UNKNOWN)
    own = node.distances.get(node.numa_node, 10)
    shade = max(round(_SHADES * far(distance, own, longest)), 1 if distance > own else 0)
    return element("td", str(distance), class_=f"heat{shade}")


_MAP = "Outer bar: the plan. Inner bar: what is used. Below it the node's CPUs."
_RESIDUAL = "Residual = the node's own count - containers - unattributed, each read on its own."


def nodes_part(report: Report, addresses: Addresses) -> PageSection:
    """The map, then the same and more in tables."""
    content = (
        _map(report, addresses),
        element("div", _memory(report), heat_map(report.nodes) if len(report.nodes) > 1 else "", class_="beside"),
        _accounts(report),
        *(element("p", line, class_="facts") for line in rates_in_words(report)),
        _holders(report),
    )
    return PageSection("nodes", "Nodes", content)


def _map(report: Report, addresses: Addresses) -> Markup:
    nodes = _mapped(report)
    height, anchors = places(nodes)
    arcs, more = arcs_of(report.containers, anchors)
    links = {number: addresses.nearest(arc.container) for number, arc in enumerate(arcs)}
    drawn = [node_map(nodes)]
    if arcs:
        drawn.append(arcs_drawing(arcs, height, anchors))
    if arcs or more:
        drawn.append(element("div", element("h3", "From CPUs to memory"), arc_list(arcs, more, links)))
    legend = element("figcaption", _MAP, element("ul", _legend(nodes), class_="legend"))
    return element("figure", element("div", drawn, class_="map"), legend)


def _mapped(report: Report) -> list[MappedNode]:
    manager = report.memory_manager
    reserved = {one.numa_node: one.system_reserved for one in (manager.tables if manager else ()) if one.type == MEMORY}
    held: dict[int, int] = {}
    for one in report.containers:
        for row in one.resident or ():
            held[row.numa_node] = held.get(row.numa_node, 0) + row.judged
    cpus = CpuOwners.of(report)
    return [
        MappedNode(
            row.node,
            reserved.get(row.node.numa_node),
            row.promised_bytes,
            held.get(row.node.numa_node, 0),
            (row.elsewhere.remote if manager is None else row.elsewhere.misplaced) or 0,
            tuple(cpus.runs(row.node.cpus or CpuSet())),
        )
        for row in node_rows(report)
    ]


def _legend(nodes: list[MappedNode]) -> Iterator[Markup]:
    """Return the colours that the map has."""
    has_map = any(one.promised_bytes is not None for one in nodes)
    kinds = {run.kind for one in nodes for run in one.cpus}
    memory = (
        ("system", "reserved for the system", has_map),
        ("plan", "promised", has_map),
        ("resident", "containers", True),
        ("other", "other use", True),
        ("stray", "outside its promise" if has_map else "on nodes without its CPUs", any(n.wrong_bytes for n in nodes)),
        ("track", "free", True),
    )
    yield element("li", element("strong", "Memory"))
    yield from (_swatch(kind, words) for kind, words, shown in memory if shown)
    cpus = (("reserved", "reserved"), ("exclusive", "exclusive"), ("shared", "shared"))
    if kinds & {"reserved", "exclusive", "shared"}:
        yield element("li", element("strong", "CPUs"))
        yield from (_swatch(f"cpu {kind}", words) for kind, words in cpus if kind in kinds)


def _swatch(kind: str, words: str) -> Markup:
    return legend_item(element("rect", x=0.5, y=0.5, width=21, height=11, class_=kind), words)


def _memory(report: Report) -> Markup:
    return columns_table("Memory of each node", placed(NODE_COLUMNS, "page", report), node_rows(report))


def _accounts(report: Report) -> Markup:
    """Return what adds up to all of a node, folded away."""
    columns = [(column, place) for column, place in placed(NODE_COLUMNS, "page", wide=True) if _is_of_account(place)]
    table = columns_table("Accounts of each node", columns, node_rows(report))
    return element(
        "details", element("summary", "Memory of no container"), table, element("p", _RESIDUAL, class_="facts")
    )


def _is_of_account(place: ColumnPlaces) -> bool:
    return place.wide_only or place.at == 0


def _holders(report: Report) -> Markup:
    """Return the containers with most judged memory on each node, folded away."""
    items = (
        element("li", element("strong", f"Node {node.numa_node}"), f": {_names(occupants(report, node.numa_node))}")
        for node in report.nodes
    )
    return element("details", element("summary", "The largest containers of each node"), element("ul", items))


def _names(held: Occupants) -> str:
    named = [f"{'! ' if one.mark or one.outside else ''}{short(one.name)} {size(one.bytes)}" for one in held.largest]
    more = [f"and {held.others} more {size(held.bytes_of_others)}"] if held.others else []
    return ", ".join([*named, *more]) or "no container of this report"
