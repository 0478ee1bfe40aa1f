"""One node of the machine as a card: its memory, CPUs, caches, huge pages and devices, and who is on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from numaudit.api.document import TopologyNode
from numaudit.ranks.declaration import HeldDevice
from numaudit.report.nodes import Occupant, Occupants
from numaudit.report.words import UNKNOWN, size
from numaudit.topology.machine import Cache, HugePages
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import in_units, plural, some_of
from numaudit.topology.tiers import MemorySpeed
from numaudit.views.page.cpu_grid import LAST, Block, cache_title, framed_cpus, shared_below
from numaudit.views.page.markup import Markup, element, join, placed_at, short
from numaudit.views.page.shapes import CARD, EDGE, LINE, bar, empty, words

WIDE = 316
_PAD = 14
_ROOM = WIDE - 2 * _PAD
_NAME, _TEXT = 28, 38
"""Characters of a name beside its amount, and of a line: what is longer loses its middle."""
_BAR = 14
_MOST_DEVICES = 8
_DISTANCES = 32
"""Of one node, in words."""


class Card(Struct, frozen=True):
    """One node, and what the report knows of it."""

    node: TopologyNode
    cores: Sequence[CpuSet]
    free_bytes: int | None = None
    occupants: Occupants | None = None
    """None = the containers are not known."""
    owners: Mapping[int, str] | None = None
    """Exclusive CPU -> name of the container."""
    demotes: bool | None = None
    """Does the kernel move cold pages to slower tiers?"""
    caches: Sequence[Cache] = ()
    """Of its CPUs."""
    devices: Sequence[HeldDevice] = ()


def card_high(card: Card) -> int:
    return 2 * _PAD + sum(high for high, _ in _blocks(card))


def drawn_card(card: Card, high: int) -> Markup:
    """At the origin, as high as its neighbours."""
    parts, y = [element("rect", width=WIDE, height=high, rx=8, fill=CARD, stroke=EDGE, class_="box")], _PAD
    for block, markup in _blocks(card):
        parts.append(placed_at(_PAD, y, markup))
        y += block
    return element("g", parts)


def in_words(card: Card) -> str:
    """The card for who cannot see it."""
    node = card.node
    parts = [f"memory {size(node.memory_bytes)}", _cpus(node)]
    parts += [] if card.free_bytes is None else [f"{in_units(card.free_bytes)} free"]
    parts += [] if node.memory_tier is None else [f"memory tier {node.memory_tier}"]
    parts += [cache_title(one) for one in card.caches if one.level == LAST]
    parts += [_pages(one) for one in node.huge_pages if one.total]
    parts += [one.in_words for one in card.devices]
    if card.occupants is not None:
        held = [f"{'remote ' if one.outside else ''}{one.name} {in_units(one.bytes)}" for one in card.occupants.largest]
        parts += [f"holds {', '.join(held)}"] if held else []
    away = [f"{distance} to node {to}" for to, distance in node.distances.items() if to != node.numa_node]
    parts += [f"distances {some_of(away, _DISTANCES)}"] if away else []
    return f"Node {node.numa_node}: {'; '.join(parts)}."


def _blocks(card: Card) -> Iterator[Block]:
    node = card.node
    yield 26, _heading(node)
    yield from _memory(card)
    yield 6, Markup("")
    yield from _lines(_cpus(node))
    if node.cpus:
        yield from framed_cpus(node.cpus, card.cores, card.caches, card.owners or {}, _ROOM)
        if shared := shared_below(card.caches, card.cores):
            yield from _lines(shared, "pale")
    for pages in node.huge_pages:
        if pages.total:
            yield from _huge_pages(pages)
    yield from _devices(card.devices)
    if node.demotion_targets and card.demotes:
        yield from _lines(f"cold pages move to node {node.demotion_targets}", "pale")
    if node.memory_speed is not None:
        yield from _lines(_speed(node.memory_speed), "pale")
    if card.occupants is not None:
        yield 8, Markup("")
        yield from _occupants(card.occupants)


def _devices(devices: Sequence[HeldDevice]) -> Iterator[Block]:
    for one in devices[:_MOST_DEVICES]:
        yield LINE, join((empty(0.5, 2.5, 9, 9), words(16, 12, one.in_words)))
    if devices[_MOST_DEVICES:]:
        yield from _lines(f"and {len(devices) - _MOST_DEVICES} more PCI devices", "pale")


def _heading(node: TopologyNode) -> Markup:
    tier = () if node.memory_tier is None else (f"tier {node.memory_tier}",)
    kind = () if node.cpus != CpuSet() else ("memory only",) if node.memory_bytes else ("empty",)
    said = ", ".join((*kind, *tier))
    beside = [words(_ROOM, 14, said, "pale", anchor="end")] if said else []
    return join((words(0, 14, f"Node {node.numa_node}", size=16, bold=True), *beside))


def _memory(card: Card) -> Iterator[Block]:
    total, free = card.node.memory_bytes, card.free_bytes
    if not total or free is None:
        yield from _lines(f"memory {size(total)}")
        return
    used = min(max(total - free, 0), total)
    parts, x = [empty(0, 0, _ROOM, _BAR), bar(0, 0, _ROOM * used / total, _BAR, "used")], 0.0
    held = card.occupants
    amounts = () if held is None else (("held", held.promised), ("wrong", held.outside), ("loose", held.unpromised))
    for name, amount in amounts:
        wide = min(_ROOM * amount / total, _ROOM * used / total - x)
        if wide > 0:
            parts.append(bar(x, 0, max(wide, 1), _BAR, name))
            x += wide
    yield _BAR + 4, join(parts)
    yield from _lines(f"{in_units(free)} free of {in_units(total)}")


def _huge_pages(pages: HugePages) -> Iterator[Block]:
    yield from _lines(_pages(pages))
    if pages.total and pages.free is not None:
        used = _ROOM * min(max(pages.total - pages.free, 0), pages.total) / pages.total
        parts = [empty(0, 0, _ROOM, 6), *([bar(0, 0, used, 6, "loose")] if used else [])]
        yield 12, join(parts)


def _pages(pages: HugePages) -> str:
    free = UNKNOWN if pages.free is None else pages.free
    return f"{in_units(pages.page_size)} pages: {free} free of {pages.total}"


def _speed(speed: MemorySpeed) -> str:
    latency, bandwidth = speed.read_latency_nanoseconds, speed.read_bytes_per_second
    figures = [] if latency is None else [f"{latency} ns"]
    figures += [] if bandwidth is None else [f"{in_units(bandwidth)}/s"]
    return f"reads by the firmware: {', '.join(figures)}" if figures else "no figures of reads by the firmware"


def _occupants(held: Occupants) -> Iterator[Block]:
    if not held.largest:
        yield from _lines("no memory of containers", "pale")
    for one in held.largest:
        yield LINE, _occupant(one)
    if held.others:
        yield from _lines(f"{held.others} more: {in_units(held.bytes_of_others)}", "pale")


def _occupant(one: Occupant) -> Markup:
    """The whole name shows when it is pointed at. A sign marks what is misaligned or outside its promise."""
    kind = "loose" if one.outside is None else "wrong" if one.outside else "held"
    wrong = one.outside or one.mark is not None
    text = words(16, 12, short(f"! {one.name}" if wrong else one.name, _NAME), "wrong" if wrong else "ink")
    amount = words(_ROOM, 12, in_units(one.bytes), anchor="end")
    title = short(one.name) if one.mark is None else f"{short(one.name)}: {one.mark}"
    return join((element("title", title), bar(0, 2, 10, 10, kind), text, amount))


def _lines(text: str, name: str = "ink") -> Iterator[Block]:
    yield LINE, words(0, 12, short(text, _TEXT), name)


def _cpus(node: TopologyNode) -> str:
    if not node.cpus:
        return "CPUs not known" if node.cpus is None else "no CPUs"
    cores = f" ({plural(node.cores, 'core')})" if node.cores and node.cores != len(node.cpus) else ""
    return f"CPUs {node.cpus}{cores}"
