"""Arcs from the CPUs of a container to its memory on another node: which there are, and those beside the map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from numaudit.report.cells import verdict, verdict_tone
from numaudit.report.values import ContainerReport
from numaudit.report.words import display_name, size
from numaudit.views.page.card import WIDE
from numaudit.views.page.lanes import is_misaligned, promised_nodes
from numaudit.views.page.markup import TONES, Markup, element, join, short
from numaudit.views.page.node_map import Anchors
from numaudit.views.page.shapes import WRONG, words

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
    head = element("path", d="M8 0L0 4L8 8z", fill=WRONG, class_="far wrong")
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


Place = tuple[int, int]
"""Left and upper end of a node's card, in pixels."""
_MEMORY_AT, _CPUS_AT = 43, 90
"""Pixels below the upper end of a card: of the bar of its memory, and of its CPUs."""
_FIRST_LINE, _APART, _BELOW = 3.5, 2, 18
"""Pixels of the first line beside a card, between lines side by side, and between numbers."""


def between(arcs: Sequence[Arc], places: Mapping[int, Place]) -> Markup:
    """From the CPUs on one card, where its number is, through the gaps between cards to the memory on another."""
    ways = list(dict.fromkeys((arc.cpu_node, arc.memory_node) for arc in arcs))
    lines, badges = [], []
    for number, arc in enumerate(arcs, 1):
        (x, y), (to_x, to_y) = places[arc.cpu_node], places[arc.memory_node]
        lane = ways.index((arc.cpu_node, arc.memory_node))
        gap = _FIRST_LINE + _APART * lane
        begin = y + _CPUS_AT + _BELOW * sum(one.cpu_node == arc.cpu_node for one in arcs[: number - 1])
        end = to_y + _MEMORY_AT + _APART * lane
        way = f"M{x + WIDE} {begin}h{gap}V{to_y - gap}H{to_x + WIDE + gap}V{end}H{to_x + WIDE + 2}"
        title = element("title", f"{number}: {arc.words}")
        lines.append(element("path", title, d=way, fill="none", stroke=WRONG, marker_end="url(#arrow)", class_="arc"))
        badges.append(_badge(number, x + WIDE, begin))
    return element("g", _arrow_head(), lines, badges)


def _badge(number: int, x: int, y: int) -> Markup:
    text = words(x, y + 4, str(number), "on", size=11, bold=True, anchor="middle")
    return join((element("circle", cx=x, cy=y, r=8, fill=WRONG, class_="wrong"), text))


def listed(arcs: Sequence[Arc]) -> Markup:
    """The same in words, beside the drawing."""
    lines = [f"{short(display_name(arc.container), 60)}: {arc.words}" for arc in arcs]
    rows = (join((_badge(n, 8, 16 + 20 * n), words(24, 20 + 20 * n, line))) for n, line in enumerate(lines, 1))
    return element("g", words(0, 12, "From CPUs to memory", bold=True), rows)
