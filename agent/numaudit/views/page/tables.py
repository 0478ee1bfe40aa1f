"""Plain tables, and the box in which whatever is wider than the window scrolls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from numaudit.views.page.markup import Markup, element

_FIGURE = re.compile(r"[-+]?\d+(\.\d+)?([KMGT]i)?%?|none|[-?]?")
"""In a column of figures alone they are flush right."""
_LONGEST_LINE = 40
"""Characters of a cell that is not broken into lines."""


def box(child: Markup, **label: str) -> Markup:
    """A box in which content wider than the window scrolls, also by keyboard. `label`: an attribute of aria."""
    return element("div", child, class_="wide", role="region", tabindex=0, **label)


def table(caption: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A plain table in a box that scrolls; the first cell of a row is its heading, where it has text."""
    lines = tuple(rows)
    kinds = ["n" if all(map(_FIGURE.fullmatch, cells)) else None for cells in zip(*lines, strict=True)]
    kinds = kinds or [None] * len(titles)
    heads = (element("th", title, scope="col", class_=kind) for title, kind in zip(titles, kinds, strict=True))
    head = element("thead", element("tr", heads))
    body = element("tbody", (element("tr", _cells(line, kinds)) for line in lines))
    whole = element("table", element("caption", caption), head, body)
    return box(whole, aria_label=caption)


def _cells(line: Sequence[str], kinds: Sequence[str | None]) -> Iterator[Markup]:
    for number, (text, kind) in enumerate(zip(line, kinds, strict=True)):
        class_ = "long" if len(text) > _LONGEST_LINE else kind
        is_head = number == 0 and text
        yield element("th", text, scope="row", class_=class_) if is_head else element("td", text, class_=class_)
