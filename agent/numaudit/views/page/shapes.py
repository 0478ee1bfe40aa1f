"""Colours, words and bars of the drawing of the machine.

Colours are attributes, which every viewer of SVG understands; the style sheet overrides them by class in dark mode and
in print. A sign or a pattern says the same as each colour.
"""

from __future__ import annotations

from numaudit.views.page.markup import Markup, element

INK, PALE, PAPER, CARD, EDGE = "#1c1c1e", "#55555c", "#ffffff", "#f4f5f7", "#9a9aa2"
HELD, WRONG, LOOSE = "#2a6db0", "#b3261e", "#7d7d9c"
FONT = "system-ui,DejaVu Sans,Verdana,sans-serif"
STYLE = """\
@media (prefers-color-scheme:dark){
.paper{fill:#17181c}.box{stroke:#5f6068;fill:#212329}.ink{fill:#e8e8ea}.pale{fill:#b4b4ba}.frame{stroke:#77787f}
.held{fill:#6fb1f0}.wrong{fill:#ff8a80}.loose{fill:#a3a3c2}.hatch{stroke:#8f9098}.bar,.cpu{stroke:#8f9098;fill:#17181c}
.arc{stroke:#ff8a80}.own{stroke:#8f9098;fill:#6fb1f0}.on{fill:#10141a}.core{fill:#33353d}}
@media print{.paper,.box,.bar,.cpu{fill:#fff}.ink{fill:#000}.pale{fill:#333}.held,.own{fill:#2a6db0}.wrong{fill:#b3261e}
.loose{fill:#7d7d9c}.box{stroke:#9a9aa2}.hatch{stroke:#9a9aa2}.on{fill:#fff}.core{fill:#cdd1d9}}
"""
LINE = 18
"""Pixels from one line of text to the next."""


def words(
    x: float,
    y: float,
    text: str,
    name: str = "ink",
    *,
    size: int | None = None,
    bold: bool = False,
    anchor: str | None = None,
) -> Markup:
    """One line of text; `name`: its class, which is also its colour."""
    fill = {"ink": INK, "pale": PALE, "wrong": WRONG, "on": PAPER}[name]
    weight = 600 if bold else None
    return element(
        "text", text, x=x, y=y, fill=fill, class_=name, font_size=size, font_weight=weight, text_anchor=anchor
    )


def bar(x: float, y: float, wide: float, high: float, name: str) -> Markup:
    """A filled part of a bar, or a swatch."""
    fill = {"held": HELD, "wrong": WRONG, "loose": LOOSE, "used": "url(#used)"}[name]
    return element("rect", x=x, y=y, width=wide, height=high, fill=fill, class_=None if name == "used" else name)


def empty(x: float, y: float, wide: float, high: float) -> Markup:
    """The whole of a bar, behind its parts."""
    return element("rect", x=x, y=y, width=wide, height=high, fill=PAPER, stroke=EDGE, class_="bar")
