"""docs/cost.md has what `make bench` measured last: tests/bench/costs.json, which nothing else writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
