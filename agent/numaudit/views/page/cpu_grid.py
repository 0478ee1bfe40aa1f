"""The CPUs of a node by their cores, those of each L3 cache in a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numaudit.topology.machine import Cache
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import in_units
from numaudit.views.page.markup import Markup, element, join, placed_at, short
from numaudit.views.page.shapes import EDGE, HELD, PAPER, words

_NAMED = 32
"""More CPUs are too many to have their numbers in them."""
_MOST = 512
"""More CPUs are not drawn."""
_GAP = 4
Size = tuple[int, int]
Block = tuple[int, Markup]
"""Height and drawing."""
LAST = 3
"""Level of the cache whose CPUs are framed."""
_HEADING, _LETTER = 20, 7
"""Pixels of a frame's title, and of a letter in it at most."""


def cpu_grid(
    cpus: CpuSet, cores: Sequence[CpuSet], owners: Mapping[int, str], wide: int, named: bool | None = None
) -> Block:
    """`owners`: of exclusive CPUs the name of the container; `named`: with their numbers, None = where they are few."""
    groups = _groups(cpus, cores)
    named = len(cpus) <= _NAMED if named is None else named
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


def framed_cpus(
    cpus: CpuSet, cores: Sequence[CpuSet], caches: Sequence[Cache], owners: Mapping[int, str], wide: int
) -> Iterator[Block]:
    """Those of each L3 cache in a frame, two of them side by side; then CPUs without one."""
    last = [one for one in caches if one.level == LAST]
    width = wide if len(last) == 1 else (wide - _GAP) // 2
    for at in range(0, len(last), wide // width):
        row = [_frame(cpus, cores, one, owners, width) for one in last[at : at + wide // width]]
        frames = (placed_at(column * (width + _GAP), 0, drawn) for column, (_, drawn) in enumerate(row))
        yield max(high for high, _ in row) + 8, join(frames)
    rest = cpus - CpuSet.from_ids(cpu for one in last for cpu in one.cpus)
    if rest:
        high, grid = cpu_grid(rest, cores, owners, wide, len(cpus) <= _NAMED)
        yield high + 10, grid


def _frame(cpus: CpuSet, cores: Sequence[CpuSet], cache: Cache, owners: Mapping[int, str], wide: int) -> Block:
    high, grid = cpu_grid(cpus & cache.cpus, cores, owners, wide - 2 * _GAP, len(cpus) <= _NAMED)
    high += _HEADING + _GAP
    frame = element("rect", width=wide, height=high, rx=4, fill="none", stroke=EDGE, class_="frame")
    title = words(_GAP + 2, 14, short(cache_title(cache, cpus), wide // _LETTER), "pale", size=11)
    return high, join((frame, title, placed_at(_GAP, _HEADING, grid)))


def cache_title(cache: Cache, cpus: CpuSet = CpuSet()) -> str:
    """L3 32Mi; with all its CPUs, where others than these share it."""
    name = f"L{cache.level}" if cache.bytes is None else f"L{cache.level} {in_units(cache.bytes)}"
    return name if cache.cpus <= cpus else f"{name} of CPUs {cache.cpus}"


def shared_below(caches: Sequence[Cache], cores: Sequence[CpuSet]) -> str | None:
    """L2 shared by CPUs 0-3; 4-7: caches below the last that several cores share; None = there are none."""
    shared = [str(one.cpus) for one in caches if one.level < LAST and len(one.cpus) > 1 and one.cpus not in cores]
    return f"L2 shared by CPUs {'; '.join(shared)}" if shared else None
