"""A pytest plugin of the guests: it writes results, which the host reads, and shares tests with the other guests.

One JSON line for each step of each test, written at once, so that a guest that dies leaves behind what it had
done and which test it was at, into $NUMAUDIT_RESULTS. Every guest of one kernel has the whole list of tests, and who
claims a module first runs all of it: a claim is a folder in $NUMAUDIT_CLAIMS, which all share, and which only one can
make. Whoever is faster runs more, so that all end at about the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

FILE_VARIABLE, CLAIMS_VARIABLE = "NUMAUDIT_RESULTS", "NUMAUDIT_CLAIMS"

Outcome = Literal["passed", "failed", "skipped", "unfinished"]
BAD: Collection[Outcome] = ("failed", "unfinished")


@dataclass(frozen=True, slots=True)
class Result:
    """How one test ended."""

    outcome: Outcome
    """unfinished: begun, and the guest died."""
    seconds: float
    """Set-up and tear-down included."""
    text: str = ""
    """The traceback and captured output of a failure, the reason of a skip."""


def parse(lines: Iterable[str]) -> dict[str, Result]:
    """Results by test id, in the order in which the tests ran."""
    steps: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        step = json.loads(line)
        steps.setdefault(step["id"], []).append(step)
    return {test: _result(reports) for test, reports in steps.items()}


def _result(steps: list[dict[str, str]]) -> Result:
    text = "\n".join(step["text"] for step in steps if step["text"])
    seconds = sum(float(step["seconds"]) for step in steps)
    outcomes = {step["outcome"] for step in steps}
    if "failed" in outcomes:
        return Result("failed", seconds, text)
    if steps[-1]["when"] != "teardown":
        return Result("unfinished", seconds, text)
    return Result("skipped" if "skipped" in outcomes else "passed", seconds, text)


def _write(test: str, when: str, outcome: str = "", seconds: float = 0, text: str = "") -> None:
    step = {"id": test, "when": when, "outcome": outcome, "seconds": seconds, "text": text}
    with Path(os.environ[FILE_VARIABLE]).open("a") as file:
        file.write(json.dumps(step) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(nodeid, "start")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    text = ""
    if report.failed:
        captured = (f"--- {title}\n{content}" for title, content in report.sections)
        text = "\n".join([report.longreprtext, *captured])
    elif report.skipped:
        # a skip carries (file, line, reason); an expected failure its traceback and reason
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else f"expected failure: {report.wasxfail}"
    _write(report.nodeid, report.when or "", report.outcome, report.duration, text)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """True: somebody else runs this one."""
    return None if _is_ours(item.path.stem) else True


@cache
def _is_ours(module: str) -> bool:
    try:
        Path(os.environ[CLAIMS_VARIABLE], module).mkdir()
    except FileExistsError:
        return False
    return True
