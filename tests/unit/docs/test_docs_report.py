"""docs/report.md explains every column that a report and `numaudit top` may have."""

from __future__ import annotations

import re

from numaudit.report.columns import ViewName, columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS
from screens.pages import TOP

VIEWS: tuple[ViewName, ...] = ("table", "top")
PAGE = (TOP / "docs/report.md").read_text(encoding="utf-8")


def test_every_column_is_explained() -> None:
    of_containers = {column.heading(place) for view in VIEWS for column, place in columns_of(view, wide=True)}
    of_nodes = {column.heading(place) for view in VIEWS for column, place in placed(NODE_COLUMNS, view)}
    titles = (of_nodes | of_containers) - {""}
    assert len(titles) > 20
    cells = re.findall(r"^\| ([A-Z][A-Z'%, ]*) \|", PAGE, re.MULTILINE)
    explained = {title for cell in cells for title in cell.split(", ")}
    assert explained == titles
