"""What the tests in this folder share: the kernel to boot, and how long a test took inside the guest."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator

import pytest

import guest
import kernels
from numaudit.errors import Unavailable

collect_ignore = [] if "NUMAUDIT_GUEST" in os.environ else ["inside"]

SUMMARY = pytest.StashKey[list[str]]()
SECONDS = pytest.StashKey[float]()

FindKernel = Callable[[str], kernels.Kernel]


@pytest.fixture(scope="session")
def guest_kernel() -> FindKernel:
    """Finds a kernel by its name. Without one, or without QEMU, the test is skipped, and fails in CI."""

    def find(name: str) -> kernels.Kernel:
        try:
            kernel = kernels.find(name)
            guest.require_tools(kernel)
            return kernel
        except Unavailable as reason:
            if os.environ.get("CI") or os.environ.get("NUMAUDIT_REQUIRE_GUEST") == "1":
                pytest.fail(f"no guest, and CI or NUMAUDIT_REQUIRE_GUEST asks for one: {reason}", pytrace=False)
            pytest.skip(str(reason))

    return find


LOADING_WITHIN = 600.0
"""Seconds for BPF programs to be compiled in a guest that gets a sixth of a CPU."""


@pytest.fixture(scope="session", autouse=True)
def _compiling_has_time() -> Iterator[None]:
    """In the guest: a loader that a crowded host makes slow is waited for, where a report would go on without it."""
    if "NUMAUDIT_GUEST" not in os.environ:
        yield
        return
    from numaudit.probes import loader  # noqa: PLC0415 (the host's tests need neither)
    from numaudit.probes.session import Session  # noqa: PLC0415

    defaults = [loader.load.__kwdefaults__, Session.open.__func__.__kwdefaults__]  # type: ignore[attr-defined]
    before = [one["deadline"] for one in defaults]
    for one in defaults:
        one["deadline"] = LOADING_WITHIN
    yield
    for one, value in zip(defaults, before, strict=True):
        one["deadline"] = value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that ran inside the guest is shown with the time it took there."""
    report = yield
    if report.when == "call":
        report.duration = item.stash.get(SECONDS, report.duration)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(SUMMARY, []):
        terminalreporter.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one kernel stay together, though pytest brings those of one name together: one boot for each kernel."""
    of_guest = [item for item in items if _kernel_of(item) is not None]
    places = [place for place, item in enumerate(items) if _kernel_of(item) is not None]
    for place, item in zip(places, sorted(of_guest, key=lambda item: str(_kernel_of(item))), strict=True):
        items[place] = item


def _kernel_of(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("kernel_name")
