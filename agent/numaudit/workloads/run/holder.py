"""Who holds memory: a `numaudit run` by its process, and the command by its cgroup."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from numaudit.collectors.process_times import parse
from numaudit.kernel.host import Host, read_bytes, read_text

CGROUP_PREFIX = "run-"
_CGROUP = re.compile(rf"{CGROUP_PREFIX}(\d{{1,10}})-(\d{{1,20}})", re.ASCII)
_NAME = re.compile(r"(\d{1,10})-(\d{1,20})-([0-9a-f-]{36})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Holder:
    """One `numaudit run`; its text is the pod UID in the state files."""

    pid: int
    started: int
    """Clock ticks since boot: another process may come by the same id."""
    boot: str
    """The kernel's boot_id: after a reboot nobody holds anything."""

    @classmethod
    def this_process(cls, host: Host) -> Holder:
        """Raises OSError without /proc."""
        return cls(os.getpid(), _started(host, os.getpid()), _boot(host))

    @classmethod
    def parse(cls, text: str) -> Holder | None:
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
    holder = Holder.parse(name)
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
    except FileNotFoundError:
        return False


def _runs(host: Host, pid: int, started: int) -> bool:
    try:
        return _started(host, pid) == started
    except OSError:
        return False


def _started(host: Host, pid: int) -> int:
    return parse(pid, read_bytes(host.proc / str(pid) / "stat")).started


def _boot(host: Host) -> str:
    return read_text(host.proc / "sys/kernel/random/boot_id").strip()
