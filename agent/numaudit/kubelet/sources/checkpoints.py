"""The kubelet's checkpoint files: where they are, reading one, replacing one as a whole; and watched: read again when
they change, verified, the last good one kept.

The kubelet replaces a file by renaming a temporary one over it, so what is read is always a whole file, old or new. Its
temporary files begin with a dot and are left alone. On a node with a running kubelet nothing here may be written: the
files are the kubelet's.

The kubelet writes a file more than once for one pod. The Memory Manager writes the machine's state and then the pod's
blocks, the CPU Manager the container's CPUs and then the shared ones; when it releases CPUs, it first writes them in no
set at all. A file between two such writes is whole, and its checksum fits, but it does not add up.

Source: pkg/kubelet/checkpointmanager, pkg/util/filesystem; rename(2), fsync(2);
pkg/kubelet/cm/memorymanager/policy_static.go (Allocate), pkg/kubelet/cm/cpumanager/policy_static.go (Allocate,
RemoveContainer).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep, time

from msgspec.structs import replace

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY, Checkpoint, CheckpointKind
from numaudit.checkpoints.start import outlook as restart
from numaudit.checkpoints.start.outlook import KubeletAtStart
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.intent.kubelet import CheckpointHealth
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.memory.node_cpus import online_cpus
from numaudit.kernel.own_files import replace_file
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile, Problem, decode


def paths(host: Host) -> Mapping[CheckpointKind, Path]:
    """Paths of the kubelet's checkpoints, whether it is there or not."""
    return {
        MEMORY: host.kubelet / MEMORY,
        CPU: host.kubelet / CPU,
        DEVICES: host.kubelet / "device-plugins" / DEVICES,
        CLAIMS: host.kubelet / CLAIMS,
    }


def read_file(path: Path) -> bytes | None:
    """The file as it is; None = there is none. Raises Unavailable when it may not or cannot be read."""
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise Unavailable(f"cannot read {path}: only root may read it; run as root") from None
    except OSError as error:
        raise Unavailable(f"cannot read {path}: {error.strerror or error}") from None


def write_file(path: Path, checkpoint: Checkpoint) -> None:
    """Replace the file. Whenever the process or the machine dies, the old file or the new one is there.

    Raises InputError when the file that is there is corrupt, because nobody could examine it any
    more; Unavailable when the disk refuses, in which case the old file stays.
    """
    _refuse_corrupt(path, checkpoint)
    try:
        replace_file(path, checkpoints.write(checkpoint))
    except OSError as error:
        raise Unavailable(f"cannot write {path}: {error.strerror}; the file is unchanged") from None


def _refuse_corrupt(path: Path, checkpoint: Checkpoint) -> None:
    data = read_file(path)
    if data is None:
        return
    try:
        is_valid = checkpoints.verify(checkpoints.parse(checkpoints.kind(checkpoint), data)).is_valid
    except ParseError as error:
        raise InputError(
            f"{path} is not overwritten, because it is corrupt: {error}; examine it, then move it away"
        ) from None
    if not is_valid:
        raise InputError(
            f"{path} is not overwritten, because its checksum is wrong; examine it with "
            f"`numaudit state verify {path}`, then move it away"
        )


_YOUNG = 1.0
"""Seconds since its writing in which the next write may still come."""
_PAUSE = 0.05
_TRIES = 10
_TRIES_OF_A_GAP = 4
"""With strict-cpu-reservation the reserved CPUs are in no set for ever."""
_BETWEEN_WRITES = frozenset({"entries-do-not-add-up", "machine-state-missing", "cpu-state-refused"})


@dataclass(slots=True)
class WatchedCheckpoint:
    """Follows one file."""

    kind: CheckpointKind
    path: Path
    host: Host
    newest: CheckpointFile = field(init=False)
    last_good_at: float | None = None
    """Time when it was last good, seconds since the epoch."""
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
            status = files.status(self.path)
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
            data = read_settled(self.kind, self.path, self.host)
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


def read_settled(kind: CheckpointKind, path: Path, host: Host) -> bytes | None:
    """As `read_file`; read again for up to half a second while it was just written and does not add up.

    `host`: whose CPUs those of the CPU Manager's file are.
    """
    data = read_file(path)
    for tried in range(_TRIES):
        if data is None or not _is_young(path) or tried >= _tries(kind, data, host):
            break
        sleep(_PAUSE)
        data = read_file(path)
    return data


def _is_young(path: Path) -> bool:
    try:
        return abs(time() - files.status(path).st_mtime) < _YOUNG
    except OSError:  # it has gone meanwhile: nothing more will come
        return False


def _tries(kind: CheckpointKind, data: bytes, host: Host) -> int:
    """Number of further reads: none when the file adds up, or is wrong in a way that no write of the kubelet leaves."""
    content = decode(kind, data).content
    if content is None:
        return 0
    if not _BETWEEN_WRITES.isdisjoint(one.name for one in restart.examine(*content, None, KubeletAtStart()).findings):
        return _TRIES
    checkpoint, _ = content
    return _TRIES_OF_A_GAP if isinstance(checkpoint, CpuCheckpoint) and _has_gap(checkpoint, host) else 0


def _has_gap(checkpoint: CpuCheckpoint, host: Host) -> bool:
    """Is a CPU that is online in no set?"""
    online, in_file = online_cpus(host), checkpoint.state.in_any_set
    return checkpoint.policy_name == "static" and online is not None and not online <= in_file
