"""Every test in inside/, run in a four-node guest: one boot for each kernel, one item here for each test there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import SECONDS, SUMMARY, FindKernel
from guest import Completed, Guest, GuestDied, Job, run
from kernels import CHECKOUT, META_PACKAGES
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
    metafunc.parametrize("series", META_PACKAGES, scope="session", indirect=True)
    metafunc.parametrize("inside", _inside_tests())


def _inside_tests() -> list[str]:
    """The ids of all tests in inside/, asked from a pytest that only collects."""
    command = [*PYTEST, "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "tests/vm/inside"]
    listing = {**os.environ, "NUMAUDIT_GUEST": "collecting"}
    done = subprocess.run(command, cwd=CHECKOUT, env=listing, capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"tests/vm/inside cannot be collected:\n{done.stdout}{done.stderr}")
    return [line.removeprefix("tests/vm/inside/") for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="session")
def series(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def session(
    series: str, guest_kernel: FindKernel, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Session:
    """One boot: all tests of this kernel that were not deselected."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = [f"tests/vm/inside/{call['inside']}" for call in calls if call.get("series") == series]
    folder = tmp_path_factory.mktemp(f"guest-{series}")
    # Whatever is installed in the virtual environment, this checkout is tested.
    environment = {"PYTHONPATH": f"{HERE}:{CHECKOUT / 'agent'}", FILE_VARIABLE: str(folder / "results.jsonl")}
    job = Job([*PYTEST, "-p", "results", *wanted], folder, environment, TIMEOUT)
    kernel = guest_kernel(series)
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
