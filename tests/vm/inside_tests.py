"""Which tests of inside/ each kernel runs, by the marks that they have.

The x86 guests have no PMU, so they run all but those marked `pmu`; only the newest of them runs those marked
`one_kernel`. The arm64 guest is slow: it runs those marked `pmu` or `arm64`. With GUESTS=all every kernel runs
all that it can (`make test-all`), and the one with pages of 16 KiB those marked `page_size`. Those marked with a shape
(machines.py) run on machines of that shape alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from bytecode import beside_the_source
from debian import CHECKOUT
from kernels import HOST_KERNELS, KERNELS
from machines import OTHERS, SHAPES

INSIDE = "tests/vm/inside"
PYTEST = (sys.executable, "-m", "pytest")
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""What other packages bring takes seconds to load in the guest, and nothing there needs it."""
NEWEST, SLOW, LARGE_PAGES = "6.12", "arm64-6.12", "arm64-16k-6.12"
_SEPARATOR = "numaudit-marks:"


@dataclass(frozen=True, slots=True)
class Inside:
    """One test of inside/."""

    name: str
    """Its id below inside/, such as `test_lab.py::test_x[1]`."""
    marks: frozenset[str]


def by_kernel() -> Mapping[str, Sequence[str]]:
    """Kernel's or machine's name -> names of the tests that it runs."""
    runs_all = os.environ.get("GUESTS") == "all"
    kernels = (*KERNELS, *OTHERS) if runs_all else (*HOST_KERNELS, SLOW, *_newest_of_each_shape())
    return {kernel: [one.name for one in _listed() if _runs(kernel, one.marks, runs_all)] for kernel in kernels}


def _newest_of_each_shape() -> list[str]:
    return [name for name, machine in OTHERS.items() if machine.kernel == NEWEST]


def _runs(kernel: str, marks: Collection[str], runs_all: bool) -> bool:
    if kernel in OTHERS:
        return OTHERS[kernel].shape in marks
    if not SHAPES.keys().isdisjoint(marks):
        return False
    if kernel == LARGE_PAGES:
        return "page_size" in marks
    if kernel not in HOST_KERNELS:
        return runs_all or "pmu" in marks or "arm64" in marks
    return "pmu" not in marks and (runs_all or kernel == NEWEST or "one_kernel" not in marks)


@cache
def _listed() -> tuple[Inside, ...]:
    """In the order in which a guest runs them, asked from a pytest that only collects, and leaves their bytecode."""
    command = [*PYTEST, "-p", "inside_tests", "--collect-only", "-q", "-o", "addopts=--strict-markers", INSIDE]
    path = f"{Path(__file__).parent}:{CHECKOUT / 'agent'}"
    environment = {**beside_the_source(), **NO_PLUGINS, "NUMAUDIT_GUEST": "collecting", "PYTHONPATH": path}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"{INSIDE} cannot be collected:\n{done.stdout}{done.stderr}")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(_SEPARATOR)]
    return tuple(Inside(name, frozenset(marks)) for name, marks in json.loads(line.removeprefix(_SEPARATOR)))


def pytest_report_collectionfinish(items: Sequence[pytest.Item]) -> str:
    """In the pytest that collects: each test with its marks, in one line."""
    marks = [
        (item.nodeid.removeprefix(f"{INSIDE}/"), sorted(mark.name for mark in item.iter_markers())) for item in items
    ]
    return _SEPARATOR + json.dumps(marks)
