"""State of commands on disk: `memory_manager_state` and `cpu_manager_state` in a folder of our own, under a lock.

Each file is replaced as a whole, the memory file first. A process that dies between the two leaves an entry of a dead
holder in one of them, which the next reader releases (`commands.held_by`).

Source: flock(2).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.file import CPU, MEMORY, Checkpoint, CheckpointKind
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.state import MemoryState
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.kubelet.sources.checkpoints import read_file, write_file
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.commands import checkpoints_of
from numaudit.topology.nodeset import CpuSet

_PATIENCE = 60.0
"""Seconds to wait for the lock, which is held for milliseconds."""
_PAUSE = 0.005


class StateFolder(Struct, frozen=True):
    """A locked folder. Nobody else reads or writes its files meanwhile."""

    folder: Path

    def read(self) -> tuple[MemoryState, CPUState]:
        """Read the files; empty where there is none. Raises InputError for a damaged one, Unavailable."""
        memory, cpu = self._parsed(MEMORY), self._parsed(CPU)
        assert memory is None or isinstance(memory, MemoryCheckpoint)
        assert cpu is None or isinstance(cpu, CpuCheckpoint)
        return (
            MemoryState({}) if memory is None else memory.state,
            CPUState(CpuSet()) if cpu is None else cpu.state,
        )

    def write(self, state: NodeState) -> None:
        """Replace both files. Raises InputError and Unavailable as `write_file`."""
        for checkpoint in checkpoints_of(state):
            write_file(self.folder / checkpoints.kind(checkpoint), checkpoint)

    def _parsed(self, kind: CheckpointKind) -> Checkpoint | None:
        path = self.folder / kind
        data = read_file(path)
        if data is None:
            return None
        try:
            checkpoint = checkpoints.parse(kind, data)
            is_valid = checkpoints.verify(checkpoint).is_valid
        except ParseError as error:
            raise InputError(f"{path} is damaged: {error}; {_WAY_OUT}") from None
        if not is_valid:
            raise InputError(f"{path} is damaged: its checksum is wrong; {_WAY_OUT}")
        return checkpoint


_WAY_OUT = "end all commands that `numaudit run` started, then remove the file"


@contextmanager
def locked(folder: Path, while_waiting: Callable[[], None] = lambda: None) -> Iterator[StateFolder]:
    """The folder's store, made where it is missing. Raises Unavailable when it may not be used, or stays locked.

    `while_waiting` is called now and then, and may give up by raising.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Unavailable(
            f"cannot use the state folder {folder}: {error.strerror}; run as root, or give --state-dir a folder"
        ) from None
    try:
        _lock(descriptor, folder, while_waiting)
        _remove_unfinished(folder)
        yield StateFolder(folder)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, while_waiting: Callable[[], None]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise Unavailable(f"cannot lock {folder / 'lock'}: {error.strerror}") from None
        if time.monotonic() > deadline:
            raise Unavailable(
                f"{folder / 'lock'} has been locked for {_PATIENCE:.0f} s; `fuser {folder / 'lock'}` names the process"
            )
        while_waiting()
        time.sleep(_PAUSE)


def _remove_unfinished(folder: Path) -> None:
    """Remove the files of a process that died while it wrote."""
    for kind in (MEMORY, CPU):
        for path in folder.glob(f".{kind}.*"):
            path.unlink(missing_ok=True)
