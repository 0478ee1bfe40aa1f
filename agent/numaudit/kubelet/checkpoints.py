"""The kubelet's three checkpoint files, watched: read again when they change, verified, the last good one kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from numaudit.errors import Unavailable
from numaudit.intent import CheckpointHealth
from numaudit.kernel.host import Host
from numaudit.kubelet import settled_file
from numaudit.kubelet.examination import Decoded, decode
from numaudit.kubelet.readings import CheckpointReading
from numaudit.memorymanager.checkpoint import file as checkpoints
from numaudit.memorymanager.checkpoint.device import DeviceCheckpoint
from numaudit.memorymanager.checkpoint.file import Checkpoint, Kind
from numaudit.memorymanager.restart.outlook import UNKNOWN_FORMAT

Problem = Literal["absent", "unreadable", "not understood", "checksum", "newer format"]


@dataclass(slots=True)
class WatchedCheckpoint:
    """One file. `good` is the newest content whose checksum fitted."""

    kind: Kind
    path: Path
    host: Host
    good: Checkpoint | None = None
    newest: Decoded | None = None
    """The file as it is now, whatever is wrong with it; None = it is absent or cannot be read."""
    health: CheckpointHealth = field(init=False)
    _stamp: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        self.health = CheckpointHealth(self.kind)

    @property
    def shown(self) -> str:
        """The path as messages call it."""
        return self.host.name_of(self.path)

    @property
    def is_current(self) -> bool:
        """Is `good` what the file says now?"""
        return self.good is not None and self.health.problem is None

    def poll(self, now: float) -> CheckpointReading:
        """Read the file again if it changed. `now`: seconds since the epoch."""
        self._follow(now)
        return CheckpointReading(self.health, self.path, self.shown, self.good, self.newest)

    def _follow(self, now: float) -> None:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._fail("absent", f"no file {self.shown}")
            return
        except OSError:  # reading it says why
            self._read(None)
            return
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp or self.health.problem == "unreadable":
            self._read(status.st_mtime)
            self._stamp = stamp
        if self.is_current:
            self._set(last_good_at=now)

    def _read(self, written_at: float | None) -> None:
        try:
            data = settled_file.read(self.kind, self.path, self.host)
        except Unavailable as error:
            self._fail("unreadable", str(error), written_at)
            return
        if data is None:
            self._fail("absent", f"no file {self.shown}")
            return
        decoded = decode(self.kind, data, shown=self.shown)
        if decoded.content is None:
            problem: Problem = "newer format" if decoded.is_newer else "not understood"
            self._fail(problem, f"{self.shown}: {decoded.error}", written_at, newest=decoded)
            return
        self.newest = decoded
        found, verification = decoded.content
        policy = None if isinstance(found, DeviceCheckpoint) else found.policy_name
        newer = checkpoints.newer_format(found, verification)
        if newer is not None:
            self._fail("newer format", f"{self.shown}: {UNKNOWN_FORMAT}: {newer}", written_at, policy, decoded)
            return
        if not verification.is_valid:
            keys = f"; it has keys unknown here: {', '.join(found.unknown[:3])}" if found.unknown else ""
            self._fail(
                "checksum",
                f"{self.shown}: the checksum is {verification.stored}, its content gives {verification.computed}{keys}",
                written_at,
                policy,
                newest=decoded,
            )
            return
        self.good = found
        self.health = CheckpointHealth(self.kind, policy, verification.form, written_at)

    def _fail(
        self,
        problem: Problem,
        detail: str | None,
        written_at: float | None = None,
        policy: str | None = None,
        newest: Decoded | None = None,
    ) -> None:
        self._stamp = None
        self.newest = newest
        self.health = CheckpointHealth(self.kind, policy, None, written_at, self.health.last_good_at, problem, detail)

    def _set(self, last_good_at: float) -> None:
        health = self.health
        self.health = CheckpointHealth(health.file, health.policy, health.form, health.written_at, last_good_at)
