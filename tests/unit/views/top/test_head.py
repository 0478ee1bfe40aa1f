"""The lines around the rows of `numaudit top`."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from made_up.reports import container, report
from numaudit.report.values import Unknown
from numaudit.views.top import head
from numaudit.views.top.columns import RowChoice


def _status(**changes: object) -> head.Status:
    return replace(head.Status("node-1", captured=False, interval=5.0, taken_at=1_700_000_000.0), **changes)


def test_the_title_says_when_how_often_and_in_which_state() -> None:
    at = head.clock(1_700_000_000.0)
    assert _title() == f"numaudit top  node-1{' ' * 41}{at}, every 5 s"
    assert _title(paused=True).endswith(f"  PAUSED  {at}, every 5 s")
    assert _title(stale=True).endswith(f"  STALE  {at}, every 5 s")
    assert _title(reading=True).endswith(f"  reading ...  {at}, every 5 s")
    assert _title(taken_at=None, reading=True).endswith("  reading ...  no figures yet, every 5 s")
    assert _title(captured=True).endswith("  captured")
    assert _title(rows="2 containers; 1 pod").startswith("numaudit top  node-1  2 containers; 1 pod  ")


def test_a_title_without_room_loses_its_left_side() -> None:
    said = _title(rows="2 containers; 1 pod; " + "30 slices " * 9)
    assert len(said) == 80
    assert said.endswith(f"…  {head.clock(1_700_000_000.0)}, every 5 s")


def _title(**changes: object) -> str:
    return head.title(_status(**changes), 80).plain


def test_a_failure_says_why_and_from_when_the_figures_are() -> None:
    assert head.failure(_status(), 80) is None
    said = head.failure(_status(failure="cannot read /sys/x: \x1b[31mno"), 80)
    assert said is not None
    assert said.plain.splitlines() == [
        "FAILED: cannot read /sys/x: \\x1b[31mno",
        f"below is what there was at {head.clock(1_700_000_000.0)}",
    ]
    long = head.failure(_status(failure="why " * 200), 80)
    assert long is not None
    assert [len(line) <= 80 for line in long.plain.splitlines()] == [True] * 3


def test_what_is_not_measured_is_named_and_explained() -> None:
    of = msgspec.structs.replace(report(container()), unknown=(Unknown("shmem", "cgroup v1 counts it as anon"),))
    assert head.not_measured(of) == "not measured: shmem, allowed; ? says why"
    assert list(head.why_not_measured(of)) == ["shmem: cgroup v1 counts it as anon", "allowed: unavailable: no cpuset"]
    assert head.not_measured(msgspec.structs.replace(of, unknown=(), sources=())) == ""


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_the_last_line_always_says_where_we_are(width: int) -> None:
    line = head.foot("3 of 30", RowChoice("misplaced", reverse=True, text="prod"), width).plain
    assert line.endswith("  3 of 30")
    assert len(line) == width


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("one two three four five", ["one two", "three f…"]),
        ("onetwothree four", ["onetwot…", "four"]),
        ("", [""]),
    ],
)
def test_a_sentence_is_cut_at_its_end(text: str, lines: list[str]) -> None:
    assert head.cut(text, 8, 2) == lines
