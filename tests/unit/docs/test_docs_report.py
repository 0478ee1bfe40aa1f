"""docs/report.md explains every column that a report and `numaudit top` may have."""

from __future__ import annotations

import inspect
import re

from numaudit.views import container_table, report_tables
from numaudit.views.top import columns
from pages import TOP

PAGE = (TOP / "docs/report.md").read_text(encoding="utf-8")
TITLE = re.compile(r"(?:Column|Filled)\(\s*\"[>~]?([A-Z][A-Z'% ]*)\"")


def test_every_column_is_explained() -> None:
    titles = {
        title
        for module in (container_table, report_tables, columns)
        for title in TITLE.findall(inspect.getsource(module))
    }
    assert len(titles) > 20
    cells = re.findall(r"^\| ([A-Z][A-Z'%, ]*) \|", PAGE, re.MULTILINE)
    explained = {title for cell in cells for title in cell.split(", ")}
    assert explained == titles | {"ANON", "SHMEM", "HUGETLB"}
