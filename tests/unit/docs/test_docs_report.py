"""docs/report.md explains every column that a report and `numaudit top` may have."""

from __future__ import annotations

import inspect
import re

from numaudit.report.columns import View, columns_of
from numaudit.views.terminal import report_tables
from numaudit.views.top import columns
from pages import TOP

VIEWS: tuple[View, ...] = ("table", "top")
PAGE = (TOP / "docs/report.md").read_text(encoding="utf-8")
TITLE = re.compile(r"Filled\(\s*\"[>~]?([A-Z][A-Z'% ]*)\"")


def test_every_column_is_explained() -> None:
    of_nodes = {title for module in (report_tables, columns) for title in TITLE.findall(inspect.getsource(module))}
    of_containers = {place.heading or column.title for view in VIEWS for column, place in columns_of(view, wide=True)}
    titles = of_nodes | of_containers
    assert len(titles) > 20
    cells = re.findall(r"^\| ([A-Z][A-Z'%, ]*) \|", PAGE, re.MULTILINE)
    explained = {title for cell in cells for title in cell.split(", ")}
    assert explained == titles
