"""Pages of which a part is generated: it stands between `<!-- NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re


def fill(page: str, name: str, content: str) -> str:
    """The page with `content` in the place of that name."""
    pattern = rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)"
    filled, count = re.subn(pattern, lambda match: f"{match[1]}{content}{match[2]}", page, flags=re.DOTALL)
    assert count == 1, f"the page has no place marked {name!r}"
    return filled
