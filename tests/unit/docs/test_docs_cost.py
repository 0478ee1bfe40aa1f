"""docs/cost.md has what `make bench` measured last: tests/bench/costs.json, which nothing else writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import recorded_costs
from documentation import cost_page
from documentation.marked_places import fill
from goals import Per
from numaudit.probes.kinds import KINDS
from recorded_costs import Cost
from screens.pages import TOP

MatchesGolden = Callable[[str, str], None]
PAGE = "docs/cost.md"
FOUND = recorded_costs.read()


def test_the_page_has_the_measured_costs(matches_golden: MatchesGolden) -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    for name, text in cost_page.parts(FOUND).items():
        page = fill(page, name, text)
    matches_golden(PAGE, page)


def test_every_cost_is_paid_for_something_that_the_page_adds_up() -> None:
    assert {one.per for one in cost_page.costs(FOUND)} == set(get_args(Per))


def test_every_probe_has_a_cost_of_an_event() -> None:
    told = " ".join(one.what for one in cost_page.costs(FOUND) if one.per == "event")
    assert {kind.name for kind in KINDS if kind.name not in told} == set()


def test_the_example_adds_up_its_rows() -> None:
    rows = cost_page.example(FOUND)
    shares = [share for *_, share in rows]
    assert rows[-1][0] == "together"
    assert shares[-1] == pytest.approx(sum(shares[:-1]))


def test_a_run_of_one_benchmark_keeps_the_costs_of_the_others(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    recorded_costs.write({"a": [Cost("event", "x", 1.0, "ns")], "b": [Cost("tick", "y", 2.0, "ms")]}, file)
    recorded_costs.write({"a": [Cost("event", "x", 3.0, "ns")]}, file)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert [one["value"] for bench in ("a", "b") for one in found[bench]["costs"]] == [3.0, 2.0]
    assert {"machine", "day", "version", "loadPerCpu"} <= found["a"].keys()
    recorded_costs.write({}, file)
    assert json.loads(file.read_text(encoding="utf-8")) == found
