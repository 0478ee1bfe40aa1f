"""Processes and cgroups that hold memory: a `numaudit run` by its process, and the command by its cgroup."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from numaudit.kernel import files, tasks
from numaudit.kernel.host import Host, read_bytes, read_text

CGROUP_PREFIX = "run-"
_LINGERING = 1.0
"""Seconds of sleep that a process left behind may take to end after the command, as the rest of a pipeline does."""
_LONGEST = 30.0
"""Seconds to wait for those that do not sleep."""
_PAUSE = 0.01
_ENDED = "ZX"
_CGROUP = re.compile(rf"{CGROUP_PREFIX}(\d{{1,10}})-(\d{{1,20}})", re.ASCII)
_NAME = re.compile(r"(\d{1,10})-(\d{1,20})-([0-9a-f-]{36})", re.ASCII)


class RunHolder(Struct, frozen=True):
    """One `numaudit run`; its text is the pod UID in the state files."""

    pid: int
    started: int
    """Clock ticks since boot: another process may come by the same id."""
    boot: str
    """The kernel's boot_id: after a reboot nobody holds anything."""

    @classmethod
    def this_process(cls, host: Host) -> RunHolder:
        """Raises OSError without /proc."""
        return cls(os.getpid(), _process(host, os.getpid()).started, _boot(host))

    @classmethod
    def parse(cls, text: str) -> RunHolder | None:
        """None = no `numaudit run` wrote it."""
        match = _NAME.fullmatch(text)
        return None if match is None else cls(int(match[1]), int(match[2]), match[3])

    def __str__(self) -> str:
        return f"{self.pid}-{self.started}-{self.boot}"

    @property
    def cgroup(self) -> str:
        """Name of the command's cgroup: unique as long as the machine is up."""
        return f"{CGROUP_PREFIX}{self.pid}-{self.started}"


def is_alive(host: Host, name: str, parent: Path) -> bool:
    """Does the holder with this name still have its memory? `parent` is the folder of the commands' cgroups.

    A command may outlive the `numaudit run` that started it: what is in its cgroup still uses the memory.
    """
    holder = RunHolder.parse(name)
    if holder is None or holder.boot != _boot(host):
        return False
    return _runs(host, holder.pid, holder.started) or is_populated(parent / holder.cgroup)


def is_needed(host: Host, cgroup: str) -> bool:
    """Does the `numaudit run` that made the cgroup of this name still run? Also one with another state folder."""
    match = _CGROUP.fullmatch(cgroup)
    return match is None or _runs(host, int(match[1]), int(match[2]))


def is_populated(cgroup: Path) -> bool:
    """Has the cgroup, or one below it, a process? False when it is not there."""
    try:
        return "populated 1" in read_text(cgroup / "cgroup.events")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # ENODEV: it was removed after it was opened
            return False
        raise


def wait_until_empty(host: Host, cgroup: Path) -> None:
    """Wait until the cgroup is empty, or what is left in it does not seem to end.

    Where all of it sleeps, time runs out soon: it is a program that stays. What wants a CPU may be about to end, and on
    a busy machine that takes a while.
    """
    asleep, deadline = 0.0, time.monotonic() + _LONGEST
    while is_populated(cgroup) and asleep < _LINGERING and time.monotonic() < deadline:
        if all(one.state == "S" for one in _processes(host, cgroup)):
            asleep += _PAUSE  # and not the time that passed: we, too, may have waited for a CPU
        time.sleep(_PAUSE)


def _processes(host: Host, cgroup: Path) -> Iterator[tasks.Process]:
    """Those in the cgroup and below it. One that ends meanwhile is left out."""
    pending = [cgroup]
    while pending:
        folder, pids = pending.pop(), ""
        with suppress(OSError):  # it has gone
            pids = read_text(folder / "cgroup.procs")
            pending += [folder / name for name, _ in files.folders(folder)]
        for pid in map(int, pids.split()):
            with suppress(OSError):
                yield _process(host, pid)


def _runs(host: Host, pid: int, started: int) -> bool:
    """One that has ended runs no more, though its parent has not waited for it yet."""
    try:
        process = _process(host, pid)
    except OSError:
        return False
    return process.started == started and process.state not in _ENDED


def _process(host: Host, pid: int) -> tasks.Process:
    return tasks.parse_process(pid, read_bytes(host.proc / str(pid) / "stat"))


def _boot(host: Host) -> str:
    return read_text(host.proc / "sys/kernel/random/boot_id").strip()
