"""The lines around the rows of `numaudit top`."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from numaudit.report.values import Unknown
from numaudit.views.top import head
from reports import container, report


def _status(**changes: object) -> head.Status:
    return replace(head.Status("node-1", captured=False, interval=5.0, taken_at=1_700_000_000.0), **changes)  # type: ignore[arg-type]


def test_the_title_says_when_how_often_and_in_which_state() -> None:
    at = head.clock(1_700_000_000.0)
    assert head.title(_status()).plain == f"numaudit top  {at}, every 5 s  node-1"
    assert head.title(_status(paused=True)).plain == f"numaudit top  {at}, every 5 s  PAUSED  node-1"
    assert head.title(_status(stale=True)).plain == f"numaudit top  {at}, every 5 s  STALE  node-1"
    assert head.title(_status(taken_at=None)).plain == "numaudit top  measuring ...  node-1"
    assert "captured; it never changes" in head.title(_status(captured=True)).plain
    assert head.title(_status(rows="2 containers; 1 pod")).plain.endswith("  node-1  2 containers; 1 pod")


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
    line = head.foot("3 of 30", "misplaced", True, "prod", width).plain
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
