"""The kubelet's three checkpoint files, watched: read again when they change, verified, the last good one kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

from numaudit.checkpoints.formats.file import CheckpointKind
from numaudit.errors import Unavailable
from numaudit.intent import CheckpointHealth
from numaudit.kernel.host import Host
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile, Problem, decode
from numaudit.kubelet.sources import settled_file


@dataclass(slots=True)
class WatchedCheckpoint:
    """Follows one file."""

    kind: CheckpointKind
    path: Path
    host: Host
    newest: CheckpointFile = field(init=False)
    last_good_at: float | None = None
    """When it was last good, seconds since the epoch."""
    _stamp: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        self.newest = CheckpointFile(self.kind, self.shown)

    @property
    def shown(self) -> str:
        """The path as messages call it."""
        return self.host.name_of(self.path)

    @property
    def health(self) -> CheckpointHealth:
        return self.newest.health(self.last_good_at)

    def poll(self, now: float, max_age: float = math.inf) -> CheckpointFile:
        """Read the file again if it changed. `now`: seconds since the epoch.

        What was good longer ago than `max_age` seconds is forgotten.
        """
        self._follow()
        if self.newest.is_current:
            self.last_good_at = now
        elif self.last_good_at is not None and now - self.last_good_at > max_age:
            self.newest = replace(self.newest, good=None)
        return self.newest

    def _follow(self) -> None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._fail("absent", f"no file {self.shown}")
            return
        except OSError:  # reading it says why
            self._read(None)
            return
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp or self.newest.problem == "unreadable":
            self._read(status.st_mtime)
            self._stamp = stamp

    def _read(self, written_at: float | None) -> None:
        try:
            data = settled_file.read(self.kind, self.path, self.host)
        except Unavailable as error:
            self._fail("unreadable", str(error), written_at)
            return
        if data is None:
            self._fail("absent", f"no file {self.shown}")
            return
        found = decode(self.kind, data, shown=self.shown)
        good = self.newest.good if found.good is None else found.good
        self.newest = replace(found, good=good, written_at=written_at)

    def _fail(self, problem: Problem, detail: str, written_at: float | None = None) -> None:
        self._stamp = None
        self.newest = CheckpointFile(
            self.kind, self.shown, problem=problem, detail=detail, good=self.newest.good, written_at=written_at
        )
