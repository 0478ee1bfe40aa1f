"""The project's pages in Markdown, and the code that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGES = sorted(
    page for where in ("*.md", ".github/**/*.md", "docs/**/*.md", "tests/**/README.md") for page in TOP.glob(where)
)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))


def code_of(page: Path) -> Iterator[str]:
    """Each line of code blocks and each code span. Output that a command printed is no code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<!-- (?:example|lab).*?<!-- end -->", "", text, flags=re.DOTALL)
    for block in re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))
