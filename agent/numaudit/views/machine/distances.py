"""The distances between nodes as a matrix: the farther, the darker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numaudit.report.words import UNKNOWN
from numaudit.views.machine.ink import HELD, LINE, WRONG, words
from numaudit.views.page.markup import Markup, element, join

_MOST = 32
"""Nodes; of more the matrix would be wider than a screen."""
_HIGH = 26
_MOST_SHADE = 0.4
"""At a higher one the figure could not be read."""


def matrix(distances: Mapping[int, Mapping[int, int]]) -> tuple[int, int, Markup]:
    """Width, height and drawing: from each node (rows) to each node (columns)."""
    if not any(distances.values()):
        return 420, LINE, words(0, 12, "The firmware gives no distances between nodes.")
    ids = list(distances)[:_MOST]
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
    shade = 0.0 if distance is None or longest <= 10 else _MOST_SHADE * max(distance - 10, 0) / (longest - 10)
    fill, name = (HELD, "held") if own else (WRONG, "wrong")
    box = element(
        "rect", x=x + 1, y=y + 1, width=wide - 2, height=_HIGH - 2, rx=3,
        fill=fill, class_=name, fill_opacity=0.18 if own else max(shade, 0.04),
    )  # fmt: skip
    text = UNKNOWN if distance is None else str(distance)
    return join((box, words(x + wide / 2, y + 17, text, bold=own, anchor="middle")))
