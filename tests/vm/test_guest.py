"""Every test in inside/, run in four-node guests: one item here for each test and kernel (see inside_tests.py).

The guests boot in the background (`background.py`), at the latest once it is known what is to run; here their results
are waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

import inside_tests
from conftest import BACKGROUND, SECONDS, SUMMARY, FindKernel
from results import Result

pytestmark = pytest.mark.vm


@dataclass(frozen=True, slots=True)
class Session:
    """What the boots of one kernel brought."""

    results: Mapping[str, Result]
    ending: str
    """How they ended, a line each; what they printed is in the terminal summary."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "inside" in metafunc.fixturenames:
        runs = [(kernel, name) for kernel, names in inside_tests.by_kernel().items() for name in names]
        ids = [f"{kernel}-{name}" for kernel, name in runs]
        metafunc.parametrize(("kernel_name", "inside"), runs, ids=ids, scope="session")


@pytest.fixture(scope="session")
def session(kernel_name: str, guest_kernel: FindKernel, request: pytest.FixtureRequest) -> Session:
    """All tests of this kernel that were not deselected."""
    guest_kernel(kernel_name)
    plan = request.config.stash[BACKGROUND].ended(kernel_name)
    request.config.stash.setdefault(SUMMARY, []).extend(plan.endings())
    return Session(plan.results(), "; ".join(ending.partition("\n")[0] for ending in plan.endings()))


def test_inside(inside: str, session: Session, request: pytest.FixtureRequest) -> None:
    result = session.results.get(inside)
    if result is None:
        pytest.fail(f"did not run: {session.ending}", pytrace=False)
    request.node.stash[SECONDS] = result.seconds
    if result.outcome == "unfinished":
        pytest.fail(f"the guest ended during this test: {session.ending}", pytrace=False)
    if result.outcome == "failed":
        pytest.fail(result.text, pytrace=False)
    if result.outcome == "skipped":
        pytest.skip(result.text)
