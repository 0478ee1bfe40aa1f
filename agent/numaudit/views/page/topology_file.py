"""`numaudit topology -o svg`: packages with the cards of their nodes, then a matrix of the distances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from numaudit.api.document import Topology, TopologyNode
from numaudit.encoding.value import Origin
from numaudit.ranks.declaration import HeldDevice
from numaudit.report.nodes import occupants
from numaudit.report.values import Report
from numaudit.report.words import UNKNOWN, in_utc
from numaudit.topology.machine import Cache
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import in_units, plural, some_of
from numaudit.views.page.arcs import Place, arcs_of, between, listed
from numaudit.views.page.card import WIDE, Card, card_high, drawn_card, in_words
from numaudit.views.page.markup import Markup, element, hatch, join, placed_at, raw, short
from numaudit.views.page.node_map import cpu_owners, far, socket_title
from numaudit.views.page.shapes import EDGE, FONT, HELD, LINE, PAPER, STYLE, WRONG, bar, empty, words

_MOST_IN_MATRIX = 32
"""Nodes; of more the matrix would be wider than a screen."""
_HIGH = 26
_MOST_SHADE = 0.4
"""At a higher one the figure could not be read."""


def matrix(distances: Mapping[int, Mapping[int, int]]) -> tuple[int, int, Markup]:
    """Width, height and drawing: from each node (rows) to each node (columns)."""
    if not any(distances.values()):
        return 420, LINE, words(0, 12, "The firmware gives no distances between nodes.")
    ids = list(distances)[:_MOST_IN_MATRIX]
    left = len(distances) - len(ids)
    wide = 44 if len(ids) <= 16 else 34
    parts = [words(0, 12, "Distances between nodes, by the firmware", bold=True), *_cells(distances, ids, wide)]
    high = 44 + _HIGH * len(ids)
    if left:
        parts.append(words(0, high + 14, f"and {left} more nodes", "pale"))
        high += 20
    return max(420, 44 + wide * len(ids)), high, join(parts)


def _cells(distances: Mapping[int, Mapping[int, int]], ids: Sequence[int], wide: int) -> Iterator[Markup]:
    longest = max(distance for row in distances.values() for distance in row.values())
    for column, to in enumerate(ids):
        yield words(44 + wide * column + wide / 2, 34, f"N{to}", "pale", anchor="middle")
    for row, source in enumerate(ids):
        y = 42 + row * _HIGH
        yield words(0, y + 17, f"N{source}", "pale")
        for column, to in enumerate(ids):
            distance = distances[source].get(to)
            yield _cell(44 + wide * column, y, wide, distance, longest, source == to)


def _cell(x: int, y: int, wide: int, distance: int | None, longest: int, own: bool) -> Markup:
    shade = 0.0 if distance is None else _MOST_SHADE * far(distance, 10, longest)
    fill, name = (HELD, "held") if own else (WRONG, "wrong")
    box = element(
        "rect", x=x + 1, y=y + 1, width=wide - 2, height=_HIGH - 2, rx=3,
        fill=fill, class_=name, fill_opacity=0.18 if own else max(shade, 0.04),
    )  # fmt: skip
    text = UNKNOWN if distance is None else str(distance)
    return join((box, words(x + wide / 2, y + 17, text, bold=own, anchor="middle")))


_ACROSS = 4
"""Cards side by side."""
_MOST = 64
"""Nodes; more are not drawn."""
_GAP, _PAD, _HEAD, _MARGIN = 14, 12, 36, 16
_NARROWEST = 880
"""Pixels, which the legend needs."""


class Package(Struct, frozen=True):
    """Nodes in one frame."""

    title: str
    cards: Sequence[Card]

    @property
    def across(self) -> int:
        return min(_ACROSS, len(self.cards))

    @property
    def wide(self) -> int:
        return self.across * (WIDE + _GAP) - _GAP + 2 * _PAD

    @property
    def rows(self) -> list[Sequence[Card]]:
        return [self.cards[at : at + self.across] for at in range(0, len(self.cards), self.across)]

    @property
    def high(self) -> int:
        return _HEAD + _PAD + sum(max(map(card_high, row)) + _GAP for row in self.rows) - _GAP

    def places(self) -> Iterator[tuple[Card, int, int, int]]:
        """Each card, its left and upper end, and its height."""
        y = _HEAD
        for row in self.rows:
            high = max(map(card_high, row))
            yield from ((card, _PAD + at * (WIDE + _GAP), y, high) for at, card in enumerate(row))
            y += high + _GAP


class Hardware(Struct, frozen=True):
    """Parts of the machine beside its nodes."""

    caches: Sequence[Cache] = ()
    devices: Sequence[HeldDevice] = ()


_NONE = Hardware()


def topology_file(
    topology: Topology, report: Report | None = None, origin: Origin | None = None, hardware: Hardware = _NONE
) -> str:
    """`numaudit topology -o svg`. With a report it also shows who is where, with an origin whose and of when it is."""
    packages = _packages(topology, report, hardware)
    frames, places, wide, y = _frames(packages)
    arcs, _ = arcs_of(() if report is None else report.containers, places)
    left = len(topology.nodes) - _MOST
    if left > 0:
        frames.append(words(_MARGIN, y + 14, f"and {left} more nodes", "pale"))
        y += 24
    matrix_wide, matrix_high, distances = matrix({one.numa_node: one.distances for one in topology.nodes})
    unplaced = [one.in_words for one in hardware.devices if one.numa_node is None]
    if unplaced and len(topology.nodes) > 1:
        frames.append(words(_MARGIN, y + 14, f"Of an unknown node: {some_of(unplaced, 3)}", "pale"))
        y += 24
    frames.append(placed_at(_MARGIN, y + 8, distances))
    if arcs:
        frames.append(placed_at(_MARGIN + matrix_wide + 40, y + 8, listed(arcs)))
        matrix_high = max(matrix_high, 24 + 20 * len(arcs))
        frames.append(between(arcs, places))
    y += 8 + matrix_high
    if report is not None:
        frames.append(placed_at(_MARGIN, y + 14, _legend()))
        y += 14 + 40
    if origin is not None:
        frames.append(words(_MARGIN, y + 24, _whose(origin), "pale"))
        y += 24
    wide = max(wide, matrix_wide + 2 * _MARGIN, _NARROWEST)
    return _document(frames, wide, y + _MARGIN, _title(topology), [one for box in packages for one in box.cards])


def _document(parts: Iterable[Markup], wide: int, high: int, title: str, cards: Iterable[Card]) -> str:
    drawing = element(
        "svg",
        element("title", title),
        element("desc", " ".join(map(in_words, cards))),
        element("style", raw(STYLE)),
        hatch("used", stroke=EDGE, class_="hatch"),
        element("rect", width=wide, height=high, fill=PAPER, class_="paper"),
        words(_MARGIN, 30, title, size=18, bold=True),
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {wide} {high}",
        width=wide,
        height=high,
        role="img",
        font_family=FONT,
        font_size=13,
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing}\n'


def _whose(origin: Origin) -> str:
    at = "captured at an unknown time" if origin.taken_at is None else in_utc(origin.taken_at)
    return f"{'Host not named' if origin.host is None else short(origin.host)}, {at}"


def _title(topology: Topology) -> str:
    listed = [one.cpus for one in topology.nodes if one.cpus is not None]
    cpus = f", {plural(sum(map(len, listed)), 'CPU')}" if len(listed) == len(topology.nodes) else ""
    known = [one.memory_bytes for one in topology.nodes if one.memory_bytes is not None]
    memory = f", {in_units(sum(known))}" if known else ""
    return f"A machine with {plural(len(topology.nodes), 'NUMA node')}{cpus}{memory}"


def _packages(topology: Topology, report: Report | None, hardware: Hardware) -> list[Package]:
    """Nodes of one socket together, then those without CPUs."""
    nodes = topology.nodes[:_MOST]
    by_socket = groupby((one for one in nodes if one.cpus), key=lambda one: one.sockets)
    groups = [
        (socket_title(sockets) if sockets else "Socket not known", list(members)) for sockets, members in by_socket
    ]
    for title, cpus in (("Without CPUs", CpuSet()), ("CPUs not known", None)):
        others = [one for one in nodes if one.cpus == cpus]
        groups += [(title, others)] if others else []
    owners = {} if report is None else cpu_owners(report)
    free = {} if report is None else {one.numa_node: one.free_bytes for one in report.nodes}

    def card(node: TopologyNode) -> Card:
        held = None if report is None else occupants(report, node.numa_node)
        caches = [one for one in hardware.caches if node.cpus and not node.cpus.isdisjoint(one.cpus)]
        here = {node.numa_node} if len(topology.nodes) > 1 else {node.numa_node, None}
        devices = [one for one in hardware.devices if one.numa_node in here]
        return Card(
            node, topology.cores, free.get(node.numa_node), held, owners, topology.demotion_enabled, caches, devices
        )

    return [Package(title, [card(one) for one in members]) for title, members in groups]


def _frames(packages: Sequence[Package]) -> tuple[list[Markup], dict[int, Place], int, int]:
    """Frames side by side while there is room for four cards; where each node's card is; their right and lower end."""
    most = _ACROSS * (WIDE + 2 * _PAD + _GAP)
    frames: list[Markup] = []
    places: dict[int, Place] = {}
    x, y, row, right = _MARGIN, 46, 0, 0
    for package in packages:
        if x > _MARGIN and x + package.wide > _MARGIN + most:
            x, y, row = _MARGIN, y + row + _GAP, 0
        frames.append(placed_at(x, y, _frame(package)))
        places |= {card.node.numa_node: (x + left, y + top) for card, left, top, _ in package.places()}
        x += package.wide + _GAP
        right, row = max(right, x), max(row, package.high)
    return frames, places, right - _GAP + _MARGIN, y + row + _GAP


def _frame(package: Package) -> Markup:
    frame = element(
        "rect", width=package.wide, height=package.high, rx=10, fill="none", stroke=EDGE,
        stroke_dasharray="5 4", class_="frame",
    )  # fmt: skip
    cards = (placed_at(x, y, drawn_card(card, high)) for card, x, y, high in package.places())
    return element("g", frame, words(_PAD, 20, package.title, "pale", bold=True), cards)


def _legend() -> Markup:
    """Two rows of three."""
    said = (
        ("held", "promised here, or an exclusive CPU"),
        ("wrong", "promised elsewhere, or away from its CPUs"),
        ("loose", "of containers without a promise"),
        ("used", "all else in use, such as page cache"),
        ("", "free; ! = misaligned or remote"),
    )
    parts: list[Markup] = []
    for number, (name, text) in enumerate(said):
        x, y = (0, 290, 610)[number % 3], number // 3 * 22
        parts.append(empty(x, y, 12, 12))
        parts += [bar(x, y, 12, 12, name)] if name else []
        parts.append(words(x + 18, y + 11, text, "pale"))
    return element("g", parts)
