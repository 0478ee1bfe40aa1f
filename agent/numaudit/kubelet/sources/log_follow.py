"""Following the kubelet's log: a file by position, or the journal by cursor; never more than a bounded part at once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import BinaryIO, Protocol

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host
from numaudit.kubelet.parsers.klog import LONGEST_LINE

AT_ONCE = 8 << 20
"""Bytes that one read takes at most; the rest comes with the next."""
BACKLOG = 32 << 20
"""Bytes behind the end of a file beyond which older ones are passed over, and counted."""
_FIRST_LINES = 50_000
_JOURNAL_SECONDS = 10.0
_HEAD = 256

UNITS = ("kubelet", "k3s", "k3s-agent", "rke2-server", "rke2-agent", "snap.microk8s.daemon-kubelite",
    "snap.kubelet.daemon", "snap.k8s.kubelet")  # fmt: skip
"""Units that run a kubelet, in common distributions."""


class LogLine(Struct, frozen=True):
    """One line without its end, and when it was logged where the log itself is not the one to ask."""

    text: str
    at: float | None = None
    """Seconds since the epoch."""


class LogSource(Protocol):
    """Source of the kubelet's log."""

    @property
    def lost(self) -> int:
        """Bytes passed over since the start."""

    def read(self) -> Iterator[LogLine]:
        """The lines since the last read. Raises Unavailable."""


@dataclass(slots=True)
class FileLog:
    """Follows a file over renames and truncations. What a rotation left unread in the old file is read first."""

    path: Path
    shown: str
    """The path as messages call it."""
    at_once: int = AT_ONCE
    backlog: int = BACKLOG
    lost: int = 0
    _file: BinaryIO | None = field(default=None, init=False, repr=False)
    _offset: int = field(default=0, init=False)
    _head: bytes = field(default=b"", init=False)
    _rest: bytes = field(default=b"", init=False)
    """The beginning of a line whose end is not written yet."""
    _skipping: bool = field(default=False, init=False)
    """The line at hand is longer than any we want: pass over it to its end."""
    _is_gone: bool = field(default=False, init=False)
    """There was no file in the newest read."""

    def read(self) -> Iterator[LogLine]:
        """Lines since the last read. Raises Unavailable, after these, for a file that stays away."""
        left = self.at_once
        if self._file is None:
            self._open()
            left = self.backlog
        elif self._is_rewritten():
            self._begin(0)
        yield from self._read(left)
        if self._is_replaced():
            yield from self._read(self.backlog)
            self._open()
            yield from self._read(left)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        try:
            # A named pipe in its place must not make us wait for a writer.
            file = os.fdopen(files.open_file(self.path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        except OSError as error:
            raise Unavailable(f"cannot read {self.shown}: {error.strerror or error}") from None
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise Unavailable(f"cannot read {self.shown}: it is not a regular file")
        self.close()
        self._file = file
        self._begin(0)

    def _begin(self, offset: int) -> None:
        self._offset, self._rest, self._skipping = offset, b"", False
        self._head = b"" if self._file is None else os.pread(self._file.fileno(), _HEAD, 0)

    def _read(self, left: int) -> Iterator[LogLine]:
        if self._file is None:
            return
        end = os.fstat(self._file.fileno()).st_size
        if end - self._offset > self.backlog:
            self.lost += end - self.backlog - self._offset + len(self._rest)
            self._begin(end - self.backlog)
            self._skipping = True
        while left > 0 and self._offset < end:
            part = os.pread(self._file.fileno(), min(1 << 20, left, end - self._offset), self._offset)
            if not part:
                return
            self._offset += len(part)
            left -= len(part)
            yield from self._split(part)

    def _split(self, part: bytes) -> Iterator[LogLine]:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if self._skipping:
                self._skipping = False
            else:
                yield LogLine(line.decode("utf-8", "replace"))
        if len(self._rest) > LONGEST_LINE:
            self.lost += len(self._rest)
            self._rest, self._skipping = b"", True

    def _is_rewritten(self) -> bool:
        """Truncated, and maybe written further than it was read: then it begins with something else."""
        if self._file is None:
            return False
        if os.fstat(self._file.fileno()).st_size < self._offset:
            return True
        now = os.pread(self._file.fileno(), _HEAD, 0)
        if len(now) > len(self._head) and now.startswith(self._head):
            self._head = now
            return False
        return now != self._head

    def _is_replaced(self) -> bool:
        if self._file is None:
            return False
        own = os.fstat(self._file.fileno())
        was_gone, self._is_gone = self._is_gone, False
        try:
            other = files.status(self.path)
        except OSError as error:
            self._is_gone = True
            if was_gone:
                raise Unavailable(f"cannot read {self.shown}: {error.strerror or error}") from None
            # Between the two steps of a rotation there is no file; the new one is found next time.
            return False
        return (own.st_dev, own.st_ino) != (other.st_dev, other.st_ino)


@dataclass(slots=True)
class JournalLog:
    """Reads what systemd-journald has of the kubelet's units since the cursor."""

    units: tuple[str, ...] = UNITS
    at_once: int = AT_ONCE
    program: str = "journalctl"
    folder: Path | None = None
    """Of the journal; None = this machine's."""
    lost: int = 0
    _cursor: str | None = field(default=None, init=False)

    def read(self) -> Iterator[LogLine]:
        first = self._cursor is None
        where = ["--boot", f"--lines={_FIRST_LINES}"] if first else [f"--after-cursor={self._cursor}"]
        # Without --all a message of more than 4 KiB, as those with hints are, comes as null.
        arguments = [self.program, "--output=json", "--output-fields=MESSAGE", "--all", "--quiet", "--no-pager", *where]
        arguments += [f"--unit={unit}" for unit in self.units]
        arguments += [] if self.folder is None else [f"--directory={self.folder}"]
        try:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise Unavailable(f"cannot run {self.program}: {error.strerror or error}") from None
        until = monotonic() + _JOURNAL_SECONDS
        timer = Timer(_JOURNAL_SECONDS, process.kill)
        with process:
            timer.start()
            try:
                yield from self._lines(process, BACKLOG if first else self.at_once)
            finally:
                timer.cancel()
                if process.poll() is None:
                    process.kill()
            failed = process.wait() > 0
            message = process.stderr.read(2000).decode("utf-8", "replace").strip() if process.stderr else ""
        if failed and message:
            raise Unavailable(f"{self.program}: {message.splitlines()[-1]}")
        if monotonic() >= until and self._cursor is None:
            raise Unavailable(f"{self.program}: no answer within {_JOURNAL_SECONDS:g} s")
        if self._cursor is None:
            raise Unavailable(f"the journal has no line of {', '.join(self.units)} since this host started")

    def _lines(self, process: subprocess.Popen[bytes], left: int) -> Iterator[LogLine]:
        if process.stdout is None:
            return
        while left > 0:
            text = process.stdout.readline(2 * LONGEST_LINE)
            if not text:
                process.wait()
                return
            left -= len(text)
            if not text.endswith(b"\n"):
                self.lost += len(text)
                continue
            line = self._entry(text)
            if line is not None:
                yield line

    def _entry(self, text: bytes) -> LogLine | None:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(entry, dict):
            return None
        cursor, message, at = (entry.get(key) for key in ("__CURSOR", "MESSAGE", "__REALTIME_TIMESTAMP"))
        if isinstance(cursor, str):
            self._cursor = cursor
        if isinstance(message, list) and all(type(one) is int and 0 <= one < 256 for one in message):
            # journalctl's form of a text that is not UTF-8.
            message = bytes(message).decode("utf-8", "replace")
        if not isinstance(message, str):
            return None
        return LogLine(message, int(at) / 1e6 if isinstance(at, str) and at.isdigit() and len(at) < 20 else None)


def live_log(host: Host) -> LogSource:
    """The log of this host's kubelet: the file that the settings name, else the journal."""
    path = host.connection.log_file
    if path is not None:
        return FileLog(path, str(path))
    folders = [host.at(one) for one in ("/var/log/journal", "/run/log/journal")] if host.is_mounted else []
    folder = next((one for one in folders if files.is_folder(one)), folders[0] if folders else None)
    return JournalLog(folder=None if folder is None else Path(files.real_path(folder)))
