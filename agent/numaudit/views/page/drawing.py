"""The machine as a drawing: a box for each node with its CPUs, its memory and who is on it.

Colours are attributes, which every viewer of SVG understands; in a page a style sheet overrides them by class. What a
colour says, a word or a pattern says too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from numaudit.report.sums.occupants import Occupant, Occupants
from numaudit.topology.sizes import in_units
from numaudit.views.page.markup import Markup, element, join, raw, short

INK, PALE, PAPER, HELD, WRONG, OTHER = "#1c1c1e", "#5a5a60", "#ffffff", "#2a6db0", "#b3261e", "#8a8a90"
STYLE = """\
@media (prefers-color-scheme:dark){
.paper{fill:#17181c}.box{stroke:#8a8a90;fill:#17181c}.ink{fill:#e8e8ea}.pale{fill:#b4b4ba}
.held{fill:#6fb1f0}.wrong{fill:#ff8a80}.hatch{stroke:#b4b4ba}}
@media print{.paper,.box{fill:#fff}.ink{fill:#000}.pale{fill:#333}.held{fill:#2a6db0}.wrong{fill:#b3261e}
.box{stroke:#5a5a60}.hatch{stroke:#8a8a90}}
"""
"""Of a drawing in dark mode and in print."""
_BOX, _GAP, _PAD, _LINE = 300, 12, 10, 17
_ROW = 4
"""Boxes side by side."""
_NAME, _TEXT = 30, 36
"""Characters of a name beside its amount, and of a line: what is longer loses its middle."""
_AMOUNT = 50
"""Pixels of an amount."""
_NARROWEST = 360
"""Pixels of a file, whose words on distances must fit."""
_CELL = 44
_FONT = "system-ui,DejaVu Sans,Verdana,sans-serif"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One node. None = not known."""

    numa_node: int
    cpus: str
    total: int | None
    free: int | None
    occupants: Occupants | None
    """None = the drawing is about the machine alone."""
    remarks: tuple[str, ...] = ()


def node_map(nodes: Sequence[DrawnNode], title: str) -> Markup:
    """The boxes. Who cannot see them gets the title; tables beside the drawing have every figure."""
    height, boxes = _boxes(nodes)
    width = _width_of(nodes)
    return element(
        "svg",
        element("title", title),
        _patterns(),
        boxes,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        font_family=_FONT,
        font_size=13,
    )


def machine_file(nodes: Sequence[DrawnNode], distances: Mapping[int, Mapping[int, int]], title: str) -> str:
    """A file of its own: the boxes, and the distances below them."""
    height, boxes = _boxes(nodes)
    matrix_height, matrix = _matrix(distances, height + _LINE)
    width = max(_width_of(nodes), _CELL * (len(distances) + 2), _NARROWEST)
    whole = height + _LINE + matrix_height
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        + element(
            "svg",
            element("title", title),
            element("desc", _in_words(nodes, distances)),
            element("style", raw(STYLE)),
            _patterns(),
            element("rect", width=width, height=whole, fill=PAPER, class_="paper"),
            boxes,
            matrix,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {whole}",
            width=width,
            height=whole,
            role="img",
            font_family=_FONT,
            font_size=13,
        )
        + "\n"
    )


def _in_words(nodes: Sequence[DrawnNode], distances: Mapping[int, Mapping[int, int]]) -> str:
    """The drawing for who cannot see it."""
    said = []
    for node in nodes:
        row = distances.get(node.numa_node) or {}
        away = ", ".join(f"{distance} to node {to}" for to, distance in row.items() if to != node.numa_node)
        facts = (f"memory {_known(node.total)}", _cpus(node), *node.remarks, *([f"distances {away}"] if away else []))
        said.append(f"Node {node.numa_node}: {'; '.join(facts)}.")
    return " ".join(said)


def _width_of(nodes: Sequence[DrawnNode]) -> int:
    return max(1, min(_ROW, len(nodes))) * (_BOX + _GAP) + _GAP


def _boxes(nodes: Sequence[DrawnNode]) -> tuple[int, Markup]:
    """Height and drawing; all boxes are as high as the highest."""
    lines = [tuple(_lines(node)) for node in nodes]
    high = 2 * _PAD + max(map(_head, nodes), default=0) - 12 + _LINE * max(map(len, lines), default=0)
    drawn = [
        element(
            "g",
            _box(node, text, high),
            transform=f"translate({_GAP + number % _ROW * (_BOX + _GAP)} {_GAP + number // _ROW * (high + _GAP)})",
        )
        for number, (node, text) in enumerate(zip(nodes, lines, strict=True))
    ]
    return _GAP + ceil(len(nodes) / _ROW) * (high + _GAP), join(drawn)


def _box(node: DrawnNode, lines: Sequence[Markup], high: int) -> Iterator[Markup]:
    yield element("rect", width=_BOX, height=high, rx=6, fill=PAPER, stroke=PALE, class_="box")
    yield _words(_PAD, _PAD + 12, f"Node {node.numa_node}", weight=700)
    yield from _memory_bar(node)
    for number, line in enumerate(lines):
        yield element("g", line, transform=f"translate({_PAD} {_PAD + _head(node) + number * _LINE})")


def _head(node: DrawnNode) -> int:
    """Pixels above the first line: the node's name, and the bar of its memory where that is drawn."""
    return 30 if node.occupants is None else 46


def _lines(node: DrawnNode) -> Iterator[Markup]:
    total = _known(node.total)
    yield _words(0, 0, f"memory {total}" if node.occupants is None else f"{_known(node.free)} free of {total}")
    yield _words(0, 0, short(_cpus(node), _TEXT))
    for remark in node.remarks:
        yield _words(0, 0, short(remark, _TEXT), pale=True)
    occupants = node.occupants
    if occupants is None:
        return
    for one in occupants.largest:
        yield _occupant(one)
    if occupants.others:
        yield _words(0, 0, f"and {occupants.others} more: {in_units(occupants.bytes_of_others)}", pale=True)
    elif not occupants.largest:
        yield _words(0, 0, "no container of this report", pale=True)


def _occupant(one: Occupant) -> Markup:
    """The whole name shows when it is pointed at."""
    name = f"! {one.name}" if one.mark else one.name
    words = _words(0, 0, short(name, _NAME), wrong=one.mark is not None)
    whole = element("g", element("title", short(one.name)), words, clip_path="url(#room)")
    return join((whole, _words(_BOX - 2 * _PAD, 0, in_units(one.bytes), end=True)))


def _memory_bar(node: DrawnNode) -> Iterator[Markup]:
    """Bar of a node's memory. Containers' part is solid, other use is hatched, free memory is empty."""
    top, wide = _PAD + 20, _BOX - 2 * _PAD
    if node.occupants is None or not node.total or node.free is None:
        return
    used = min(max(node.total - node.free, 0), node.total)
    held = min(node.occupants.bytes, used)
    yield element("rect", x=_PAD, y=top, width=wide * used / node.total, height=9, fill="url(#used)")
    if held:
        yield element("rect", x=_PAD, y=top, width=wide * held / node.total, height=9, fill=HELD, class_="held")
    yield element("rect", x=_PAD, y=top, width=wide, height=9, fill="none", stroke=PALE)


def _matrix(distances: Mapping[int, Mapping[int, int]], top: int) -> tuple[int, Markup]:
    """From each node (rows) to each node (columns); a frame marks a node's own."""
    if not any(distances.values()):
        return _LINE, _words(_GAP, top, "The firmware gives no distances between nodes.")
    ids = list(distances)
    cells = [_words(_GAP, top, "Distances between nodes, by the firmware", weight=700)]
    for column, to in enumerate(ids, start=1):
        cells.append(_words(column * _CELL + _GAP + 30, top + 22, f"N{to}", pale=True, end=True))
    for row, source in enumerate(ids, start=1):
        y = top + 22 + row * _LINE
        cells.append(_words(_GAP, y, f"N{source}", pale=True))
        for column, to in enumerate(ids, start=1):
            text = "?" if to not in distances[source] else str(distances[source][to])
            weight = 700 if source == to else None
            cells.append(_words(column * _CELL + _GAP + 30, y, text, weight=weight, end=True))
    return 40 + _LINE * len(ids), join(cells)


def _patterns() -> Markup:
    stroke = element("path", d="M0 5L5 0", stroke=OTHER, class_="hatch")
    used = element("pattern", stroke, id="used", width=5, height=5, patternUnits="userSpaceOnUse")
    room = element("rect", y=-_LINE, width=_BOX - 2 * _PAD - _AMOUNT, height=2 * _LINE)
    return element("defs", used, element("clipPath", room, id="room"))


def _words(
    x: int, y: int, text: str, *, weight: int | None = None, pale: bool = False, wrong: bool = False, end: bool = False
) -> Markup:
    fill, name = (WRONG, "wrong") if wrong else (PALE, "pale") if pale else (INK, "ink")
    return element(
        "text", text, x=x, y=y, fill=fill, class_=name, font_weight=weight, text_anchor="end" if end else None
    )


def _cpus(node: DrawnNode) -> str:
    return f"CPUs {node.cpus}" if node.cpus else "no CPUs"


def _known(value: int | None) -> str:
    return "?" if value is None else in_units(value)
