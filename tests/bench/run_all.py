"""Runs every benchmark, and ends with one table: benchmark, figure, measured, goal, verdict.

Run: python tests/bench/run_all.py [NAME...], such as `tick render`; without names, all of them. It fails when a goal
was missed or a benchmark failed. One that cannot run here says why, and fails nothing. The costs that benchmarks name
go into costs.json beside this file, of which docs/cost.md is made; those of benchmarks that did not run stay.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from goals import CANNOT_RUN, COST_MARK, MARK, MISSED
from numaudit import __version__

HERE = Path(__file__).parent
COSTS = HERE / "costs.json"
"""The costs that were measured last, with the machine, the day and the version."""
_PREFIX = "bench_"
_CANNOT_RUN = "cannot run here: "


class Row(NamedTuple):
    """One figure of a benchmark, or why there is none."""

    bench: str
    what: str
    measured: str
    goal: str
    verdict: str


class Cost(NamedTuple):
    """One figure."""

    per: str
    what: str
    value: float
    unit: str


def main(names: Sequence[str]) -> int:
    found = sorted(path.stem.removeprefix(_PREFIX) for path in HERE.glob(f"{_PREFIX}*.py"))
    if unknown := set(names) - set(found):
        print(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(found)}")
        return 2
    ran = {name: _run(name) for name in names or found}
    rows = [row for name, (lines, code) in ran.items() for row in rows_of(name, lines, code)]
    print(f"\n{table(rows)}")
    write_costs({name: costs for name, (lines, _) in ran.items() if (costs := costs_of(lines))})
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


def write_costs(costs: Mapping[str, Sequence[Cost]]) -> None:
    """Those of some benchmarks; the others' stay, with the conditions under which they were measured."""
    if not costs:
        return
    known = read_costs()
    known |= {bench: {**_conditions(), "costs": [one._asdict() for one in found]} for bench, found in costs.items()}
    COSTS.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")


def read_costs() -> dict[str, Any]:
    """Benchmark -> its conditions and its costs."""
    found: dict[str, Any] = json.loads(COSTS.read_text(encoding="utf-8"))
    return found


def _conditions() -> dict[str, Any]:
    cpus = os.cpu_count() or 1
    return {
        "machine": f"{_cpu_model()}, {cpus} CPUs{_virtual()}, Linux {'.'.join(platform.release().split('.')[:2])}",
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "version": __version__,
        "loadPerCpu": round(os.getloadavg()[2] / cpus, 1),
    }


def _cpu_model() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else platform.machine()


def _virtual() -> str:
    return (
        ", virtual" if re.search(r"^flags\s*:.* hypervisor\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE) else ""
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
