"""Which tests of inside/ each kernel runs, by the marks that they have, and which of them first.

The x86 guests have no PMU, so they run all but those marked `pmu`; only the newest of them runs those marked
`one_kernel`. The arm64 guest is slow: it runs those marked `pmu` or `arm64`. With GUESTS=all every kernel runs
all that it can (`make test-all`), and the one with pages of 16 KiB those marked `page_size`. Those marked with a shape
(machines.py) run on machines of that shape alone. Guests that share modules begin with the longest, so that all end
together.
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

from debian import CHECKOUT
from kernels import HOST_KERNELS, KERNELS
from machines import OTHERS, SHAPES
from userland import beside_the_source

INSIDE = "tests/vm/inside"
PYTEST = (sys.executable, "-m", "pytest")
NO_PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""What other packages bring takes seconds to load in the guest, and nothing there needs it."""
NEWEST, SLOW, LARGE_PAGES = "6.12", "arm64-6.12", "arm64-16k-6.12"
SECONDS: Mapping[str, int] = {
    "test_access": 300,
    "test_page_truth": 140,
    "test_confined_guest": 155,
    "test_ranks": 50,
    "test_remedies": 70,
    "test_agent": 50,
    "test_access_hooks": 65,
    "test_kernel_evidence": 40,
    "test_assert": 45,
    "test_counted_events": 35,
    "test_run": 45,
    "test_run_faults": 45,
    "test_calibrate": 35,
    "test_systemd_unit": 35,
    "test_image_here": 30,
    "test_for_people": 25,
    "test_many_processes": 30,
    "test_pages_by_process": 30,
    "test_pmu": 30,
    "test_remedies_of_commands": 30,
    "test_remedies_of_use": 30,
    "test_rights": 15,
    "test_whole_report": 30,
    "test_tiers": 40,
    "test_a_node_without_memory": 20,
    "test_lab": 20,
    "test_shared_memory": 20,
    "test_setup": 25,
    "test_capture": 20,
    "test_short_lived": 15,
    "test_cpu_launchers": 10,
    "test_memory_launchers": 15,
    "test_slurm_ranks": 10,
    "test_devices": 20,
    "test_dra_claims": 10,
    "test_process_view": 15,
    "test_verdicts": 20,
    "test_gigantic_pages": 5,
    "test_moved_memory": 5,
    "test_pmu_trial": 5,
}
"""About how long each module takes, on Linux 6.12 and a host with two busy CPUs; `--durations=0` shows tests."""
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


def seconds_of(name: str) -> int:
    """A new one may be long: nobody should wait for it at the end."""
    return SECONDS.get(name, max(SECONDS.values()))


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
