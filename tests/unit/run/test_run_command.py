"""A command that numaudit starts is as if the caller had started it: status, signals, terminal, environment."""

from __future__ import annotations

import errno
import os
import pty
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from numaudit.errors import Unavailable
from numaudit.run.command import NotStarted, deferred_signals, raise_if_signalled, start


def outcome(*arguments: str) -> int:
    with deferred_signals() as mask:
        return start(arguments, None, mask).wait()


def in_a_child(act: Callable[[], int]) -> int:
    """Fork; the child's exit code is what `act` gives."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
)
def test_the_exit_status_is_the_commands_or_128_and_the_signal(script: str, code: int) -> None:
    assert outcome("sh", "-c", script) == code


def test_the_end_of_a_command_is_seen_also_by_a_caller_that_ignores_the_ends_of_children() -> None:
    def act() -> int:
        signal.alarm(60)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        return outcome("sh", "-c", "sleep 0.1; exit 7")

    assert ended(in_a_child(act)) == 7


def test_the_end_of_a_command_is_seen_also_where_another_thread_took_its_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread of the caller that does not block SIGCHLD may get it before anybody waits for it."""
    waitpid = os.waitpid
    looked: list[int] = []

    def just_before_the_end(pid: int, options: int) -> tuple[int, int]:
        if looked:
            return waitpid(pid, options)
        looked.append(pid)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert signal.sigtimedwait({signal.SIGCHLD}, 0)
        return 0, 0

    def act() -> int:
        signal.alarm(60)
        monkeypatch.setattr(os, "waitpid", just_before_the_end)
        return outcome("sh", "-c", "exit 7")

    assert ended(in_a_child(act)) == 7


def test_a_command_that_is_not_there_is_127_and_one_that_cannot_run_is_126(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("text")
    for name, code in (("/no/such/command", 127), ("no-such-command-on-the-path", 127), (str(plain), 126)):
        with pytest.raises(NotStarted, match=name) as refused:
            outcome(name)
        assert refused.value.exit_code == code


def test_a_cgroup_that_cannot_be_joined_is_said_and_the_command_does_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with deferred_signals() as mask, pytest.raises(Unavailable, match="cannot join"):
        start(["touch", str(mark)], tmp_path / "gone", mask)
    assert not mark.exists()


def test_a_signal_to_us_alone_is_passed_on(tmp_path: Path) -> None:
    ready, told = os.pipe()
    script = "trap 'kill $!; exit 9' USR1; sleep 1000 & echo >&3; wait"

    def act() -> int:
        os.dup2(told, 3)
        return outcome("sh", "-c", script)

    pid = in_a_child(act)
    assert os.read(ready, 1) == b"\n"
    os.kill(pid, signal.SIGUSR1)
    assert ended(pid) == 9


def test_the_command_has_our_process_group_our_environment_and_no_signals_blocked_or_ignored(tmp_path: Path) -> None:
    file = tmp_path / "seen"
    os.environ["NUMAUDIT_TEST_OF_RUN"] = "kept"
    try:
        script = "cut -d' ' -f5 /proc/self/stat; echo $NUMAUDIT_TEST_OF_RUN; grep -E '^Sig(Blk|Ign)' /proc/self/status"
        assert outcome("sh", "-c", f"({script}) >{file}") == 0
    finally:
        del os.environ["NUMAUDIT_TEST_OF_RUN"]
    group, kept, *masks = file.read_text().split("\n")
    assert int(group) == os.getpgrp()
    assert kept == "kept"
    blocked, ignored = (int(line.split()[1], 16) for line in masks[:2])
    assert not blocked & (1 << signal.SIGTERM - 1 | 1 << signal.SIGCHLD - 1 | 1 << signal.SIGINT - 1)
    assert not ignored & (1 << signal.SIGPIPE - 1)


def test_what_is_typed_at_the_terminal_reaches_the_command_once() -> None:
    """Ctrl-C goes to the whole process group: it is not passed on a second time."""
    script = "n=0; trap 'n=$((n+1)); echo int $n' INT; echo ready; while read line; do echo got $line $n; exit $n; done"
    pid, terminal = pty.fork()
    if pid == 0:
        code = 99
        try:
            code = outcome("bash", "-c", script)
        finally:
            os._exit(code)
    _until(terminal, b"ready")
    os.write(terminal, b"\x03")
    _until(terminal, b"int 1")
    os.write(terminal, b"\n")
    _until(terminal, b"got")
    assert ended(pid) == 1
    os.close(terminal)


def test_ctrl_c_ends_a_command_that_does_not_catch_it_and_its_status_says_so() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        code = 99
        try:
            code = outcome("sh", "-c", "echo ready; exec sleep 1000")
        finally:
            os._exit(code)
    _until(terminal, b"ready")
    os.write(terminal, b"\x03")
    assert ended(pid) == 128 + signal.SIGINT
    os.close(terminal)


def test_a_signal_before_there_is_a_command_ends_us() -> None:
    def act() -> int:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with deferred_signals():
            raise_if_signalled()
            os.kill(os.getpid(), signal.SIGTERM)
            try:
                raise_if_signalled()
            except KeyboardInterrupt:
                return 5
        return 6

    assert ended(in_a_child(act)) == 5


def test_ticks_come_while_the_command_runs_and_a_late_signal_does_not_change_its_status() -> None:
    def act() -> int:
        ready, told = os.pipe()
        os.dup2(ready, 3)
        seen: list[int] = []

        def tick() -> None:
            seen.append(1)
            if len(seen) == 3:
                os.close(told)

        with deferred_signals() as mask:
            running = start(["sh", "-c", "read _ <&3; exit 4"], None, mask)
            code = running.wait(iter([0.01] * 10_000), tick)
            os.kill(os.getpid(), signal.SIGTERM)
        return code

    assert ended(in_a_child(act)) == 4


def _until(terminal: int, text: bytes) -> None:
    seen = b""
    while text not in seen:
        try:
            seen += os.read(terminal, 1024)
        except OSError as error:
            assert error.errno == errno.EIO
            raise AssertionError(f"the terminal was closed after {seen!r}") from None
