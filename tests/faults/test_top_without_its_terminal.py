"""`numaudit top` whose terminal vanishes, or takes nothing more: it ends, and leaves no process that spins or waits."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from screens.tmux import PATIENCE

PROGRAM = "from numaudit.cli.start import run; run()"
IMPATIENT = f"import numaudit.views.top.terminal as terminal; terminal._PATIENCE = 0.5; {PROGRAM}"
ENTERED, WORST = b"\x1b[?1049h", b"gu-small-numanode"


@dataclass(slots=True)
class Top:
    """It leads the session of a terminal whose other end is here."""

    pid: int
    process: int
    """Its pidfd."""
    master: int
    name: str
    """Of the terminal."""

    def shows(self, *words: bytes) -> None:
        """Read what it draws until all of them have come."""
        drawn = b""
        while not all(word in drawn for word in words):
            ready, _, _ = select.select([self.master], [], [], PATIENCE)
            assert ready, drawn
            drawn += os.read(self.master, 65536)

    def terminal(self) -> int:
        return os.open(self.name, os.O_RDWR | os.O_NOCTTY)

    def ends_with(self, code: int) -> None:
        ended, _, _ = select.select([self.process], [], [], PATIENCE)
        assert ended, f"thread states: {[one.read_text() for one in Path(f'/proc/{self.pid}/task').glob('*/wchan')]}"
        _, status = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(status) == code


@contextmanager
def _top(*arguments: str, program: str = PROGRAM, hang_up: signal.Handlers = signal.SIG_DFL) -> Iterator[Top]:
    master, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    variables = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, hang_up)
        os.login_tty(terminal)
        os.execve(sys.executable, [sys.executable, "-c", program, "top", *arguments], variables)
    top = Top(pid, os.pidfd_open(pid), master, os.ttyname(terminal))
    os.close(terminal)
    try:
        yield top
    finally:
        if not select.select([top.process], [], [], 0)[0]:
            signal.pidfd_send_signal(top.process, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(top.process)


@pytest.fixture
def captured(fixtures: Path) -> tuple[str, str]:
    return "--root", str(fixtures / "misaligned-node")


def test_bytes_that_are_no_text_are_passed_over(captured: tuple[str, str]) -> None:
    """A terminal in Latin-1 sends such for a letter with an accent, and xterm for Meta."""
    with _top(*captured) as top:
        top.shows(WORST)
        os.write(top.master, b"\xff")
        time.sleep(0.2)  # else both may be read at once, and be passed over together
        os.write(top.master, b"/")
        top.shows(b"filter:")
        os.write(top.master, b"\x1b")
        time.sleep(0.2)
        os.write(top.master, b"q")
        top.ends_with(0)


@pytest.mark.parametrize("hang_up", [signal.SIG_DFL, signal.SIG_IGN])
def test_it_ends_when_its_terminal_is_closed(captured: tuple[str, str], hang_up: signal.Handlers) -> None:
    with _top(*captured, hang_up=hang_up) as top:
        top.shows(WORST)
        os.close(top.master)
        top.ends_with(130)


@pytest.mark.parametrize("hang_up", [signal.SIG_DFL, signal.SIG_IGN])
def test_it_ends_when_the_terminal_is_closed_that_it_draws_on_all_the_time(hang_up: signal.Handlers) -> None:
    with _top("--interval", "200ms", hang_up=hang_up) as top:
        top.shows(b"CONTAINER")
        os.close(top.master)
        top.ends_with(130)


@pytest.mark.parametrize("stop", [signal.SIGSTOP, signal.SIGTSTP, None])
def test_it_ends_when_its_terminal_is_closed_after_it_went_on(
    captured: tuple[str, str], stop: signal.Signals | None
) -> None:
    with _top(*captured, hang_up=signal.SIG_IGN) as top:
        top.shows(WORST)
        if stop is not None:
            signal.pidfd_send_signal(top.process, stop)
            os.waitpid(top.pid, os.WUNTRACED)
        signal.pidfd_send_signal(top.process, signal.SIGCONT)
        top.shows(ENTERED, WORST)
        os.close(top.master)
        top.ends_with(130)


def test_it_ends_when_its_terminal_is_closed_while_it_is_stopped(captured: tuple[str, str]) -> None:
    with _top(*captured, hang_up=signal.SIG_IGN) as top:
        top.shows(WORST)
        signal.pidfd_send_signal(top.process, signal.SIGTSTP)
        os.waitpid(top.pid, os.WUNTRACED)
        os.close(top.master)
        signal.pidfd_send_signal(top.process, signal.SIGCONT)
        top.ends_with(130)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_on_a_terminal_that_takes_nothing_more(
    captured: tuple[str, str], number: signal.Signals
) -> None:
    with _top(*captured, program=IMPATIENT) as top:
        terminal = top.terminal()
        before = termios.tcgetattr(terminal)
        top.shows(WORST)
        termios.tcflow(terminal, termios.TCOOFF)
        signal.pidfd_send_signal(top.process, number)
        top.ends_with(130)
        assert termios.tcgetattr(terminal) == before
        os.close(terminal)
        os.close(top.master)


def test_it_ends_when_a_terminal_is_closed_that_took_nothing_more(captured: tuple[str, str]) -> None:
    with _top(*captured, hang_up=signal.SIG_IGN) as top:
        terminal = top.terminal()
        top.shows(WORST)
        termios.tcflow(terminal, termios.TCOOFF)
        os.write(top.master, b"sr" * 100)
        os.close(terminal)
        os.close(top.master)
        top.ends_with(130)
