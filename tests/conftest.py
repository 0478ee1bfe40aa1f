"""What all tests share: the captured hosts and the golden outputs."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from numaudit.kernel.host import Host

_TESTS = Path(__file__).parent

CapturedHost = Callable[[str], Host]
MatchesGolden = Callable[[str, str], None]


def pytest_configure() -> None:
    """How hard the property tests try: HYPOTHESIS_PROFILE=check a little, =fuzz for long (HYPOTHESIS_EXAMPLES each)."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        # Started in the background, or by nohup, we would hand "ignored" on to every program that a test interrupts.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    if "NUMAUDIT_GUEST" in os.environ:  # An emulated CPU takes seconds for this import, and nothing needs it there.
        return
    from hypothesis import HealthCheck, settings  # noqa: PLC0415

    # Several suites may share a slow machine, so time judges no example. CI tries the same ones each time: what a new
    # one shows is nothing that the change at hand did, and `make fuzz` looks for it.
    settings.register_profile(
        "default",
        max_examples=60,
        deadline=None,
        derandomize="CI" in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("check", settings.get_profile("default"), max_examples=20)
    examples = int(os.environ.get("HYPOTHESIS_EXAMPLES", "5000"))
    settings.register_profile("fuzz", settings.get_profile("default"), max_examples=examples, derandomize=False)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_finish() -> None:
    """Thousands of tests and all that they import stay until the end: the garbage collector need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What measures time comes last, when no guest runs any more. Goldens are rewritten by who compares them."""
    items.sort(key=lambda item: item.get_closest_marker("quiet") is not None)
    if config.getoption("--update-golden"):
        others = [item for item in items if matches_golden.__name__ not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected outputs")
    parser.addoption("--list-skipped", metavar="FILE", help="write the tests that were skipped into a file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if file := config.getoption("--list-skipped"):
        skipped = {one.nodeid for one in terminalreporter.stats.get("skipped", ())}
        Path(file).write_text("".join(f"{one}\n" for one in sorted(skipped)), encoding="utf-8")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """tests/fixtures with its archives unpacked."""
    from fixture_trees import FIXTURES  # noqa: PLC0415 (the guest needs none)

    return FIXTURES


@pytest.fixture(scope="session")
def captured(fixtures: Path) -> CapturedHost:
    """A captured host by the name of its folder."""
    return lambda name: Host.under(fixtures / name)


@pytest.fixture
def matches_golden(request: pytest.FixtureRequest) -> MatchesGolden:
    """Compares a whole text with a checked-in file (path from the top of the checkout), or rewrites that."""

    def matches(path: str, text: str) -> None:
        file = _TESTS.parent / path
        if request.config.getoption("--update-golden"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{path} is missing; `make golden` writes it"
        assert text == file.read_text(encoding="utf-8"), f"{path} differs; `make golden` rewrites it, if that is meant"

    return matches
