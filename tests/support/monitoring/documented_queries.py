"""Every query in PromQL that the documentation shows: in blocks of ```promql, one after a blank line each."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[3]


def queries_of(text: str) -> list[str]:
    """The queries of one page, without their comments, each on one line."""
    found = []
    for block in re.findall(r"^```promql\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for query in re.split(r"\n\s*\n", re.sub(r"#[^\n]*", "", block)):
            if query.strip():
                found.append(" ".join(query.split()))
    return found


def documented_queries() -> dict[str, str]:
    """`PAGE: QUERY` -> query."""
    pages = sorted((*TOP.glob("*.md"), *TOP.glob("docs/**/*.md")))
    return {
        f"{page.relative_to(TOP)}: {query}": query
        for page in pages
        for query in queries_of(page.read_text(encoding="utf-8"))
    }
