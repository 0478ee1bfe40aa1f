"""`numaudit top` on this host: tick after tick, what fails, and where it cannot be drawn."""

from __future__ import annotations

import asyncio
import io
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from hosts.tree_copies import lent
from numaudit.cli.main import call
from numaudit.cli.observe.report_work import ReportSelection
from numaudit.cli.observe.top_feed import LiveFeed
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from screens.top_screen import Screen, captured, screen

Capture = pytest.CaptureFixture[str]
LONG = 3600.0
"""Seconds: no second tick begins by itself."""


@pytest.fixture
def node(fixtures: Path) -> Iterator[Path]:
    """A copy of a captured node, to be changed between ticks."""
    with lent(fixtures / "misaligned-node") as copy:
        yield copy


def _live(root: Path, steps: Callable[[Screen], Awaitable[None]], interval: float = 0.05) -> Screen:
    """Do the steps on a screen that measures the tree again and again."""

    async def run() -> Screen:
        feed = LiveFeed(Observer.of(Host.under(root)), ReportSelection(), interval)
        async with screen(feed, 120, 40) as shown:
            await shown.shows("CONTAINER")
            await steps(shown)
        return shown

    return asyncio.run(run())


async def _rests(shown: Screen) -> bool:
    """Comes no tick any more, once the one that was under way is done? Ten of the short intervals would bring some."""
    seen = []
    for _ in range(2):
        await asyncio.sleep(0.5)
        seen.append(shown.top.status.taken_at)
    return seen[0] == seen[1]


def _put_right(root: Path) -> None:
    """The drifted container gets its promised nodes back."""
    for file in (root / "sys/fs/cgroup").glob("**/podec1e8143aeaf997479388c72fd53049e/*/cpuset.mems.effective"):
        if file.read_text().strip() == "0,2":
            file.write_text("2\n")


def test_a_later_tick_shows_what_has_changed(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.shows("2 of 8 promised containers are misaligned", "every 0.05 s")
        _put_right(node)
        await shown.shows("1 of 8 promised containers is misaligned")

    _live(node, steps)


def test_an_open_page_follows_the_ticks_and_outlives_its_container(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("j", "enter")
        await shown.shows("cpuset.mems 0,2", "log and this recomputation agree")
        _put_right(node)
        await shown.shows("cpuset.mems 2\n")
        for folder in (node / "sys/fs/cgroup").glob("**/podec1e8143aeaf997479388c72fd53049e"):
            shutil.rmtree(folder)
        for file in (node / "var/lib/kubelet").glob("*_manager_state"):
            file.unlink()
        await shown.shows("It is no more; this is what was last known of it.", "cpuset.mems 2\n")

    _live(node, steps)


def test_opening_a_container_asks_for_a_tick_at_once(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        await shown.press("enter")
        await shown.shows("log and this recomputation agree")
        assert await _rests(shown), "for one tick, and not for another"

    _live(node, steps, LONG)


def test_nothing_is_measured_while_it_is_paused(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        before = shown.top.status.taken_at
        await shown.sees(lambda: shown.top.status.taken_at != before)
        await shown.press("p")
        await shown.shows("PAUSED")
        assert await _rests(shown)
        _put_right(node)
        await shown.press("space")
        await shown.shows("1 of 8 promised containers is misaligned")
        assert "PAUSED" not in shown.text()

    _live(node, steps)


def test_a_tick_that_fails_says_so_above_the_last_report(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        cgroups, away = node / "sys/fs/cgroup", node / "away"
        cgroups.rename(away)
        await shown.shows("STALE", "FAILED: ", "below is what there was at ", "2 of 8 promised containers")
        away.rename(cgroups)
        await shown.sees(lambda: "FAILED" not in shown.text() and "STALE" not in shown.text())
        assert "2 of 8 promised containers" in shown.text()

    _live(node, steps)


def test_another_interval_is_in_force_at_once(node: Path) -> None:
    async def steps(shown: Screen) -> None:
        for _ in range(8):
            await shown.press("minus")
        await shown.shows("every 1 s")
        _put_right(node)
        await shown.shows("1 of 8 promised containers is misaligned")
        await shown.press("plus")
        await shown.shows("every 2 s")

    _live(node, steps, LONG)


def test_a_name_that_there_never_was_ends_it_with_the_names_that_are_near(node: Path) -> None:
    async def run() -> Screen:
        async with screen(captured(node, ReportSelection("gu-smal-numanode"))) as shown:
            await shown.sees(lambda: shown.top.error is not None)
        return shown

    assert str(asyncio.run(run()).top.error).startswith("no container matches 'gu-smal-numanode'; did you mean ")


def test_a_bug_in_a_tick_ends_the_screen(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise ZeroDivisionError("a bug")

    async def steps(shown: Screen) -> None:
        monkeypatch.setattr(Observer, "observe", fail)
        await shown.sees(lambda: shown.top.error is not None)

    assert isinstance(_live(node, steps).top.error, ZeroDivisionError)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_what_is_no_terminal_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, name: str
) -> None:
    for one in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, f"__{one}__", io.StringIO() if one == name else _Terminal())
    assert call(["top"]) == 2
    said = {"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}[name]
    assert capsys.readouterr().err == (
        f"numaudit: top needs a terminal, and {said} is none; `numaudit report` needs none\n"
    )


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_only_prints_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: Capture, kind: str) -> None:
    for one in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, f"__{one}__", _Terminal())
    monkeypatch.setenv("TERM", kind)
    assert call(["top"]) == 2
    assert f"and TERM is {kind!r}; `numaudit report` needs none" in capsys.readouterr().err


def test_a_captured_tree_takes_no_interval(monkeypatch: pytest.MonkeyPatch, capsys: Capture, node: Path) -> None:
    for one in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, f"__{one}__", _Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert call(["top", "--interval", "1s", "--root", str(node)]) == 2
    assert "--interval measures the running kernel, and --root reads a captured tree" in capsys.readouterr().err


def test_the_agent_never_loads_the_screen_library() -> None:
    program = "import sys, numaudit.cli.agent, numaudit.daemon.agent\nprint('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_screen_in_a_pod_is_headed_by_the_name_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a report is: a pod has a host name of its own."""
    named: list[str] = []

    class Named:
        error = None

        def __init__(self, _: LiveFeed, name: str, *__: object, **___: object) -> None:
            named.append(name)

        def run(self) -> bool:
            return False

    monkeypatch.setenv("NODE_NAME", "worker-7")
    monkeypatch.setattr("numaudit.views.top.app.Top", Named)
    monkeypatch.setattr("numaudit.cli.observe.top._require_a_terminal", lambda: None)
    assert call(["top"]) == 0
    assert named == ["worker-7"]
