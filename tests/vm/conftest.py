"""What the tests in this folder share: the guests in the background, and how long a test took inside one.

Inside a guest this file is loaded, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator

import pytest

import guest
import kernels
import machines
from background import Background, can_boot
from inside_tests import seconds_of
from numaudit.errors import Unavailable

IN_GUEST = "NUMAUDIT_GUEST" in os.environ
collect_ignore = [] if IN_GUEST else ["inside"]

FindKernel = Callable[[str], kernels.Kernel]


@pytest.fixture(scope="session")
def guest_kernel() -> FindKernel:
    """Finds a kernel by its name. Without one, or without QEMU, the test is skipped, and fails in CI."""

    def find(name: str) -> kernels.Kernel:
        try:
            kernel = machines.find(name).kernel
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
    from numaudit.probes.loading import loader  # noqa: PLC0415 (the host's tests need neither)
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
    """Results of guests are waited for when all else has run but what is `quiet`; those of one kernel stay together.

    In a guest, the modules that take longest come first, so that what two guests share last is short, and neither waits
    long for the other.
    """
    if IN_GUEST:
        items.sort(key=lambda item: -seconds_of(item.path.stem))
    else:
        items.sort(key=lambda item: (item.get_closest_marker("quiet") is not None, _kernel_of(item) or ""))


def _kernel_of(item: pytest.Item) -> str | None:
    """Of a test that runs in a guest."""
    callspec = getattr(item, "callspec", None)
    return callspec.params["kernel_name"] if callspec and "inside" in callspec.params else None


SUMMARY = pytest.StashKey[list[str]]()
SECONDS = pytest.StashKey[float]()
BACKGROUND = pytest.StashKey[Background]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """It is known now what is to run: the guests begin, unless they have, and whoever needs their results waits."""
    if IN_GUEST or session.config.option.collectonly:
        return
    wanted: dict[str, list[str]] = {}
    for item in session.items:
        kernel = _kernel_of(item)
        if kernel is not None and can_boot(kernel):
            wanted.setdefault(kernel, []).append(item.callspec.params["inside"])  # type: ignore[attr-defined]
    if not wanted:
        return
    if hasattr(session.config, "workerinput"):
        raise pytest.UsageError("the guests run beside each other by themselves: leave out -n")
    session.config.stash[BACKGROUND] = Background.under_way(wanted) or Background.start(wanted)


def pytest_unconfigure(config: pytest.Config) -> None:
    if background := config.stash.get(BACKGROUND, None):
        background.stop()
