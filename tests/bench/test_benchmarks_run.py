"""Each benchmark runs to its end in its short form, prints its figures, and holds the coarse goals of that form."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from goals import CANNOT_RUN, MARK

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("bench_*.py")))
def test_the_short_form_runs_to_its_end_prints_its_figures_and_misses_no_goal(name: str) -> None:
    command = [sys.executable, str(HERE / f"{name}.py"), "--short"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == CANNOT_RUN:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert MARK in done.stdout, done.stdout  # each says what it promises


def test_a_missed_goal_ends_a_benchmark_with_1() -> None:
    lines = "import goals\ngoals.run(lambda: goals.at_most('it', 2.0, 9.0, short={}))"
    for limit, code in ((1.0, 1), (3.0, 0)):
        command = [sys.executable, "-c", lines.format(limit), "--short"]
        assert subprocess.run(command, cwd=HERE, capture_output=True, check=False).returncode == code
