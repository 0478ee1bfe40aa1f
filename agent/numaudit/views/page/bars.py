"""A container's four bars over the nodes: promised, allowed, resident, accessed.

One path for each bar, since a page may have a thousand rows. Each has a shape of its own, so that no colour is needed
to tell them apart. The cells beside them say the same in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from numaudit.report.values import ContainerReport
from numaudit.views.page.markup import Markup, element

_WIDEST, _NARROWEST, _WHOLE = 26, 6, 208
"""Pixels of a node, and of all nodes where that leaves enough for each."""
HEIGHT = 26


def bars(container: ContainerReport, nodes: Sequence[int]) -> Markup:
    """The drawing; who cannot see it reads the other cells."""
    wide = _node_width(len(nodes))
    width = wide * len(nodes) + 1
    here = tuple(nodes)
    places = {node: number * wide for number, node in enumerate(here)}
    intended, resident = container.intended, container.resident
    promised = () if intended is None or intended.memory_nodes is None else intended.memory_nodes
    held = {} if resident is None else {row.numa_node: row.judged for row in resident}
    return element(
        "svg",
        _grid(len(nodes), wide),
        _set("promised", tuple(promised), here, 2, 4),
        _set("allowed", tuple(container.allowed_memory_nodes or ()), here, 9, 2),
        _path("resident", _shares(held, container.judged_bytes or 0, places, wide)),
        _accessed(container, wide * len(nodes)),
        viewBox=f"0 0 {width} {HEIGHT}",
        width=width,
        height=HEIGHT,
        aria_hidden="true",
    )


@lru_cache(8)
def _grid(nodes: int, wide: int) -> Markup | str:
    """The same for each container of a page."""
    return _path("grid", (f"M{number * wide} 0V{HEIGHT}" for number in range(nodes + 1)))


def _node_width(nodes: int) -> int:
    return max(_NARROWEST, min(_WIDEST, _WHOLE // max(nodes, 1)))


@lru_cache(1024)
def _set(name: str, nodes: tuple[int, ...], of: tuple[int, ...], top: int, high: int) -> Markup | str:
    """Nodes that a bar fills, of those of the page. Many containers have the same."""
    wide = _node_width(len(of))
    places = (of.index(node) * wide for node in nodes if node in of)
    return _path(name, (f"M{place + 2} {top}h{wide - 4}v{high}h{4 - wide}z" for place in places))


def _shares(held: Mapping[int, int], whole: int, places: Mapping[int, int], wide: int) -> Iterable[str]:
    """Of each node its share of the container's judged bytes; at least one pixel where there are any."""
    for node, amount in held.items():
        if amount and node in places:
            part = max(1, round((wide - 4) * amount / whole))
            yield f"M{places[node] + 2} 13h{part}v5h-{part}z"


def _accessed(container: ContainerReport, wide: int) -> Markup | str:
    """The measured remote share, at least, drawn from the right."""
    if container.measured is None or not wide:
        return ""
    remote = round(wide * container.measured.lower)
    line = element("path", d=f"M0 22h{wide}", class_="used")
    return line if not remote else Markup(line + element("path", d=f"M{wide} 20h-{remote}v5h{remote}z", class_="far"))


def _path(name: str, parts: Iterable[str]) -> Markup | str:
    drawn = "".join(parts)
    return element("path", d=drawn, class_=name) if drawn else ""
