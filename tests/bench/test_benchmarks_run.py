"""Each benchmark runs to its end in its short form, prints its figures, and holds the coarse goals of that form."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from goals import MARK
from short import CANNOT_RUN

HERE = Path(__file__).parent
NUMBER = r"\s*([-+]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)"

FIGURES: Mapping[str, tuple[str, ...]] = {
    "access": (
        "a loop of page faults, .*:",
        "an ordinary load, .*:",
    ),
    "bpf": (
        "page_alloc at an allocation",
        "cpu_time at a switch between cgroups",
        "cpu_time at a switch inside a cgroup",
        "two processes that wake each other, with cpu_time / without",
        "cpu_time, one read with a flush of each CPU",
        "hint_faults at a hint fault, its hook not included",
        "migrations at a migration, its hook not included",
        "cpu_time at the end of an interval, its hook not included",
        "read and decode .* entries of .* CPUs",
        "decode .* entries of 128 CPUs",
        "start to first value",
        "resident memory of the process that holds the descriptors",
        "its peak",
    ),
    "pmu": (
        "pmu, two counters at a switch between cgroups",
        "what it adds, of what cgroup events add",
        "what it adds inside a cgroup",
    ),
    "evaluation": ("verdicts", "findings", "hint outcomes", ".*all evidence:", "only .* takes", "join:"),
    "live_page": ("making and packing it, once per tick", "sending it, .* reader", "a poll without news", "a poll is"),
    "otlp": ("peak before pushes", "peak memory", "OTLP push", "one tick"),
    "page": ("size", "made", "first paint", "sorted by number", "sorted by name", "filtered by name"),
    "pass": ("one tick", "first tick", "floor"),
    "render": ("evaluate", "gzip -1", "render text", "render openmetrics", "worst ratio:"),
    "start": ("numaudit --help", "numaudit report --help", "a completion", "numaudit report "),
    "tick": (
        "tick, render, gzip",
        "without sleep",
        "none changes",
        "and with probes",
        "memory",
        "memory, 8 nodes",
        "memory with OTLP",
        "OTLP push",
        "serving one scrape",
    ),
    "web": ("floor, a bare socket *median", "one scraper *median", r"\d+ scrapers, .* median"),
}
"""Benchmark -> how the lines begin that end in, or go on with, a figure."""


def test_every_benchmark_is_tried() -> None:
    assert {path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")} == FIGURES.keys()


@pytest.mark.parametrize("name", FIGURES)
def test_the_short_form_runs_to_its_end_prints_its_figures_and_misses_no_goal(name: str) -> None:
    command = [sys.executable, str(HERE / f"bench_{name}.py"), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == CANNOT_RUN:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    for label in FIGURES[name]:
        assert re.search(rf"^ *{label}{NUMBER}", done.stdout, re.MULTILINE), f"{label}\n{done.stdout}"
    assert MARK in done.stdout  # each says what it promises


def test_a_missed_goal_ends_a_benchmark_with_1() -> None:
    lines = "import goals, short\nshort.run(lambda: goals.at_most('it', 2.0, 9.0, short={}))"
    for limit, code in ((1.0, 1), (3.0, 0)):
        command = [sys.executable, "-c", lines.format(limit), "--short"]
        assert subprocess.run(command, cwd=HERE, capture_output=True, check=False).returncode == code
