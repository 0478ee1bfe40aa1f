"""Drawings of one container: the lanes of its row, the lines of the last ticks, and the flow of its memory.

Lanes are over the nodes: promised, CPUs, bytes. What is outside its promise is red. One path for each lane and colour,
since a page may have a thousand rows. Each lane has a shape of its own, so that no colour is needed to tell them apart.
The words beside a drawing say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report import cells
from numaudit.report.values import ContainerReport
from numaudit.report.words import size
from numaudit.topology.nodeset import NodeSet
from numaudit.views.page.markup import Markup, element

_BOX, _HIGH = 116, 24
"""Pixels of a node's box."""
_COLUMNS = (0, 160, 320)
_ROW, _HEAD = 38, 24
_WIDTH = _COLUMNS[2] + _BOX
_THINNEST, _THICKEST = 1.5, 14


class Flow(Struct, frozen=True):
    """One container. Nodes of which a side knows nothing are not in it."""

    promised: tuple[int, ...]
    resident: Mapping[int, int]
    """Node -> judged bytes."""
    right: frozenset[int] | None
    """Nodes where they should be; None = not known."""
    used: Mapping[int, float]
    """Node -> share of its CPU time, or an equal share of each node that it may run on."""
    measured: bool
    """Was its CPU time measured?"""
    mark: str
    """Of an estimate."""
    rows: Mapping[int, int]
    """Node -> its row in the drawing."""
    wrong: bool = False
    """Is it misaligned?"""

    @classmethod
    def of(cls, one: ContainerReport) -> Flow:
        ran = {on.numa_node: on.seconds for on in one.cpu_seconds or () if on.seconds > 0}
        whole = sum(ran.values())
        may = tuple(one.allowed_cpu_nodes or ())
        used = {node: seconds / whole for node, seconds in ran.items()} if whole else {n: 1 / len(may) for n in may}
        right = right_nodes(one)
        held = {row.numa_node: row.judged for row in one.resident or () if row.judged}
        known = frozenset(node for node in held if right is not None and node in right)
        promised = promised_nodes(one)
        rows = {node: row for row, node in enumerate(sorted({*promised, *held, *used}))}
        of_right = None if right is None else known
        return cls(promised, held, of_right, used, bool(whole), cells.estimate(one), rows, is_misaligned(one))

    def is_stray(self, node: int) -> bool:
        return self.right is not None and node not in self.right


def flow(one: ContainerReport) -> Markup | str:
    """The drawing with the same in words; nothing where nothing is known."""
    found = Flow.of(one)
    if not found.rows:
        return ""
    height = _HEAD + _ROW * len(found.rows)
    drawing = element(
        "svg",
        _titles(found),
        _ribbons(found),
        _boxes(found),
        viewBox=f"0 0 {_WIDTH} {height}",
        aria_hidden="true",
        class_="flow",
    )
    return element("figure", drawing, element("figcaption", _in_words(found)))


def _titles(of: Flow) -> Iterator[Markup]:
    for x, title in zip(
        _COLUMNS, ("Promised", "Resident", "Used from" if of.measured else "May be used from"), strict=True
    ):
        yield element("text", title, x=x, y=13, class_="name")


def _middle(of: Flow, node: int) -> float:
    return _HEAD + of.rows[node] * _ROW + _HIGH / 2


def _ribbons(of: Flow) -> Iterator[Markup]:
    """Thick ones are many bytes. Red: to a node that was not promised, or of what is misaligned, used elsewhere."""
    whole = sum(of.resident.values())
    for node, amount in of.resident.items():
        part = amount / whole
        if of.promised:
            source = node if node in of.promised else min(of.promised, key=lambda other: abs(other - node))
            yield _ribbon(0, _middle(of, source), _middle(of, node), part, "strays" if of.is_stray(node) else "goes")
        for user, share in of.used.items():
            bad = of.wrong or of.is_stray(node) or (of.measured and of.promised)
            kind = "goes" if user == node else "strays" if bad else "elsewhere"
            kind = kind if of.measured else f"{kind} guessed"
            yield _ribbon(1, _middle(of, node), _middle(of, user), part * share, kind)


def _ribbon(gap: int, begin: float, end: float, part: float, kind: str) -> Markup:
    left, right = _COLUMNS[gap] + _BOX, _COLUMNS[gap + 1]
    middle = (left + right) / 2
    wide = max(_THINNEST, _THICKEST * part)
    path = f"M{left} {begin:g}C{middle:g} {begin:g} {middle:g} {end:g} {right} {end:g}"
    return element("path", d=path, stroke_width=wide, class_=kind)


def _boxes(of: Flow) -> Iterator[Markup]:
    for node in of.promised:
        yield _box(of, 0, node, f"node {node}", "promised")
    for node, amount in of.resident.items():
        yield _box(
            of, 1, node, f"node {node}: {size(amount)}", "promised stray-box" if of.is_stray(node) else "promised"
        )
    for node, share in of.used.items():
        words = f"node {node}: {of.mark}{share:.0%}" if of.measured else f"node {node}"
        yield _box(of, 2, node, words, "promised")


def _box(of: Flow, column: int, node: int, words: str, kind: str) -> Markup:
    x, y = _COLUMNS[column], _middle(of, node) - _HIGH / 2
    frame = element("rect", x=x + 0.5, y=y + 0.5, width=_BOX - 1, height=_HIGH - 1, rx=4, class_=kind)
    return element("g", frame, element("text", words, x=x + _BOX / 2, y=y + 16, text_anchor="middle"))


def _in_words(of: Flow) -> str:
    promised = NodeSet.from_ids(of.promised).in_words if of.promised else "no node that is known"
    held = [
        f"{size(amount)} on node {node}{' (outside)' if of.is_stray(node) else ''}"
        for node, amount in of.resident.items()
    ]
    if of.measured:
        shares = (f"node {node} ({of.mark}{share:.0%} of its CPU time)" for node, share in of.used.items())
        used = f"Used from: {', '.join(shares)}"
    elif of.used:
        used = f"May be used from: {NodeSet.from_ids(of.used).in_words}; its CPU time was not measured"
    else:
        used = "Used from: not known"
    return f"Promised: {promised}. Resident: {', '.join(held) or 'not known'}. {used}."


_STEP, _HIGH = 2, 22
"""Pixels between ticks, and of the line."""


def sparkline(
    values: Sequence[int | None], kept: int, words: Callable[[int], str], most: int | None = None
) -> Markup | str:
    """Right-aligned, for `kept` ticks; nothing before the second tick or where nothing is known.

    `most`: value at the top; None = the largest one. Who cannot see it gets the least, the most and the newest.
    """
    known = [value for value in values if value is not None]
    if len(values) < 2 or not known:
        return ""
    top = max(most or max(known), 1)
    first = kept - len(values)
    path, pen_is_down = "", False
    for at, value in enumerate(values):
        if value is not None:
            place = f"{_STEP * (first + at)} {1 + (_HIGH - 2) * (1 - min(value / top, 1)):.3g}"
            path += f"{'L' if pen_is_down else 'M'}{place}" + ("" if pen_is_down else "h1")
        pen_is_down = value is not None
    newest = "not known" if values[-1] is None else words(values[-1])
    said = f"{len(values)} ticks: least {words(min(known))}, most {words(max(known))}, newest {newest}"
    width = _STEP * (kept - 1)
    line = element("path", d=path, class_="trend")
    base = element("path", d=f"M0 {_HIGH - 0.5}h{width}", class_="grid")
    return element(
        "svg", element("title", said), base, line,
        viewBox=f"0 0 {width} {_HIGH}", width=width, height=_HIGH, role="img", class_="spark",
    )  # fmt: skip


_WIDEST, _NARROWEST, _WHOLE = 26, 6, 176
"""Pixels of a node, and of all nodes where that leaves enough for each."""
HEIGHT = 22
_PROMISED, _CPUS, _BYTES = (1, 4), (8, 4), (15, 6)
"""Top and height of each lane."""


def lanes(container: ContainerReport, nodes: Sequence[int]) -> Markup:
    """The drawing; who cannot see it reads the other cells."""
    here = tuple(nodes)
    promised = promised_nodes(container)
    wrong = is_misaligned(container)
    cpus = tuple(container.allowed_cpu_nodes or ())
    strays = tuple(node for node in cpus if wrong and promised and node not in promised)
    return _drawn(here, promised, cpus, strays, _bytes(container, here, _node_width(len(here))))


@lru_cache(4096)
def _drawn(
    here: tuple[int, ...],
    promised: tuple[int, ...],
    cpus: tuple[int, ...],
    strays: tuple[int, ...],
    resident: tuple[str, str],
) -> Markup:
    """Many containers look the same, for a node's bytes are drawn in whole pixels."""
    width = lanes_width(len(here))
    kept, stray = resident
    return element(
        "svg",
        _grid(len(here), _node_width(len(here))),
        _set("promised", promised, here, _PROMISED),
        _set("cpus", tuple(node for node in cpus if node not in strays), here, _CPUS),
        _set("stray", strays, here, _CPUS),
        _path("resident", (kept,)),
        _path("stray", (stray,)),
        viewBox=f"0 0 {width} {HEIGHT}",
        width=width,
        height=HEIGHT,
        aria_hidden="true",
    )


def lanes_width(nodes: int) -> int:
    """Pixels of the drawing."""
    return _node_width(nodes) * nodes + 1


def is_misaligned(container: ContainerReport) -> bool:
    return container.verdict is not None and container.verdict.name in MISALIGNED


def promised_nodes(container: ContainerReport) -> tuple[int, ...]:
    """Of its memory; empty = none were promised, or that is not known."""
    intended = container.intended
    return () if intended is None or intended.memory_nodes is None else tuple(intended.memory_nodes)


def right_nodes(container: ContainerReport) -> Container[int] | None:
    """Nodes where its bytes should be: the promised ones; without a promise, those of its CPUs. None = not known."""
    cpus = container.allowed_cpu_nodes
    return promised_nodes(container) or (None if cpus is None else tuple(cpus))


def _grid(nodes: int, wide: int) -> Markup | str:
    return _path("grid", (f"M{number * wide} 0V{HEIGHT}" for number in range(nodes + 1)))


def _node_width(nodes: int) -> int:
    return max(_NARROWEST, min(_WIDEST, _WHOLE // max(nodes, 1)))


def _set(name: str, nodes: tuple[int, ...], of: tuple[int, ...], lane: tuple[int, int]) -> Markup | str:
    """Nodes that a lane fills, of those of the page."""
    wide, (top, high) = _node_width(len(of)), lane
    places = (of.index(node) * wide for node in nodes if node in of)
    return _path(name, (f"M{place + 2} {top}h{wide - 4}v{high}h{4 - wide}z" for place in places))


def _bytes(container: ContainerReport, nodes: tuple[int, ...], wide: int) -> tuple[str, str]:
    """Of each node its share of the container's judged bytes, as a path of those that are right and one of strays.

    At least one pixel where there are any.
    """
    whole = container.judged_bytes
    if not container.resident or not whole:
        return "", ""
    right = right_nodes(container)
    top, high = _BYTES
    resident = stray = ""
    for row in container.resident:
        if row.judged and row.numa_node in nodes:
            part = max(1, round((wide - 4) * row.judged / whole))
            field = f"M{nodes.index(row.numa_node) * wide + 2} {top}h{part}v{high}h-{part}z"
            if right is None or row.numa_node in right:
                resident += field
            else:
                stray += field
    return resident, stray


def _path(name: str, parts: Iterable[str]) -> Markup | str:
    drawn = "".join(parts)
    return element("path", d=drawn, class_=name) if drawn else ""
