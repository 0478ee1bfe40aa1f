"""docs/architecture.md names modules that are there, and no counter that needs more than four of them."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).parents[3]
PAGE = (TOP / "docs/architecture.md").read_text(encoding="utf-8")
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`")


def test_every_module_that_the_page_names_is_there() -> None:
    named = {name.removeprefix("agent/numaudit/") for name in MODULE.findall(PAGE) if "/x." not in name}
    assert len(named) > 8
    assert {name for name in named if not (TOP / "agent/numaudit" / name).exists()} == set()


def test_a_new_counter_needs_four_files_at_most() -> None:
    section = PAGE.partition("### A new counter, file by file\n")[2].partition("\n#")[0]
    rows = [set(MODULE.findall(line.rpartition(" | ")[2])) for line in section.splitlines() if line.startswith("| a")]
    assert len(rows) == 3
    assert all("exporters/catalogue.py" in files and len(files) <= 4 for files in rows)
