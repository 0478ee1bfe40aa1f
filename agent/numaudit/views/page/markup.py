"""Elements of HTML and SVG. Text becomes markup here and nowhere else, so that no name can forget to be escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from numaudit.errors import printable

_VOID = frozenset({"br", "input", "meta"})
"""HTML elements that have no end tag."""
_DRAWN = frozenset({"circle", "line", "path", "rect"})
"""SVG elements without content, which close themselves."""
_LONGEST_NAME = 120


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Attribute = str | int | float | bool | None
"""True = without a value; False and None = not there."""
Child = str | Iterable[str]
"""Markup goes in as it is, every other text is escaped."""


def element(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element; `class_` is the attribute class, `aria_label` is aria-label."""
    tag = f"{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    if name in _VOID:
        return Markup(f"<{tag}>")
    if name in _DRAWN and not children:
        return Markup(f"<{tag}/>")
    return Markup(f"<{tag}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after another."""
    return Markup("".join(_text(child) if isinstance(child, str) else join(child) for child in children))


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
    return text if isinstance(text, Markup) else escape(printable(text))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{_text(_plain(value))}"'


def _plain(value: str | float) -> str:
    """A number with at most two decimals."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))
