"""The CPUs of one node as squares, the threads of a core side by side in one box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numaudit.topology.nodeset import CpuSet
from numaudit.views.machine.ink import EDGE, HELD, PAPER, words
from numaudit.views.page.markup import Markup, element, join, short

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
