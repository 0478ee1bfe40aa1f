"""docs/cost.md and docs/truth.md have what `make bench` and `make truth` measured last, which nothing else writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from documentation.kept_truth import FILE, Record
from documentation.marked_places import fill
from run_all import Cost, read_costs
from screens.pages import TOP

IN_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
MANY = 2.0
"""Runnable tasks for each CPU above which a figure is marked: its programs waited, and found cold caches."""
HEADS = {
    "event": "each event",
    "container and tick": "each container in each tick",
    "tick": "each tick",
    "scrape": "each scrape",
    "reader": "each reader of the page in each tick",
    "push": "each push",
    "start": "each start",
    "agent": "memory",
}
NODE = {
    "containers": 100,
    "interval": 15.0,
    "events": {
        "cpu_time at a switch between cgroups": 10_000,
        "cpu_time at a switch inside a cgroup": 5_000,
        "page_alloc at an allocation": 20_000,
        "hint_faults at a hint fault, its hook not included": 1_000,
    },
}
"""A made-up busy node: containers, all of which change, seconds between ticks and scrapes, and events a second."""

Found = Mapping[str, Any]


def costs(found: Found) -> list[Cost]:
    return [Cost(**one) for bench in found.values() for one in bench["costs"]]


def parts(found: Found) -> dict[str, str]:
    return {"costs": _table(found), "conditions": _conditions(found), "cost example": _example_table(found)}


def _table(found: Found) -> str:
    loaded = {Cost(**one) for bench in found.values() if bench["loadPerCpu"] > MANY for one in bench["costs"]}
    every = costs(found)
    lines = ["| for | what | cost |", "| --- | --- | --- |"]
    for per, head in HEADS.items():
        chosen = [one for one in every if one.per == per]
        lines += [f"| {head} | {one.what} | {one.value:.3g} {one.unit}{' *' * (one in loaded)} |" for one in chosen]
    return "\n".join([*lines, ""])


def _conditions(found: Found) -> str:
    """Benchmarks that were run under the same conditions are one line."""
    groups: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for bench, one in found.items():
        groups.setdefault((one["machine"], one["day"], one["version"]), []).append((bench, one["loadPerCpu"]))
    lines = []
    for (machine, day, version), benches in groups.items():
        names = ", ".join(bench for bench, _ in benches)
        load = max(load for _, load in benches)
        lines.append(f"- {names}: {machine}; {day}, numaudit {version}; runnable tasks for each CPU: {load:g} at most")
    return "\n".join([*lines, ""])


def example(found: Found) -> Sequence[tuple[str, float, float]]:
    """What, how often a second, and the share of a CPU: of the made-up node."""
    rows = list(_shares(found))
    return [*rows, ("together", 0.0, sum(share for *_, share in rows))]


def _shares(found: Found) -> Iterator[tuple[str, float, float]]:
    seconds = {one.what: one.value * IN_SECONDS[one.unit] for one in costs(found) if one.unit in IN_SECONDS}
    for what, rate in NODE["events"].items():  # type: ignore[attr-defined]
        yield what, rate, rate * seconds[what]
    ticks = 1 / NODE["interval"]  # type: ignore[operator]
    for one in costs(found):
        if one.per == "container and tick" and "as before" not in one.what:
            rate = ticks * NODE["containers"]  # type: ignore[operator]
            yield one.what, rate, rate * seconds[one.what]
        elif one.per == "tick" and "page" not in one.what:
            yield one.what, ticks, ticks * seconds[one.what]


def _often(rate: float) -> str:
    return "" if not rate else f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def _example_table(found: Found) -> str:
    lines = ["| what | a second | share of one CPU |", "| --- | --- | --- |"]
    for what, rate, share in example(found):
        lines.append(f"| {what} | {_often(rate)} | {share:.3%} |")
    return "\n".join([*lines, ""])


MatchesGolden = Callable[[str, str], None]
PAGE = "docs/cost.md"
FOUND = read_costs()


def test_the_page_has_the_measured_costs(matches_golden: MatchesGolden) -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    for name, text in parts(FOUND).items():
        page = fill(page, name, text)
    matches_golden(PAGE, page)


MIB = 1 << 20
PAGES = "hint_faults"
"""The figure that has a table of its own."""
FIGURES = {
    "resident": "bytes by node",
    "share": "share of bytes on another node",
    "spilled": "bytes outside the promised nodes",
    "cpu_time": "CPU time by node",
    "page_alloc": "bytes allocated",
    "migrated": "bytes that NUMA balancing moved",
    "hint_faults_counted": "hint faults",
    "expected": "expected remote share",
}


def records() -> list[Record]:
    found: list[Record] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def truth_parts(found: Sequence[Record]) -> dict[str, str]:
    return {"figures": _figures(found), "pages": _pages(found), "truth runs": _runs(found)}


def _figures(found: Sequence[Record]) -> str:
    lines = ["| figure | work | trials | truth | largest error |", "| --- | --- | --- | --- | --- |"]
    for name, title in FIGURES.items():
        for workload, trials in _by_workload(found, name):
            unit = trials[0]["unit"]
            error = max(max(one["above"], one["below"]) for one in trials)
            truth = max(one["truth"][1] for one in trials)
            lines.append(f"| {title} | {workload} | {len(trials)} | {_shown(truth, unit)} | {_shown(error, unit)} |")
    return "\n".join([*lines, ""])


def _pages(found: Sequence[Record]) -> str:
    lines = ["| work | trials | MiB used remotely | reported |", "| --- | --- | --- | --- |"]
    for workload, trials in _by_workload(found, PAGES):
        cells = (_range([one[key] for one in trials]) for key in ("truth", "reported"))
        lines.append(f"| {workload} | {len(trials)} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _range(ranges: Sequence[Sequence[float] | None]) -> str:
    known = [value for one in ranges if one is not None for value in one]
    if not known:
        return "-"
    low, high = (f"{value / MIB:.1f}" for value in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"


def _shown(value: float, unit: str) -> str:
    match unit:
        case "bytes":
            return f"{value / MIB:.2f} MiB" if value else "0"
        case "share":
            return f"{100 * value:.1f} %"
        case "seconds":
            return f"{value:.3f} s"
        case _:
            return f"{value:,.0f}"


def _by_workload(found: Sequence[Record], figure: str) -> Iterator[tuple[str, list[Record]]]:
    """In the order in which they were recorded, all kernels together. Trials without an answer are left out."""
    groups: dict[str, list[Record]] = {}
    for one in found:
        if one["figure"] == figure and one["count"]:
            groups.setdefault(one["workload"], []).append(one)
    yield from groups.items()


def _runs(found: Sequence[Record]) -> str:
    groups: dict[tuple[str, str], list[Record]] = {}
    for one in found:
        groups.setdefault((one["release"], one["version"]), []).append(one)
    lines = [
        f"- Linux {release}, emulated, {max(one['day'] for one in trials)}, numaudit {version}: {len(trials)} trials"
        for (release, version), trials in groups.items()
    ]
    return "\n".join([*lines, ""])


TRUTH_PAGE = "docs/truth.md"
TRUTH = records()


def test_the_page_has_what_the_truth_runs_found(matches_golden: MatchesGolden) -> None:
    page = (TOP / TRUTH_PAGE).read_text(encoding="utf-8")
    for name, text in truth_parts(TRUTH).items():
        page = fill(page, name, text)
    matches_golden(TRUTH_PAGE, page)


def test_no_statement_of_the_last_runs_was_false_as_the_page_says() -> None:
    page = (TOP / TRUTH_PAGE).read_text(encoding="utf-8")
    assert "Each trial has 20 ticks with an answer. No statement was false." in page
    assert [one for one in TRUTH if one["false"]] == []
    assert {one["count"] for one in TRUTH if one["figure"] == PAGES} == {20}
