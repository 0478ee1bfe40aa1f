"""A page of HTML as a strict parser sees it, and as somebody reads it who sees no drawing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

import html5lib

_BLOCKS = ("caption", "figcaption", "h1", "h2", "h3", "h4", "li", "p", "tr")
SVG = "{http://www.w3.org/2000/svg}svg"
_TIME = re.compile(r"Taken at [0-9: -]+ UTC")


def parse(page: str) -> Element:
    """The tree of a page. Raises html5lib's ParseError at the first thing that is not HTML."""
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    assert isinstance(tree, Element)
    return tree


def lines(page: str) -> Iterator[str]:
    """A line for each heading, paragraph, item and row, without the time at which the report was taken."""
    for one in parse(page).iter():
        if one.tag == "tr":
            yield f"tr: {' | '.join(map(text_of, one))}".rstrip()
        elif one.tag in _BLOCKS:
            yield _TIME.sub("Taken at TIME", f"{one.tag}: {text_of(one)}")


def text_of(element: Element) -> str:
    """All text in an element but that of blocks inside it, on one line."""
    return " ".join("".join(_texts(element, of=element)).split())


def _texts(element: Element, of: Element) -> Iterator[str]:
    if element is not of and element.tag in (*_BLOCKS, SVG):
        return
    yield element.text or ""
    for child in element:
        yield from _texts(child, of)
        yield child.tail or ""
