"""Tables that are wider than the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from numaudit.views.terminal.fit import Filled, fit, shorten, shorten_apart

NAMES = Filled("CONTAINER", 0, ["/a", "default/a-pod-with-a-long-name/app"])
VERDICT = Filled("VERDICT", 0, ["aligned", "unmanaged"])
QOS = Filled("QOS", 9, ["Guaranteed", "Burstable"])
FILE = Filled(">FILE", 8, ["1.5M", "0"])
EMPTY = Filled("PROMISED", 1, ["", ""])


def _titles(width: int, *columns: Filled) -> list[str]:
    return [column.title for column in fit(columns, width)[0]]


def test_with_enough_room_nothing_changes() -> None:
    columns = (NAMES, QOS, FILE, VERDICT, EMPTY)
    assert fit(columns, 200) == (list(columns), True)


def test_an_empty_column_leaves_first_then_the_highest_rank() -> None:
    assert _titles(60, NAMES, EMPTY, QOS, FILE, VERDICT) == ["CONTAINER", "QOS", ">FILE", "VERDICT"]
    assert _titles(50, NAMES, EMPTY, QOS, FILE, VERDICT) == ["CONTAINER", ">FILE", "VERDICT"]
    assert _titles(40, NAMES, EMPTY, QOS, FILE, VERDICT) == ["CONTAINER", "VERDICT"]


def test_columns_of_rank_0_stay_and_are_reported_to_have_no_room() -> None:
    kept, has_room = fit((NAMES, QOS, VERDICT), 20)
    assert [column.title for column in kept] == ["CONTAINER", "VERDICT"]
    assert not has_room


def test_a_column_that_can_be_folded_takes_no_more_than_its_least_width() -> None:
    folded = Filled("~BY NODE", 0, ["N0:1M " * 20, ""], least=10)
    assert fit((NAMES, folded), 50)[1]
    assert not fit((NAMES, Filled("BY NODE", 0, folded.cells)), 50)[1]


def test_a_name_loses_its_middle_and_keeps_both_ends() -> None:
    assert shorten("default/gu-sidecar-numanode/side", 20) == "default/gu-si…e/side"
    assert shorten("short", 20) == "short"


def test_a_name_of_wide_letters_is_shortened_until_it_fits() -> None:
    assert shorten("aa数数数数a数", 12) == "aa数数数…数"


@given(st.text("ab/é数", max_size=60), st.integers(12, 60))
def test_any_name_is_short_enough(name: str, width: int) -> None:
    assert cell_len(shorten(name, width)) <= width


def test_names_that_would_look_the_same_show_where_they_differ() -> None:
    pods = [f"/kubepods/burstable/pod1190-{one}e6-eae3-3a104bafa759/0123456789ab" for one in ("aa", "ab", "bb")]
    shown = shorten_apart([*pods, "/other", pods[0]], 30)
    assert len(set(shown[:3])) == 3
    assert (shown[3], shown[4]) == ("/other", shown[0])
    assert all(cell_len(one) <= 30 for one in shown)


@given(st.sets(st.text("ab/", min_size=30, max_size=60), max_size=40), st.integers(16, 30))
def test_different_names_are_never_shown_as_the_same(names: set[str], width: int) -> None:
    shown = shorten_apart(sorted(names), width)
    assert len(set(shown)) == len(names)
    assert all(cell_len(one) <= width for one in shown)


def test_thousands_of_names_that_differ_anywhere_stay_apart() -> None:
    names = [f"/{'a' * 20}{number % 100:02}{'b' * 30}{number:04}{'c' * 20}" for number in range(2000)]
    assert len(set(shorten_apart(names, 24))) == 2000
