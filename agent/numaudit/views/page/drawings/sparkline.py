"""A line of the last ticks, as small as a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numaudit.views.page.markup import Markup, element

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
