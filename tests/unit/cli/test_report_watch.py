"""`numaudit report --watch`: tick after tick, a tick that fails, and how it ends."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from numaudit.cli.main import call
from numaudit.cli.observe import report_watch
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from tree_copies import lent

Capture = pytest.CaptureFixture[str]
Between = Callable[..., None]


@pytest.fixture
def node(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of a captured node, taken for this host."""
    with lent(fixtures / "misaligned-node") as root:
        monkeypatch.setattr("numaudit.cli.options.Host.here", lambda: Host.under(root))
        yield root


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """What happens between the ticks; Ctrl-C comes after the last of them."""

    def between(*steps: Callable[[], object]) -> None:
        left = iter(steps)

        def pause(_seconds: float) -> None:
            step = next(left, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr(report_watch, "pause", pause)

    return between


def _nothing() -> None:
    pass


def test_every_tick_draws_the_report_and_ctrl_c_ends_it(node: Path, between: Between, capsys: Capture) -> None:
    between(_nothing, _nothing)
    assert call(["report", "--watch", "2s", "--verdict", "drifted"]) == 130
    out, err = capsys.readouterr()
    assert len(re.findall(r"(?m)^\d\d:\d\d:\d\d, every 2 s; Ctrl-C ends it$", out)) == 3
    assert out.count("\n2 of 8 promised containers are misaligned") == 3
    assert out.count("\n1 of 30 rows shown\n") == 3
    assert err == ""
    assert "\x1b" not in out


def test_a_later_tick_shows_what_has_changed(node: Path, between: Between, capsys: Capture) -> None:
    def put_right() -> None:
        for file in (node / "sys/fs/cgroup").glob("**/podec1e8143aeaf997479388c72fd53049e/*/cpuset.mems.effective"):
            if file.read_text().strip() == "0,2":
                file.write_text("2\n")

    between(put_right)
    assert call(["report", "--watch"]) == 130
    first, second = re.findall(r"(?m)^(\d) of 8 promised", capsys.readouterr().out)
    assert (first, second) == ("2", "1")


def test_each_tick_is_judged_by_the_one_before_it(node: Path, between: Between, capsys: Capture) -> None:
    """Bytes that are out of place once may be on their way: only a second tick makes them spilled."""
    (stat,) = (node / "sys/fs/cgroup/kubepods/podd3e03ed6e8ea78355e1d1b3a6bdbf5f3").glob("7eb4*/memory.numa_stat")
    anon, rest = stat.read_text().split("\n", 1)
    stat.write_text(anon.replace("N0=", "N9=").replace("N1=", "N0=").replace("N9=", "N1=") + "\n" + rest)
    between(_nothing)
    assert call(["report", "gu-two-numanode/a", "--watch"]) == 130
    first, second = re.findall(r"(?m)^VERDICT (\S+)", capsys.readouterr().out)
    assert (first, second) == ("unknown", "spilled")


def test_a_tick_that_fails_says_so_above_the_last_report(node: Path, between: Between, capsys: Capture) -> None:
    cgroups, away = node / "sys/fs/cgroup", node / "away"
    between(lambda: cgroups.rename(away), lambda: away.rename(cgroups))
    assert call(["report", "--watch"]) == 130
    out = capsys.readouterr().out
    first, failed, last = re.findall(r"(?m)^\d\d:\d\d:\d\d, every 5 s; Ctrl-C ends it(.*)$", out)
    assert (first, last) == ("", "")
    assert re.fullmatch(r"; FAILED: .+; below is what there was at \d\d:\d\d:\d\d", failed)
    assert out.count("2 of 8 promised containers are misaligned") == 3


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error", "/sys/x"), ValueError("no number"), Unavailable("no")]
)
def test_whatever_a_later_tick_raises_is_said_and_watching_goes_on(
    node: Path, between: Between, capsys: Capture, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    observe = Observer.observe

    def fail(*_: object, **__: object) -> NoReturn:
        raise error

    between(
        lambda: monkeypatch.setattr(Observer, "observe", fail),
        lambda: monkeypatch.setattr(Observer, "observe", observe),
    )
    assert call(["report", "--watch"]) == 130
    out = capsys.readouterr().out
    assert out.count("; FAILED: ") == 1
    assert out.count("2 of 8 promised containers are misaligned") == 3


def test_a_container_that_has_ended_is_a_tick_that_fails(node: Path, between: Between, capsys: Capture) -> None:
    def end() -> None:
        for folder in (node / "sys/fs/cgroup").glob("**/pod*11909391e6eae33a104bafa75980e9ea"):
            shutil.rmtree(folder)
        for file in (node / "var/lib/kubelet").glob("*_manager_state"):
            file.unlink()

    between(end)
    assert call(["report", "gu-small-numanode", "--watch"]) == 130
    assert "FAILED: no container matches 'gu-small-numanode'" in capsys.readouterr().out


def test_a_name_that_there_never_was_is_refused_at_once(node: Path, between: Between, capsys: Capture) -> None:
    between()
    assert call(["report", "no-such", "--watch"]) == 2
    assert capsys.readouterr().err.startswith("numaudit: no container matches 'no-such'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--root", "/x"), "--watch measures the running kernel, and --root reads a captured tree"),
        (("--duration", "10s"), "--watch measures from one report to the next, and --duration once"),
        (("-o", "json"), "--watch draws tables until Ctrl-C: leave out -o json and html, --fail-on and --fail-below"),
        (("--fail-on", "drifted"), "--watch draws tables until Ctrl-C"),
        (("--fail-below", "1"), "--watch draws tables until Ctrl-C"),
    ],
)
def test_what_does_not_go_with_watching_is_refused(
    node: Path, capsys: Capture, arguments: tuple[str, ...], said: str
) -> None:
    root = [str(node) if word == "/x" else word for word in arguments]
    assert call(["report", *root, "--watch", "1s"]) == 2
    assert capsys.readouterr().err.startswith(f"numaudit: {said}")


def test_a_name_after_the_option_is_taken_for_no_time(capsys: Capture) -> None:
    assert call(["report", "--watch", "mysql-0"]) == 2
    assert "is not a time such as 500ms, 10s or 1m; a NAME comes before --watch" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--matrix",), ("--first-touch",), ("--sort", "cpu")])
def test_watching_measures_what_else_needs_a_duration(node: Path, between: Between, option: tuple[str, ...]) -> None:
    between()
    assert call(["report", *option]) == 2
    assert call(["report", *option, "--watch"]) == 130


def test_a_terminal_gets_as_many_lines_as_it_has() -> None:
    lines = [f"line {number}" for number in range(50)]
    cut = report_watch.cut(lines, columns=80, rows=24)
    assert cut == [*lines[:22], "... 28 more lines; --top N shows fewer rows"]
    assert report_watch.cut(lines[:22], columns=80, rows=24) == lines[:22]
    wide = ["\x1b[31m" + "x" * 200 + "\x1b[0m", *lines]
    assert len(report_watch.cut(wide, columns=80, rows=24)) == 21


@pytest.fixture
def on_a_terminal() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Its reading end, and the command with this host as a real process."""
    mine, its = pty.openpty()
    command = [sys.executable, "-c", "from numaudit.cli.start import run; run()", "report", "--watch", "50ms"]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        yield mine, process
        process.kill()
    os.close(mine)


def test_a_terminal_is_drawn_over_and_ctrl_c_ends_the_process(
    on_a_terminal: tuple[int, subprocess.Popen[bytes]],
) -> None:
    terminal, process = on_a_terminal
    text = b""
    while text.count(b"Ctrl-C ends it") < 3:
        text += os.read(terminal, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while rest := os.read(terminal, 65536):
            text += rest
    except OSError:  # the other end is closed
        pass
    assert process.wait() == 130
    assert b"Traceback" not in text
    assert text.count(b"\x1b[H") >= 3
    assert b"\x1b[3" not in text, "NO_COLOR"
