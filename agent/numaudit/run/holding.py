"""Give a command its nodes, and take them back: admission, the state files and the cgroup, in this order.

Whenever the process dies in between, the next `numaudit run` finds a holder that is dead and releases what it held.

The state is `memory_manager_state` and `cpu_manager_state` in a folder of our own, under a lock (flock(2)). Each file
is replaced as a whole, the memory file first. A process that dies between the two leaves an entry of a dead holder in
one of them, which the next reader releases (`commands.held_by`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.file import CPU, MEMORY, Checkpoint, CheckpointKind
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.state import MemoryState
from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.cgroup_writer import OwnCgroup
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet.sources.checkpoints import read_file, write_file
from numaudit.kubelet.sources.process import LocatedKubelet
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.commands import (
    CommandRequest,
    check_wanted,
    checkpoints_of,
    command_pod,
    held_by,
    place,
    read_configuration,
    why_refused,
)
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.outcome import Placement
from numaudit.run import cgroup
from numaudit.run.cgroup import CGROUP_PREFIX, RunHolder, is_alive, is_needed, is_populated, wait_until_empty
from numaudit.run.command import raise_if_signalled
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


class NotAdmitted(Unavailable):
    """The memory manager does not admit the command now."""


class RunCgroups(Struct, frozen=True, dict=True):
    """The cgroups in which commands run and their memory is accounted for."""

    host: Host
    state: Path
    """The folder of the state files."""
    parent: str
    """The cgroup that has the commands' own, from the cgroup2 mount on: `/numaudit`."""
    configuration: object = None
    """As from a file; see `commands.read_configuration`."""

    @cached_property
    def kubelet(self) -> Kubelet:
        """The managers on this machine. Raises InputError, Unavailable."""
        return read_configuration(self.configuration, read_machine(self.host))


class Holding(Struct, frozen=True):
    """Memory and CPUs that a command was given."""

    placement: Placement
    group: OwnCgroup


def require_no_static_kubelet(kubelet: LocatedKubelet) -> None:
    """Raises Unavailable when a kubelet of this host gives memory or CPUs away itself, or may do so."""
    pid, settings = kubelet.process.pid, kubelet.settings
    way_out = "run the command as a pod, or give --beside-kubelet if they share no nodes"
    if pid is None and kubelet.process.rivals:
        raise Unavailable(f"the kubelet of this host is not known: {kubelet.process.unseen}; {way_out}")
    if pid is None:
        return
    if settings is None:
        raise Unavailable(
            f"a kubelet runs here (process {pid}), and its policies are not known: {kubelet.problem}; {way_out}"
        )
    config = settings.config
    static = [
        f"{manager} Manager"
        for manager, policy in (("Memory", config.memory_manager_policy), ("CPU", config.cpu_manager_policy))
        if (policy or "none").lower() != "none"
    ]
    if static:
        raise Unavailable(
            f"the kubelet of this host (process {pid}) manages the same nodes: its {' and '.join(static)} has a "
            f"static policy; {way_out}"
        )


def require_other_folder(kubelet: LocatedKubelet, folder: Path) -> None:
    """Raises InputError: the kubelet's files are its own."""
    if folder.resolve().is_relative_to(kubelet.host.kubelet.resolve()):
        raise InputError(f"--state-dir {folder} is the kubelet's own folder; give another one")


@contextmanager
def hold(here: RunCgroups, wanted: CommandRequest, name: str) -> Iterator[Holding]:
    """Hold the memory and CPUs that a command wants, for as long as the block lasts.

    Raises Refused when it is not admitted, Unavailable and InputError as the parts do. What the command leaves running
    keeps its memory: the holder's cgroup stays until it is empty.
    """
    unified = cgroup.mount(here.host, wanted)
    check_wanted(wanted, here.kubelet.machine)
    parent = unified / here.parent.strip("/")
    holder = RunHolder.this_process(here.host)
    with locked(here.state, raise_if_signalled) as store:
        before = _clean(here, store, parent)
        admission = place(here.kubelet, before, command_pod(str(holder), name, wanted))
        if not admission.admitted:
            store.write(before)
            raise NotAdmitted(why_refused(admission))
        store.write(admission.state)
        (placement,) = admission.placements
        try:
            group = cgroup.make(unified, here.parent, holder.cgroup, wanted, placement, here.kubelet.machine)
        except BaseException:
            store.write(before)
            raise
    try:
        yield Holding(placement, group)
    finally:
        release(here, parent, holder)


def release(here: RunCgroups, parent: Path, holder: RunHolder) -> None:
    """Take back what a holder that ends has, unless its command left processes behind that do not end with it."""
    wait_until_empty(here.host, parent / holder.cgroup)
    with locked(here.state) as store:
        store.write(_clean(here, store, parent, ending=holder))
        with suppress(OSError):  # under the lock: another run may be about to make its cgroup in it
            parent.rmdir()


def _clean(here: RunCgroups, store: StateFolder, parent: Path, ending: RunHolder | None = None) -> NodeState:
    """The state without holders that are dead, and their cgroups removed. One that is `ending` lives by its cgroup."""

    def lives(name: str) -> bool:
        if ending is not None and name == str(ending):
            return is_populated(parent / ending.cgroup)
        return is_alive(here.host, name, parent)

    memory, cpu = store.read()
    state = held_by(here.kubelet, memory, cpu, lives)
    folders: list[Path] = []
    with suppress(FileNotFoundError):  # a run with another state folder may remove it at any time
        folders = [parent / name for name in files.names(parent)]
    for folder in folders:
        is_ours = ending is not None and folder.name == ending.cgroup
        if folder.name.startswith(CGROUP_PREFIX) and (is_ours or not is_needed(here.host, folder.name)):
            with suppress(OSError):  # it is populated, or gone
                folder.rmdir()
    return state
