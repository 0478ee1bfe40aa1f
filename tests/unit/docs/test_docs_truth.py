"""docs/truth.md has what the guests' truth runs found last: tests/vm/truth.json, which `make truth` writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from documentation.kept_truth import FILE, Record
from documentation.marked_places import fill
from screens.pages import TOP

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


def parts(found: Sequence[Record]) -> dict[str, str]:
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


MatchesGolden = Callable[[str, str], None]
PAGE = "docs/truth.md"
FOUND = records()


def test_the_page_has_what_the_truth_runs_found(matches_golden: MatchesGolden) -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    for name, text in parts(FOUND).items():
        page = fill(page, name, text)
    matches_golden(PAGE, page)


def test_no_statement_of_the_last_runs_was_false_as_the_page_says() -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    assert "Each trial has 20 ticks with an answer. No statement was false." in page
    assert [one for one in FOUND if one["false"]] == []
    assert {one["count"] for one in FOUND if one["figure"] == PAGES} == {20}
