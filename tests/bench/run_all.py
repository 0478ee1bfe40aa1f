"""Runs every benchmark, and ends with one table: benchmark, figure, measured, goal, verdict.

Run: python tests/bench/run_all.py [NAME...], such as `tick render`; without names, all of them. It fails when a goal
was missed or a benchmark failed. One that cannot run here says why, and fails nothing. The costs that benchmarks name
go into costs.json beside this file, of which docs/cost.md is made; those of benchmarks that did not run stay.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import recorded_costs
from goals import COST_MARK, MARK, MISSED
from recorded_costs import Cost
from short import CANNOT_RUN

HERE = Path(__file__).parent
_PREFIX = "bench_"
_CANNOT_RUN = "cannot run here: "


class Row(NamedTuple):
    """One figure of a benchmark, or why there is none."""

    bench: str
    what: str
    measured: str
    goal: str
    verdict: str


def main(names: Sequence[str]) -> int:
    found = sorted(path.stem.removeprefix(_PREFIX) for path in HERE.glob(f"{_PREFIX}*.py"))
    if unknown := set(names) - set(found):
        print(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(found)}")
        return 2
    ran = {name: _run(name) for name in names or found}
    rows = [row for name, (lines, code) in ran.items() for row in rows_of(name, lines, code)]
    print(f"\n{table(rows)}")
    recorded_costs.write({name: costs for name, (lines, _) in ran.items() if (costs := costs_of(lines))})
    return 1 if any(row.verdict in (MISSED, "FAILED") for row in rows) else 0


def rows_of(bench: str, lines: Iterable[str], code: int) -> Iterator[Row]:
    """Those of one benchmark, by what it printed and how it ended."""
    has_missed = False
    for line in lines:
        if line.startswith(MARK):
            what, measured, goal, verdict = line.removeprefix(MARK).strip().split(" | ")
            has_missed |= verdict == MISSED
            yield Row(bench, what, measured, goal, verdict)
        elif line.startswith(_CANNOT_RUN) and code == CANNOT_RUN:
            yield Row(bench, line.removeprefix(_CANNOT_RUN).strip(), "", "", "cannot run here")
    if code not in (0, CANNOT_RUN) and not has_missed:
        yield Row(bench, f"it ended with {code}", "", "", "FAILED")


def costs_of(lines: Iterable[str]) -> list[Cost]:
    """Those that a benchmark printed."""
    found = []
    for line in lines:
        if line.startswith(COST_MARK):
            per, what, value, unit = line.removeprefix(COST_MARK).strip().split(" | ")
            found.append(Cost(per, what, float(value), unit))
    return found


def table(rows: Sequence[Row]) -> str:
    """Aligned, with a line above that names the columns."""
    shown = [Row("benchmark", "figure", "measured", "goal", "verdict"), *rows]
    widths = [min(60, max(map(len, column))) for column in zip(*shown, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
    )


def _run(name: str) -> tuple[list[str], int]:
    """What it printed, and how it ended."""
    print(f"\n== {name}", flush=True)
    lines = []
    with subprocess.Popen(
        [sys.executable, str(HERE / f"{_PREFIX}{name}.py")], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return lines, process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
