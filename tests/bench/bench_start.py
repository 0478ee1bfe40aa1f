"""How much CPU time a command takes until it has answered, most of which is spent on imports.

Run: python tests/bench/bench_start.py [REPETITIONS]. It fails when a goal is missed. Modules are read from bytecode, as
in an installed package; the least of several runs counts, in a fresh process each. `report` reads the host it runs on.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from goals import at_most_ms, repetitions, run

NUMAUDIT = str(Path(sys.executable).with_name("numaudit"))
COMPLETION = {"_NUMAUDIT_COMPLETE": "bash_complete", "COMP_WORDS": "numaudit report --fail-o", "COMP_CWORD": "2"}
VERBS = ("report", "top", "state", "explain", "simulate", "doctor", "run", "assert", "agent", "config")
HELP, VERB, REPORT = 50.0, 150.0, 200.0
"""Goals, in milliseconds."""
SHORT = {HELP: 90.0, VERB: 140.0, REPORT: 550.0}
"""Those of the short form, in yardsticks."""


def main() -> None:
    times = repetitions(10)
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}

        def measure(words: str, goal: float, **variables: str) -> None:
            found = _least([NUMAUDIT, *words.split()], {**environment, **variables}, times)
            what = "a completion" if variables else f"numaudit {words}"
            at_most_ms(what, found, goal, short=SHORT[goal])

        floor = _least([sys.executable, "-c", "import click"], environment, times)
        print(f"{'Python with click alone':26} {floor:6.0f} ms of CPU time", flush=True)
        measure("--help", HELP)
        for verb in VERBS:
            measure(f"{verb} --help", VERB)
        measure("", VERB, **COMPLETION)
        measure("report", REPORT)


def _least(command: list[str], environment: Mapping[str, str], times: int) -> float:
    """Milliseconds of CPU time, after one run that writes the bytecode."""
    _child_ms(command, environment)
    return min(_child_ms(command, environment) for _ in range(times))


def _child_ms(command: list[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    run(main)
