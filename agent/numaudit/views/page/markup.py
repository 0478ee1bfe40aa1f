"""Elements of HTML and SVG. Text becomes markup here and nowhere else, so that no name can forget to be escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from html import escape

from numaudit.errors import printable

_VOID = frozenset({"br", "col", "input", "meta"})
"""HTML elements that have no end tag."""
_DRAWN = frozenset({"circle", "line", "path", "rect"})
"""SVG elements without content, which close themselves."""
_LONGEST_NAME = 120
_HARMLESS = re.compile(r"[\w .,:;/%()=+*?!|-]*", re.ASCII)
"""Most texts of a page: in them is nothing to escape."""


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
