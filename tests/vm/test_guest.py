"""Every test in inside/, run in a four-node guest: one boot for each kernel, one item here for each test there.

The arm64 guest is slow and has a PMU: it runs the tests marked `pmu`, which no other guest can run, and those marked
`arm64`. With NUMAUDIT_ARM64=all it runs all (`make test-arm64`), and so does its other kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from conftest import SECONDS, SUMMARY, FindKernel
from debian import CHECKOUT
from guest import Completed, Guest, GuestDied, Job, run
from kernels import HOST_KERNELS, KERNELS
from results import FILE_VARIABLE, Result, parse

HERE = Path(__file__).parent
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:hypothesispytest")
"""Loading hypothesis takes 8 s in the guest."""
TIMEOUT = 3600
"""Seconds for all tests of one kernel; an idle host needs 300."""

pytestmark = pytest.mark.vm


@dataclass(frozen=True, slots=True)
class Session:
    """What one boot brought."""

    results: Mapping[str, Result]
    ending: str
    """How the guest and its pytest ended, in one line; what they printed is in the terminal summary."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    runs = [(kernel, inside) for kernel, marks in _marks_by_kernel().items() for inside in _inside_tests(marks)]
    ids = [f"{kernel}-{inside}" for kernel, inside in runs]
    metafunc.parametrize(("kernel_name", "inside"), runs, ids=ids, scope="session")


def _marks_by_kernel() -> Mapping[str, str]:
    """Kernel's name -> which tests run under it, as an expression of marks."""
    on_host = dict.fromkeys(HOST_KERNELS, "not pmu")
    if os.environ.get("NUMAUDIT_ARM64") == "all":
        return on_host | dict.fromkeys(KERNELS.keys() - on_host, "")
    return on_host | {"arm64-6.12": "pmu or arm64"}


@cache
def _inside_tests(marks: str) -> list[str]:
    """The ids of the tests in inside/ that have such marks, asked from a pytest that only collects."""
    command = [*PYTEST, "--collect-only", "-q", "-m", marks, "-o", "addopts=", "-p", "no:cacheprovider"]
    listing = {**os.environ, "NUMAUDIT_GUEST": "collecting"}
    command.append("tests/vm/inside")
    done = subprocess.run(command, cwd=CHECKOUT, env=listing, capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"tests/vm/inside cannot be collected:\n{done.stdout}{done.stderr}")
    return [line.removeprefix("tests/vm/inside/") for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="session")
def session(
    kernel_name: str, guest_kernel: FindKernel, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Session:
    """One boot: all tests of this kernel that were not deselected."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = [f"tests/vm/inside/{call['inside']}" for call in calls if call.get("kernel_name") == kernel_name]
    folder = tmp_path_factory.mktemp(f"guest-{kernel_name}")
    # Whatever is installed in the virtual environment, this checkout is tested.
    environment = {"PYTHONPATH": f"{HERE}:{CHECKOUT / 'agent'}", FILE_VARIABLE: str(folder / "results.jsonl")}
    job = Job([*PYTEST, "-p", "results", *wanted], folder, environment, TIMEOUT)
    kernel = guest_kernel(kernel_name)
    (folder / "results.jsonl").touch()
    try:
        done = run(Guest(kernel), job)
        ending = f"{len(wanted)} tests, {done.seconds:.1f} s from power-on to power-off, exit status {done.exit_code}"
        output = _worth_showing(done)
    except GuestDied as death:
        ending, _, output = str(death).partition("\n")
    ending = f"guest {kernel.release}: {ending}"
    request.config.stash.setdefault(SUMMARY, []).append(f"{ending}\n{output}".rstrip())
    return Session(parse((folder / "results.jsonl").read_text().splitlines()), ending)


def _worth_showing(done: Completed) -> str:
    """Boots that failed, and what a pytest printed that could not run its tests."""
    could_run = done.exit_code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    boots = "".join(f"booted again: {death}\n" for death in done.failed_boots)
    return boots if could_run else boots + done.stdout + done.stderr


def test_inside(inside: str, session: Session, request: pytest.FixtureRequest) -> None:
    result = session.results.get(f"tests/vm/inside/{inside}")
    if result is None:
        pytest.fail(f"did not run: {session.ending}", pytrace=False)
    request.node.stash[SECONDS] = result.seconds
    if result.outcome == "unfinished":
        pytest.fail(f"the guest ended during this test: {session.ending}", pytrace=False)
    if result.outcome == "failed":
        pytest.fail(result.text, pytrace=False)
    if result.outcome == "skipped":
        pytest.skip(result.text)
