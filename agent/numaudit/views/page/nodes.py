"""The page's part about the machine: the map with arcs to remote memory, the nodes' memory, distances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from numaudit.containermanager.pod.spec import MEMORY
from numaudit.report.cells import verdict, verdict_tone
from numaudit.report.columns import placed
from numaudit.report.node_columns import NODE_COLUMNS, node_rows
from numaudit.report.nodes import Occupants, occupants
from numaudit.report.values import ContainerReport, NodeReport, Report
from numaudit.report.words import UNKNOWN, display_name, size
from numaudit.topology.nodeset import CpuSet
from numaudit.views.notes import rates_in_words
from numaudit.views.page.lanes import is_misaligned, promised_nodes
from numaudit.views.page.markup import TONES, Markup, PageSection, box, columns_table, element, legend_item, short
from numaudit.views.page.node_map import Anchors, CpuOwners, MappedNode, far, node_map, places
from numaudit.views.page.own_page import Addresses

MOST = 6
_LANE, _FIRST = 21, 26
"""Pixels between arcs side by side, and of the innermost one."""
_LOOP = 16
"""Pixels of a node's row that an arc covers beyond its ends; arcs in one lane do not touch."""


class Arc(Struct, frozen=True):
    """One container whose CPUs and memory are on two nodes."""

    container: ContainerReport
    cpu_node: int
    memory_node: int
    bytes: int
    """Judged bytes on the memory's node."""

    @property
    def words(self) -> str:
        return f"CPUs on node {self.cpu_node}, {size(self.bytes)} on node {self.memory_node}"


def arcs_of(containers: Iterable[ContainerReport], nodes: Iterable[int]) -> tuple[tuple[Arc, ...], int]:
    """The worst, in the report's order: misaligned, or mostly remote; and how many of these have none."""
    here = frozenset(nodes)
    found: list[Arc] = []
    away = 0
    for one in containers:
        if is_misaligned(one) or _is_remote(one):
            away += 1
            arc = _arc(one) if len(found) < MOST else None
            if arc is not None and {arc.cpu_node, arc.memory_node} <= here:
                found.append(arc)
    return tuple(found), away - len(found)


def _is_remote(one: ContainerReport) -> bool:
    """Is most of its memory on nodes whose CPUs it may not use?"""
    return 2 * (one.remote_bytes or 0) > (one.judged_bytes or 0)


def _arc(one: ContainerReport) -> Arc | None:
    """None = its CPUs or its bytes are not known, it has none, or they are on one node."""
    held = {row.numa_node: row.judged for row in one.resident or () if row.judged}
    cpu = _cpu_node(one)
    if cpu is None or not held:
        return None
    promised = promised_nodes(one)
    memory = max(held, key=lambda node: (node != cpu, bool(promised) and node not in promised, held[node], -node))
    return None if memory == cpu else Arc(one, cpu, memory, held[memory])


def _cpu_node(one: ContainerReport) -> int | None:
    """Node where it ran most; where that is not measured, the first that it may run on, one without promise before."""
    ran = {on.numa_node: on.seconds for on in one.cpu_seconds or () if on.seconds}
    if ran:
        return max(ran, key=lambda node: (ran[node], -node))
    promised = promised_nodes(one)
    return min(one.allowed_cpu_nodes or (), key=lambda node: (node in promised, node), default=None)


def arcs_drawing(arcs: Sequence[Arc], height: int, anchors: Mapping[int, Anchors]) -> Markup:
    """Each from a dot at the CPUs to an arrow at the memory, with its number at the bend."""
    lanes = _lanes(arcs, anchors)
    width = _FIRST + _LANE * max(lanes, default=0) + 14
    return element(
        "svg",
        _arrow_head(),
        (
            element("g", _drawn(number, arc, lane, anchors))
            for number, (arc, lane) in enumerate(zip(arcs, lanes, strict=True), 1)
        ),
        width=width,
        height=height,
        aria_hidden="true",
        class_="arcs",
    )


def _lanes(arcs: Sequence[Arc], anchors: Mapping[int, Anchors]) -> list[int]:
    """Number of the lane of each arc, from the map on: short ones inside, and none over another."""
    spans = [sorted((anchors[arc.cpu_node].cpus, anchors[arc.memory_node].memory)) for arc in arcs]
    lanes = [0] * len(arcs)
    taken: list[list[tuple[int, int]]] = []
    for at in sorted(range(len(arcs)), key=lambda number: spans[number][1] - spans[number][0]):
        begin, end = spans[at]
        lane = 0
        while lane < len(taken) and any(begin - _LOOP < b and a < end + _LOOP for a, b in taken[lane]):
            lane += 1
        if lane == len(taken):
            taken.append([])
        taken[lane].append((begin, end))
        lanes[at] = lane
    return lanes


def _drawn(number: int, arc: Arc, lane: int, anchors: Mapping[int, Anchors]) -> Iterator[Markup]:
    begin, end = anchors[arc.cpu_node].cpus, anchors[arc.memory_node].memory
    bend = _FIRST + _LANE * lane
    pull = round(bend * 4 / 3)
    middle = (begin + end) / 2
    yield element("path", d=f"M3 {begin}C{pull} {begin} {pull} {end} 5 {end}", marker_end="url(#arrow)", class_="arc")
    yield element("circle", cx=3, cy=begin, r=3, class_="far")
    yield element("circle", cx=bend, cy=middle, r=9, class_="far")
    yield element("text", str(number), x=bend, y=middle + 4, text_anchor="middle", class_="number")


def _arrow_head() -> Markup:
    head = element("path", d="M8 0L0 4L8 8z", class_="far")
    return element(
        "defs",
        element(
            "marker", head, id="arrow", viewBox="0 0 8 8", refX=2, refY=4, markerWidth=8, markerHeight=8,
            markerUnits="userSpaceOnUse",
        ),
    )  # fmt: skip


def arc_list(arcs: Sequence[Arc], more: int, link: Mapping[int, str]) -> Iterator[Markup]:
    """The same in words. `link`: number of an arc -> address of its container."""
    if arcs:
        yield element("ol", (element("li", _item(arc, link[number])) for number, arc in enumerate(arcs)), class_="away")
    if more:
        words = f"{more} more misaligned or mostly remote" if arcs else f"{more} misaligned or mostly remote"
        yield element("p", element("a", words, href="#containers"), class_="facts")


def _item(arc: Arc, link: str) -> Iterator[Markup | str]:
    one = arc.container
    yield element("a", short(display_name(one)), href=link, class_="name")
    yield " "
    tone = verdict_tone(one)
    yield element("span", verdict(one), class_=None if tone is None else TONES[tone])
    yield element("span", arc.words, class_="words")


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
        element("p", _RESIDUAL, class_="facts"),
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


def _holders(report: Report) -> Markup:
    """Return the containers with most judged memory on each node, folded away."""
    items = (
        element("li", element("strong", f"Node {node.numa_node}"), f": {_names(occupants(report, node.numa_node))}")
        for node in report.nodes
    )
    return element("details", element("summary", "The largest containers of each node"), element("ul", items))


def _names(held: Occupants) -> str:
    named = [f"{'! ' if one.mark else ''}{short(one.name)} {size(one.bytes)}" for one in held.largest]
    more = [f"and {held.others} more {size(held.bytes_of_others)}"] if held.others else []
    return ", ".join([*named, *more]) or "no container of this report"
