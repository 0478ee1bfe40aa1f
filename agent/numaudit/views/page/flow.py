"""The flow of a container's memory: where it was promised, where it is, and from where it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from numaudit.report.values import ContainerReport
from numaudit.report.words import size
from numaudit.topology.nodeset import NodeSet
from numaudit.views.page.lanes import promised_nodes, right_nodes
from numaudit.views.page.markup import Markup, element

_BOX, _HIGH = 92, 24
"""Pixels of a node's box."""
_COLUMNS = (0, 134, 268)
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
    rows: Mapping[int, int]
    """Node -> its row in the drawing."""

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
        return cls(promised, held, None if right is None else known, used, bool(whole), rows)

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
    """Thick ones are many bytes. Red: to a node that was not promised, or used from another node."""
    whole = sum(of.resident.values())
    for node, amount in of.resident.items():
        part = amount / whole
        if of.promised:
            source = node if node in of.promised else min(of.promised, key=lambda other: abs(other - node))
            yield _ribbon(0, _middle(of, source), _middle(of, node), part, "strays" if of.is_stray(node) else "goes")
        for user, share in of.used.items():
            kind = "goes" if user == node else "strays"
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
        words = f"node {node}: {share:.0%}" if of.measured else f"node {node}"
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
        shares = (f"node {node} ({share:.0%} of its CPU time)" for node, share in of.used.items())
        used = f"Used from: {', '.join(shares)}"
    elif of.used:
        used = f"May be used from: {NodeSet.from_ids(of.used).in_words}; its CPU time was not measured"
    else:
        used = "Used from: not known"
    return f"Promised: {promised}. Resident: {', '.join(held) or 'not known'}. {used}."
