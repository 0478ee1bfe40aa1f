"""The terminal of `numaudit top`: textual's driver, and an end when the terminal vanishes or takes nothing more."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from io import TextIOWrapper
from typing import TextIO, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

_EXIT_INTERRUPTED = 130
_PATIENCE = 10.0
"""Seconds that an orderly end may take after a signal: the last tick may take half of them."""
_PATIENCE_WITHOUT_TERMINAL = 1.0
_LOOK_AGAIN = 1000
"""Milliseconds. Linux wakes those who wait for a hang-up alone when a pty is closed, and not for other terminals."""


class TopDriver(LinuxDriver):
    """Signals reach the screen in its event loop, never inside of a write to its queue, which they would block.

    A thread of its own waits for the end, because the event loop waits for a terminal that takes nothing.
    """

    def __init__(
        self, app: App[bool], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast("TextIOWrapper", _Output(cast("TextIO", sys.__stderr__)))
        self._loop.add_signal_handler(signal.SIGTSTP, self._sigtstp_application)
        self._loop.add_signal_handler(signal.SIGCONT, self._sigcont_application)
        self._asked = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: os.eventfd_write(self._asked, 1))
        threading.Thread(target=self._end_when_due, name="end", daemon=True).start()

    def _get_terminal_size(self) -> tuple[int, int]:
        """The terminal's own, first: an exported COLUMNS, which textual prefers, does not follow it."""
        try:
            width, height = os.get_terminal_size(self.fileno)
        except OSError:  # it has vanished
            width = height = 0
        return (width, height) if width and height else super()._get_terminal_size()

    def _run_input_thread(self) -> None:
        """Bytes that are no UTF-8, as of a terminal in Latin-1, are passed over: textual's reader ends at them."""
        while True:
            try:
                return self.run_input_thread()
            except UnicodeDecodeError:
                continue

    def write(self, data: str) -> None:
        """While it is suspended, nobody takes what is written."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)

    def _sigcont_application(self, *_: object) -> None:
        """A SIGCONT may also follow a SIGSTOP, a hang-up, or nothing: textual would start its threads twice."""
        if self._has_vanished():
            return
        if not self._must_signal_resume:
            if self._is_in_the_background():
                os.kill(os.getpid(), signal.SIGSTOP)
                return
            self.suspend_application_mode()
        super()._sigcont_application()

    def _is_in_the_background(self) -> bool:
        try:
            return os.tcgetpgrp(self.fileno) != os.getpgrp()
        except OSError:  # the terminal is not the one that controls this process
            return False

    def _has_vanished(self) -> bool:
        terminal = select.poll()
        terminal.register(self.fileno, 0)
        return bool(terminal.poll(0))

    def _end_when_due(self) -> None:
        """Wait for a signal or a hang-up, which ends the screen; end the process if that does not."""
        terminal, due = select.poll(), select.poll()
        terminal.register(self.fileno, 0)
        due.register(self.fileno, 0)
        due.register(self._asked, select.POLLIN)
        while not due.poll(_LOOK_AGAIN):
            pass
        try:
            self._loop.call_soon_threadsafe(self._app.exit, True)
        except RuntimeError:  # the screen was closed before, and its last tick is waited for
            os._exit(_EXIT_INTERRUPTED)
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and not terminal.poll(_LOOK_AGAIN):
            pass
        if self._has_vanished():
            time.sleep(_PATIENCE_WITHOUT_TERMINAL)
        elif self.attrs_before is not None:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
        os._exit(_EXIT_INTERRUPTED)


class _Output:
    """Goes on when a write fails: its thread has to empty the queue of the screen, which would wait else."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.fileno = file.fileno

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()
