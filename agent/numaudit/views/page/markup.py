"""Elements of HTML and SVG, and the frame of every page: head, style, script and the policy that names both.

Text becomes markup here and nowhere else, so that no name can forget to be escaped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from msgspec import Struct

from numaudit import __version__
from numaudit.errors import printable
from numaudit.report.cells import Tone
from numaudit.report.columns import Placed, Row


class Frame(Struct, frozen=True):
    """The part of a page that never changes."""

    style: str
    script: str
    policy: str
    """A browser that obeys it runs our script and style alone, whatever a name in the page may hold."""

    def page(self, title: str, *content: Child) -> str:
        """A whole page."""
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=self.policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("meta", name="generator", content=f"numaudit {__version__}"),
            element("title", title),
            element("style", raw(self.style)),
        )
        body = nested("body", *content, element("script", raw(self.script)))
        return "".join(("<!doctype html>\n", *nested("html", head, body, lang="en"), "\n"))


def frame(styles: tuple[str, ...], scripts: tuple[str, ...], *rules: str) -> Frame:
    """Of files in this package; `rules` are what the policy says besides."""
    style, script = _joined(styles), _joined(scripts)
    policy = (
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        *rules,
    )
    return Frame(style, script, "; ".join(policy))


def _joined(names: tuple[str, ...]) -> str:
    return "".join(files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    """Return the source expression for a text in a Content-Security-Policy (CSP level 2)."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


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


def columns_table(caption: str, columns: Sequence[Placed[Row]], rows: Iterable[Row]) -> Markup:
    """The same of columns that other views have too."""
    titles = [column.page_heading(place) for column, place in columns]
    return table(caption, titles, ([column.text(row) for column, _ in columns] for row in rows))


def explanations(columns: Iterable[Placed[Row]]) -> Markup:
    """What the columns mean, where that has to be said."""
    said = (f"{column.page_heading(place)} = {column.help}." for column, place in columns if column.help)
    return element("p", " ".join((*said, "? = not known.")), class_="facts")


def _cells(line: Sequence[str], kinds: Sequence[str | None]) -> Iterator[Markup]:
    for number, (text, kind) in enumerate(zip(line, kinds, strict=True)):
        class_ = "long" if len(text) > _LONGEST_LINE else kind
        is_head = number == 0 and text
        yield element("th", text, scope="row", class_=class_) if is_head else element("td", text, class_=class_)


_ITEMS = 3
"""Of a longer list the rest is folded away."""


def folded_list(items: Sequence[Markup]) -> Iterator[Markup]:
    """The first items, and the others folded."""
    yield element("ul", items[:_ITEMS])
    if rest := items[_ITEMS:]:
        yield element("details", element("summary", f"{len(rest)} more"), element("ul", rest))


class PageSection(Struct, frozen=True):
    """One section of the page."""

    id: str
    title: str
    content: Iterable[Markup | str]

    def section(self) -> list[Markup]:
        return nested("section", element("h2", self.title, id=self.id), self.content)


def links(parts: Iterable[PageSection]) -> Markup:
    """A way to each part, past tables of a thousand rows."""
    items = (element("li", element("a", part.title, href=f"#{part.id}")) for part in parts)
    return element("nav", element("ul", items), aria_label="Parts of this page")


_VOID = frozenset({"br", "col", "input", "meta"})
"""HTML elements that have no end tag."""
_DRAWN = frozenset({"circle", "line", "path", "rect"})
"""SVG elements without content, which close themselves."""
_LONGEST_NAME = 120
_HARMLESS = re.compile(r"[\w .,:;/%()=+*?!|-]*", re.ASCII)
"""Most texts of a page: in them is nothing to escape."""


TONES: dict[Tone, str] = {"good": "aligned", "bad": "bad", "unknown": "unknown"}
"""Classes of the style sheet."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Attribute = str | int | float | bool | None
"""True = without a value; False and None = not there."""
Child = str | Iterable[str]
"""Markup goes in as it is, every other text is escaped."""


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element; `class_` is the attribute class, `aria_label` is aria-label."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is not None and value is not False:
            parts.append(_attribute(key, value))
    if name in _VOID:
        parts.append(">")
    elif name in _DRAWN and not children:
        parts.append("/>")
    else:
        parts.append(">")
        for child in children:
            if type(child) is Markup:
                parts.append(child)
            else:
                _collect((child,), parts)
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def placed_at(x: float, y: float, *children: Child) -> Markup:
    """A part of a drawing at its place."""
    return element("g", *children, transform=f"translate({x} {y})")


def hatch(name: str, **stroke: Attribute) -> Markup:
    """A pattern of thin lines, for `url(#name)`."""
    line = element("path", d="M0 5L5 0", **stroke)
    return element("defs", element("pattern", line, id=name, width=5, height=5, patternUnits="userSpaceOnUse"))


def legend_item(shape: Markup, words: str) -> Markup:
    """A shape of 22 x 12 pixels at most, and its meaning."""
    return element("li", element("svg", shape, width=22, height=12, aria_hidden="true"), f" {words}")


def join(children: Iterable[Child]) -> Markup:
    """Children one after another."""
    parts: list[str] = []
    _collect(children, parts)
    return Markup("".join(parts))


def nested(name: str, /, *children: Child, **attributes: Attribute) -> list[Markup]:
    """The parts of an element that holds much of a page, whose text would be copied for each level around it."""
    end = f"</{name}>"
    parts: list[str] = [Markup(element(name, **attributes).removesuffix(end))]
    _collect(children, parts)
    return [part if type(part) is Markup else Markup(part) for part in (*parts, end)]


def _collect(children: Iterable[Child], parts: list[str]) -> None:
    for child in children:
        if type(child) is Markup:
            parts.append(child)
        elif isinstance(child, str):
            parts.append(_text(child))
        else:
            _collect(child, parts)


def raw(text: str) -> Markup:
    """Text of our own that is markup: a style sheet, a script. Never of a name from outside."""
    return Markup(text)


def prose(text: str) -> Iterator[str]:
    """A text of our own: what is between backticks is code. Never with a name from outside, which may have some."""
    for number, part in enumerate(text.split("`")):
        yield element("code", part) if number % 2 else part


def short(name: str, most: int = _LONGEST_NAME) -> str:
    """A long name with its middle left out: a cgroup's path may have 4096 characters, of which the last say most."""
    text = printable(name)
    if len(text) <= most:
        return text
    tail = 2 * most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def _text(text: str) -> str:
    return text if isinstance(text, Markup) or _HARMLESS.fullmatch(text) else escape(printable(text))


@lru_cache(4096, typed=True)
def _attribute(key: str, value: str | float) -> str:
    """`value`: True = without a value."""
    name = _name(key)
    return f" {name}" if value is True else f' {name}="{_text(_plain(value))}"'


@lru_cache(256)
def _name(key: str) -> str:
    """As it is in HTML."""
    return key.rstrip("_").replace("_", "-")


def _plain(value: str | float) -> str:
    """A number with at most two decimals."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
