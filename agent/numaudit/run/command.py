"""Start a command in a cgroup, as the caller would have started it, and wait for it.

It stays in the caller's process group, so the terminal treats both as one: what is typed (Ctrl-C, Ctrl-Z) reaches the
command from the kernel. Signals that somebody sends to us alone are passed on.

Source: credentials(7), sigtimedwait(2), cgroup-v2.rst (cgroup.procs), env(1) for the exit codes 126 and 127.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from numaudit.errors import NumauditError, Unavailable
from numaudit.kernel import files

PASSED_ON = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2})
_AWAITED = PASSED_ON | {signal.SIGCHLD}
NOT_EXECUTABLE, NOT_FOUND = 126, 127
_BY_SIGNAL = 128
_LOOK_EVERY = 1.0
"""Seconds: another thread of this process, which does not block SIGCHLD, may get it before we wait for it."""

TickIntervals = Iterator[float]
"""Seconds from one call to the next."""


class NotStarted(NumauditError):
    """The command cannot be executed."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


@contextmanager
def deferred_signals() -> Iterator[Set[int]]:
    """Signals wait until they are asked for, so that none ends us between two steps. Gives the mask before it.

    Those that nobody asked for are dropped at the end: the command has ended, and its exit status is the answer.
    A caller that ignores SIGCHLD hands that down, and then the kernel says of no child that it has ended.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield {int(one) for one in before}
    finally:
        while signal.sigtimedwait(_AWAITED, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def raise_if_signalled() -> None:
    """Raises KeyboardInterrupt when somebody wants us to end and there is no command yet to pass it on to."""
    if signal.sigpending() & {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM}:
        raise KeyboardInterrupt


class RunningCommand(Struct, frozen=True):
    """A command that was started."""

    pid: int

    def wait(self, due: TickIntervals | None = None, tick: Callable[[], None] = lambda: None) -> int:
        """Its exit status, or 128 + the signal that ended it. Meanwhile `tick` is called whenever `due` says.

        Only while `deferred_signals`.
        """
        at = _next(due)
        while True:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else _BY_SIGNAL - code
            self._pass_on(_LOOK_EVERY if at is None else min(_LOOK_EVERY, max(0.0, at - time.monotonic())))
            if at is not None and time.monotonic() >= at:
                tick()
                at = _next(due)

    def _pass_on(self, patience: float) -> None:
        """Wait for one signal. The kernel's own went to the whole process group, so the command has it already."""
        got = signal.sigtimedwait(_AWAITED, patience)
        if got is not None and got.si_signo != signal.SIGCHLD and got.si_code <= 0:
            with suppress(ProcessLookupError):
                os.kill(self.pid, got.si_signo)


def start(arguments: Sequence[str], cgroup: Path | None, mask: Set[int]) -> RunningCommand:
    """Start it in the cgroup with this folder (None = in our own) and with the signal mask `mask`.

    Raises NotStarted where it cannot be executed, Unavailable where it may not join the cgroup.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(arguments, cgroup, mask, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        failure = pipe.read().decode()
    if failure:
        os.waitpid(pid, 0)
        step, _, number = failure.partition(" ")
        raise _refusal(step, int(number), arguments[0], cgroup)
    return RunningCommand(pid)


def _become(arguments: Sequence[str], cgroup: Path | None, mask: Set[int], writer: int) -> NoReturn:
    """The child: join, then execute. What goes wrong is written to `writer`, which a successful exec closes."""
    step = "join"
    try:
        if cgroup is not None:
            _join(cgroup)
        step = "execute"
        _forget_handlers()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvp(arguments[0], list(arguments))  # noqa: S606 -- the caller's own command, without a shell
    except OSError as error:
        os.write(writer, f"{step} {error.errno}".encode())
    except ValueError:  # a zero byte in an argument
        os.write(writer, f"{step} {errno.EINVAL}".encode())
    finally:
        os._exit(NOT_FOUND)


def _join(cgroup: Path) -> None:
    """Enter the cgroup, and set the affinity again: some kernels give a task all CPUs of its new cpuset.

    Source: kernel/cgroup/cpuset.c (cpuset_attach_task).
    Raises OSError.
    """
    before = os.sched_getaffinity(0)
    descriptor = files.open_file(cgroup / "cgroup.procs", os.O_WRONLY)
    os.write(descriptor, b"0")
    if before < os.sched_getaffinity(0):
        os.sched_setaffinity(0, before)


def _forget_handlers() -> None:
    """As they were for us at our start: what the caller ignores stays ignored, and Python's own settings go."""
    for one in PASSED_ON:
        if callable(signal.getsignal(one)):
            signal.signal(one, signal.SIG_DFL)
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)


def _refusal(step: str, number: int, name: str, cgroup: Path | None) -> NumauditError:
    reason = os.strerror(number)
    if step == "join":
        return Unavailable(f"the command cannot join {cgroup}: {reason}; run as root, or give --cgroup one of yours")
    code = NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE
    return NotStarted(f"cannot execute {name}: {reason}", code)


def _next(due: TickIntervals | None) -> float | None:
    return None if due is None else time.monotonic() + next(due)
