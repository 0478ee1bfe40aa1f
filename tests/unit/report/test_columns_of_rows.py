"""The list of a row's columns: what every view relies on."""

from __future__ import annotations

from collections import Counter

import pytest

from numaudit.report.columns import COLUMNS, View, columns_of


@pytest.mark.parametrize("view", ["table", "top", "page"])
def test_the_name_comes_first_and_no_two_columns_are_in_one_place(view: View) -> None:
    columns = columns_of(view, wide=True)
    assert columns[0][0].title == "CONTAINER"
    assert max(Counter(place.at for _, place in columns).values()) == 1
    headings = [place.heading or column.title for column, place in columns]
    assert len(set(headings)) == len(headings)


def test_every_column_is_in_a_view() -> None:
    shown = [column for view in ("table", "top", "page") for column, _ in columns_of(view, wide=True)]
    assert set(map(id, COLUMNS)) == set(map(id, shown))


def test_a_word_for_sorting_has_amounts_to_sort_by() -> None:
    words = [column.sort for column in COLUMNS if column.sort is not None]
    assert len(set(words)) == len(words)
    assert all(column.value is not None for column in COLUMNS if column.sort is not None)
