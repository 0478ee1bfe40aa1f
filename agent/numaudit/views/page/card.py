"""One node of the machine as a card: its memory, its CPUs, its huge pages and who is on it.

Colours are attributes, which every viewer of SVG understands; the style sheet overrides them by class in dark mode and
in print. A sign or a pattern says the same as each colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from numaudit.api.document import TopologyNode
from numaudit.report.nodes import Occupant, Occupants
from numaudit.report.words import UNKNOWN, size
from numaudit.topology.machine import HugePages
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import in_units, plural, some_of
from numaudit.topology.tiers import MemorySpeed
from numaudit.views.page.markup import Markup, element, join, placed_at, short

INK, PALE, PAPER, CARD, EDGE = "#1c1c1e", "#55555c", "#ffffff", "#f4f5f7", "#9a9aa2"
HELD, WRONG, LOOSE = "#2a6db0", "#b3261e", "#7d7d9c"
FONT = "system-ui,DejaVu Sans,Verdana,sans-serif"
STYLE = """\
@media (prefers-color-scheme:dark){
.paper{fill:#17181c}.box{stroke:#5f6068;fill:#212329}.ink{fill:#e8e8ea}.pale{fill:#b4b4ba}.frame{stroke:#77787f}
.held{fill:#6fb1f0}.wrong{fill:#ff8a80}.loose{fill:#a3a3c2}.hatch{stroke:#8f9098}.bar,.cpu{stroke:#8f9098;fill:#17181c}
.own{stroke:#8f9098;fill:#6fb1f0}.on{fill:#10141a}.core{fill:#33353d}}
@media print{.paper,.box,.bar,.cpu{fill:#fff}.ink{fill:#000}.pale{fill:#333}.held,.own{fill:#2a6db0}.wrong{fill:#b3261e}
.loose{fill:#7d7d9c}.box{stroke:#9a9aa2}.hatch{stroke:#9a9aa2}.on{fill:#fff}.core{fill:#cdd1d9}}
"""
LINE = 18
"""Pixels from one line of text to the next."""


def words(
    x: float,
    y: float,
    text: str,
    name: str = "ink",
    *,
    size: int | None = None,
    bold: bool = False,
    anchor: str | None = None,
) -> Markup:
    """One line of text; `name`: its class, which is also its colour."""
    fill = {"ink": INK, "pale": PALE, "wrong": WRONG, "on": PAPER}[name]
    weight = 600 if bold else None
    return element(
        "text", text, x=x, y=y, fill=fill, class_=name, font_size=size, font_weight=weight, text_anchor=anchor
    )


def bar(x: float, y: float, wide: float, high: float, name: str) -> Markup:
    """A filled part of a bar, or a swatch."""
    fill = {"held": HELD, "wrong": WRONG, "loose": LOOSE, "used": "url(#used)"}[name]
    return element("rect", x=x, y=y, width=wide, height=high, fill=fill, class_=None if name == "used" else name)


def empty(x: float, y: float, wide: float, high: float) -> Markup:
    """The whole of a bar, behind its parts."""
    return element("rect", x=x, y=y, width=wide, height=high, fill=PAPER, stroke=EDGE, class_="bar")


_NAMED = 32
"""More CPUs are too many to have their numbers in them."""
_MOST = 512
"""More CPUs are not drawn."""
_GAP = 4
Size = tuple[int, int]


def cpu_grid(cpus: CpuSet, cores: Sequence[CpuSet], owners: Mapping[int, str], wide: int) -> tuple[int, Markup]:
    """Height and drawing. `owners`: of exclusive CPUs the name of the container."""
    groups = _groups(cpus, cores)
    named = len(cpus) <= _NAMED
    size = (26, 20) if named else (9, 10)
    x, y, drawn, done = 0, 0, [], 0
    for group in groups:
        core = len(group) * (size[0] + 1) + 3
        if x and x + core > wide:
            x, y = 0, y + size[1] + 4 + _GAP
        drawn.append(_core(group, x, y, size, owners, named))
        x += core + _GAP
        done += len(group)
        if done >= _MOST:
            break
    high = y + size[1] + 4 if groups else 0
    if done < len(cpus):
        drawn.append(words(0, high + 16, f"and {len(cpus) - done} more CPUs", "pale"))
        high += 20
    return high, join(drawn)


def _groups(cpus: CpuSet, cores: Sequence[CpuSet]) -> list[list[int]]:
    """The threads of each core of the node, in the order of their first; a CPU whose core is not known is alone."""
    of_core = {cpu: core for core in cores for cpu in core}
    seen: set[int] = set()
    groups: list[list[int]] = []
    for cpu in cpus:
        if cpu not in seen:
            group = [one for one in of_core.get(cpu, ()) if one in cpus] or [cpu]
            seen.update(group)
            groups.append(group)
    return groups


def _core(group: Sequence[int], x: int, y: int, size: Size, owners: Mapping[int, str], named: bool) -> Markup:
    wide, high = size
    box = element(
        "rect", x=x, y=y, width=len(group) * (wide + 1) + 3, height=high + 4, rx=3, fill="#cdd1d9", class_="core"
    )
    return join(
        (box, *(_cpu(cpu, x + 2 + at * (wide + 1), y + 2, size, owners, named) for at, cpu in enumerate(group)))
    )


def _cpu(cpu: int, x: int, y: int, size: Size, owners: Mapping[int, str], named: bool) -> Iterator[Markup]:
    owner = owners.get(cpu)
    title = element("title", f"CPU {cpu}" if owner is None else f"CPU {cpu}: {short(owner)}")
    name, fill = ("cpu", PAPER) if owner is None else ("own", HELD)
    square = element("rect", title, x=x, y=y, width=size[0], height=size[1], fill=fill, stroke=EDGE, class_=name)
    yield square
    if named:
        yield words(x + size[0] / 2, y + 14, str(cpu), "ink" if owner is None else "on", size=11, anchor="middle")


WIDE = 316
_PAD = 14
_ROOM = WIDE - 2 * _PAD
_NAME, _TEXT = 28, 38
"""Characters of a name beside its amount, and of a line: what is longer loses its middle."""
_BAR = 14
_DISTANCES = 32
"""Of one node, in words."""
Block = tuple[int, Markup]
"""Height and drawing."""


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
    parts += [_pages(one) for one in node.huge_pages if one.total]
    if card.occupants is not None:
        held = [
            f"{'outside its promise ' if one.outside else ''}{one.name} {in_units(one.bytes)}"
            for one in card.occupants.largest
        ]
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
        high, grid = cpu_grid(node.cpus, card.cores, card.owners or {}, _ROOM)
        yield high + 10, grid
    for pages in node.huge_pages:
        if pages.total:
            yield from _huge_pages(pages)
    if node.demotion_targets and card.demotes:
        yield from _lines(f"cold pages move to node {node.demotion_targets}", "pale")
    if node.memory_speed is not None:
        yield from _lines(_speed(node.memory_speed), "pale")
    if card.occupants is not None:
        yield 8, Markup("")
        yield from _occupants(card.occupants)


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
