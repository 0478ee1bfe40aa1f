"""The project's pages in Markdown, and the code that they show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[3]
PAGES = sorted(
    page for where in ("*.md", ".github/**/*.md", "docs/**/*.md", "tests/**/README.md") for page in TOP.glob(where)
)


def code_of(page: Path) -> Iterator[str]:
    """Each line of code blocks and each code span. Output that a command printed is no code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<!-- (?:example|lab).*?<!-- end -->", "", text, flags=re.DOTALL)
    for block in re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))


@cache
def anchors(page: Path) -> frozenset[str]:
    """What a link may end with: the headings of a page, as GitHub names them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(found)
