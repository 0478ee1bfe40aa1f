"""docs/truth.md has what the guests' truth runs found last: tests/vm/truth.json, which `make truth` writes."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import truth_records
from documentation import kept_truth, truth_page
from documentation.marked_places import fill
from screens.pages import TOP
from truth_records import Comparison

MatchesGolden = Callable[[str, str], None]
PAGE = "docs/truth.md"
FOUND = truth_page.records()


def test_the_page_has_what_the_truth_runs_found(matches_golden: MatchesGolden) -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    for name, text in truth_page.parts(FOUND).items():
        page = fill(page, name, text)
    matches_golden(PAGE, page)


def test_every_figure_and_both_kernels_were_compared_with_the_truth() -> None:
    found = {(one["figure"], one["kernel"]) for one in FOUND if one["count"]}
    assert found == {
        (figure, kernel) for figure in (*truth_page.FIGURES, truth_page.PAGES) for kernel in ("6.1", "6.12")
    }


def test_no_statement_of_the_last_runs_was_false_as_the_page_says() -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    assert "Each trial has 20 ticks with an answer. No statement was false." in page
    assert [one for one in FOUND if one["false"]] == []
    assert {one["count"] for one in FOUND if one["figure"] == truth_page.PAGES} == {20}


def test_a_record_has_the_ranges_and_the_largest_errors() -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        truth_records.write("f", "w", "bytes", [Comparison(10, 12), Comparison(20, 15)], ["no"])
    lines = kept_truth.Records()
    with redirect_stdout(io.StringIO()) as shown:
        for part in (printed.getvalue()[:20], printed.getvalue()[20:], "a line\n"):  # it comes in pieces
            lines.write(part)
    assert shown.getvalue() == "a line\n"
    assert lines.found == [
        {
            "figure": "f", "workload": "w", "unit": "bytes", "count": 2, "truth": [10, 20], "reported": [12, 15],
            "above": 2, "below": 5, "false": ["no"],
        }
    ]  # fmt: skip


def test_new_trials_replace_those_of_the_same_kernel_figure_and_workload(tmp_path: Path) -> None:
    file, trial = tmp_path / "truth.json", {"figure": "f", "workload": "w", "count": 1}
    kept_truth.keep([trial, trial], "6.1", "6.1.9", file)
    kept_truth.keep([trial], "6.12", "6.12.9", file)
    kept_truth.keep([{**trial, "count": 7}], "6.1", "6.1.10", file)
    found = json.loads(file.read_text(encoding="utf-8"))
    assert [(one["kernel"], one["release"], one["count"]) for one in found] == [
        ("6.1", "6.1.10", 7),
        ("6.12", "6.12.9", 1),
    ]
