"""The map of the machine: a row for each node with its memory and its CPUs, the nodes of a socket together.

Widths are shares of the drawing's own, so that it fits a phone and a wide window with letters of the same size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from msgspec import Struct

from numaudit.report.values import NodeReport, Report
from numaudit.report.words import cpu_list, display_name, size
from numaudit.topology.nodeset import CpuSet
from numaudit.views.page.markup import Markup, element, hatch, placed_at, short

CpuKind = Literal["reserved", "exclusive", "shared", "any"]
"""`any`: no CPU Manager gives CPUs away here, or it is not known."""


class CpuRun(Struct, frozen=True):
    """CPUs of one owner, side by side in the node's list."""

    kind: CpuKind
    count: int
    owner: str | None = None
    """Name of the container that has them exclusively; None = nobody's, or not known."""


def cpu_owners(report: Report) -> dict[int, str]:
    """Exclusive CPU -> name of its container."""
    promised = ((one, one.intended.cpus) for one in report.containers if one.intended is not None)
    return {cpu: display_name(one) for one, cpus in promised for cpu in cpus or ()}


def far(distance: int, own: int, longest: int) -> float:
    """Of the way from a node's own distance to the longest one, from 0 to 1: its shade."""
    return 0.0 if longest <= own else min(max(distance - own, 0) / (longest - own), 1.0)


def socket_title(sockets: Sequence[int]) -> str:
    """Heading of the nodes of the same sockets; empty = of none, or not known."""
    return f"Socket{'' if len(sockets) == 1 else 's'} {', '.join(map(str, sockets))}" if sockets else ""


class CpuOwners(Struct, frozen=True):
    """Of the whole host."""

    shared: CpuSet | None
    reserved: CpuSet
    owners: Mapping[int, str]

    @classmethod
    def of(cls, report: Report) -> CpuOwners:
        kubelet = report.kubelet
        if kubelet is None:
            return cls(None, CpuSet(), cpu_owners(report))
        return cls(kubelet.shared_cpus, kubelet.reserved_cpus or CpuSet(), cpu_owners(report))

    def runs(self, cpus: CpuSet) -> Iterator[CpuRun]:
        """In the order of their ids."""
        for (kind, owner), members in groupby(map(self._owner, cpus)):
            yield CpuRun(kind, len(list(members)), None if owner is None else short(owner))

    def _owner(self, cpu: int) -> tuple[CpuKind, str | None]:
        owner = self.owners.get(cpu)
        if owner is not None:
            return "exclusive", owner
        if cpu in self.reserved:
            return "reserved", None
        if self.shared is None:
            return "any", None
        return ("shared" if cpu in self.shared else "exclusive"), None


_ROW, _SOCKET = 66, 26
"""Pixels of a node and of a socket's heading."""
_MEMORY, _CPUS = (20, 18), (44, 9)
"""Top and height of the bars in a node's row."""
_USED = (25, 8)
"""Of the bar inside that of the memory."""
_FEW_CPUS = 32
"""So many are drawn one by one; more of one owner are one stretch."""


class MappedNode(Struct, frozen=True):
    """One node. None = not known, or there is no memory map."""

    node: NodeReport
    system_bytes: int | None
    promised_bytes: int | None
    container_bytes: int
    """Judged bytes of all containers."""
    wrong_bytes: int
    """Of these, bytes outside the promise of their container."""
    cpus: Sequence[CpuRun]


class Anchors(Struct, frozen=True):
    """Ends of the arcs at a node, in pixels from the top of the map."""

    cpus: int
    memory: int


def places(nodes: Sequence[MappedNode]) -> tuple[int, Mapping[int, Anchors]]:
    """Height of the map, and the anchors of each node."""
    top, found = 0, {}
    for heading, members in _by_socket(nodes):
        top += _SOCKET if heading else 0
        for one in members:
            found[one.node.numa_node] = Anchors(top + _CPUS[0] + _CPUS[1] // 2, top + _MEMORY[0] + _MEMORY[1] // 2)
            top += _ROW
    return top, found


def node_map(nodes: Sequence[MappedNode]) -> Markup:
    """The drawing, with all that it says in words."""
    return element(
        "svg",
        element("title", "Map of the NUMA nodes"),
        element("desc", " ".join(map(_in_words, nodes))),
        hatch("hatched", class_="hatching"),
        _rows(nodes),
        width="100%",
        height=places(nodes)[0],
        role="img",
        class_="nodes",
    )


def _rows(nodes: Sequence[MappedNode]) -> Iterator[Markup]:
    top = 0
    for heading, members in _by_socket(nodes):
        if heading:
            yield element("text", heading, x=0, y=top + 15, class_="socket")
            yield element("line", x1=0, x2="100%", y1=top + 20.5, y2=top + 20.5, class_="grid")
            top += _SOCKET
        for one in members:
            yield placed_at(0, top, _row(one))
            top += _ROW


def _by_socket(nodes: Sequence[MappedNode]) -> Iterator[tuple[str, list[MappedNode]]]:
    """Nodes of the same sockets together, with a heading; without one where no socket is known."""
    known = any(one.node.sockets for one in nodes)
    for sockets, members in groupby(sorted(nodes, key=_order), lambda one: one.node.sockets):
        yield (socket_title(sockets) or "Of no socket") if known else "", list(members)


def _order(one: MappedNode) -> tuple[bool, tuple[int, ...], int]:
    """Nodes without CPUs last."""
    return not one.node.sockets, one.node.sockets, one.node.numa_node


def _row(one: MappedNode) -> Iterator[Markup]:
    node = one.node
    name = element("tspan", f"Node {node.numa_node}", class_="name")
    yield element(
        "text", name, element("tspan", f"{size(node.free_bytes)} free of {size(node.total_bytes)}", dx=8), y=14
    )
    cpus = f"CPUs {_few(node.cpus)}" if node.cpus else "CPUs not known" if node.cpus is None else "no CPUs"
    yield element("text", cpus, x="100%", y=14, text_anchor="end", class_="roomy")
    yield from _memory(one)
    yield from _cpus(one)


def _few(cpus: CpuSet) -> str:
    text = str(cpus)
    return text if len(text) < 30 else f"{len(cpus)} in number"


def _memory(one: MappedNode) -> Iterator[Markup]:
    """The plan: reserved for the system, then promised. In it what is used: by others, by containers, and wrongly."""
    yield _bar(_MEMORY, 0, 1, "track")
    total, used = one.node.total_bytes, one.node.used_bytes
    if not total:
        return
    at = 0
    for amount, kind in ((one.system_bytes or 0, "system"), (one.promised_bytes or 0, "plan")):
        if amount:
            yield _bar(_MEMORY, at / total, amount / total, kind)
        at += amount
    if used is None:
        return
    wrong = min(one.wrong_bytes, used)
    held = min(max(one.container_bytes - wrong, 0), used - wrong)
    at = 0
    for amount, kind in ((used - held - wrong, "other"), (held, "resident"), (wrong, "stray")):
        if amount > 0:
            yield _bar(_USED, at / total, amount / total, kind)
        at += amount


def _cpus(one: MappedNode) -> Iterator[Markup]:
    whole = sum(run.count for run in one.cpus)
    at = 0
    for run in one.cpus:
        step = 1 if whole <= _FEW_CPUS else run.count
        for place in range(at, at + run.count, step):
            yield _bar(_CPUS, place / whole, step / whole, f"cpu {run.kind}", run.owner)
        at += run.count


def _bar(lane: tuple[int, int], at: float, part: float, kind: str, title: str | None = None) -> Markup:
    """Shares of the whole width; a part that exists can be seen."""
    at, part = min(max(at, 0), 0.997), min(max(part, 0.003), 1 - min(max(at, 0), 0.997))
    children = (element("title", title),) if title else ()
    x, width = f"{100 * at:.2f}%", f"{100 * part:.2f}%"
    return element("rect", *children, x=x, y=lane[0], width=width, height=lane[1], class_=kind)


def _in_words(one: MappedNode) -> str:
    node = one.node
    amounts = (
        ("reserved for the system", one.system_bytes),
        ("promised", one.promised_bytes),
        ("used", one.node.used_bytes),
        ("free", node.free_bytes),
        ("outside a promise", one.wrong_bytes or None),
    )
    said = [f"{size(amount)} {what}" for what, amount in amounts if amount is not None]
    kinds: dict[str, int] = {}
    for run in one.cpus:
        kinds[run.kind] = kinds.get(run.kind, 0) + run.count
    cpus = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if kind != "any")
    of_whom = f" ({cpus})" if cpus else ""
    return (
        f"Node {node.numa_node}: {size(node.total_bytes)} of memory, {', '.join(said) or 'nothing known of its use'}; "
        f"CPUs {cpu_list(node.cpus)}{of_whom}."
    )
