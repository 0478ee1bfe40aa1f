"""The lists of a row's columns: what every view relies on."""

from __future__ import annotations

from collections import Counter

import pytest

from made_up.reports import container, report
from numaudit.report.columns import COLUMNS, ViewName, columns_of, placed
from numaudit.report.node_columns import NODE_COLUMNS, node_rows


@pytest.mark.parametrize("view", ["table", "top", "page"])
def test_the_name_comes_first_and_no_two_columns_are_in_one_place(view: ViewName) -> None:
    columns = columns_of(view, wide=True)
    assert columns[0][0].title == "CONTAINER"
    assert max(Counter(place.at for _, place in columns).values()) == 1
    headings = [column.heading(place) for column, place in columns]
    assert len(set(headings)) == len(headings)


@pytest.mark.parametrize("view", ["table", "top", "page"])
def test_a_view_of_nodes_begins_with_the_node_and_has_each_heading_once(view: ViewName) -> None:
    columns = placed(NODE_COLUMNS, view, report())
    assert columns[0][0].title == "NODE"
    assert max(Counter(place.at for _, place in columns).values()) == 1
    assert max(Counter(column.heading(place) for column, place in columns).values()) == 1


def test_a_node_has_the_same_text_wherever_a_view_shows_it() -> None:
    row = node_rows(report(container()))[0]
    texts = {column.title: column.text(row) for column in NODE_COLUMNS}
    assert (texts["TOTAL"], texts["USED"], texts["FREE"]) == ("64Gi", "32Gi", "32Gi")
    assert (texts["PROMISED"], texts["REMOTE"], texts["RESIDUAL"]) == ("?", "0", "?")


def test_every_column_is_in_a_view() -> None:
    shown = [column for view in ("table", "top", "page") for column, _ in columns_of(view, wide=True)]
    assert set(map(id, COLUMNS)) == set(map(id, shown))
    of_nodes = [column for view in ("table", "top", "page") for column, _ in placed(NODE_COLUMNS, view)]
    assert set(map(id, NODE_COLUMNS)) == set(map(id, of_nodes))


def test_a_word_for_sorting_has_amounts_to_sort_by() -> None:
    words = [column.sort for column in COLUMNS if column.sort is not None]
    assert len(set(words)) == len(words)
    assert all(column.value is not None for column in COLUMNS if column.sort is not None)
