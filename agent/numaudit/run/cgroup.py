"""The cgroup of a command: the nodes and CPUs it was given, and no more memory than it asked for; of one that is only
measured, all that its caller may use. A `numaudit run` holds them by its process, and the command by its cgroup.

Source: Documentation/admin-guide/cgroup-v2.rst (cpuset, memory, hugetlb).
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel import files, tasks
from numaudit.kernel.cgroup import find_hierarchies, huge_page_label, parse_process_cgroups
from numaudit.kernel.cgroup_writer import OwnCgroup, available_controllers, own_child
from numaudit.kernel.host import Host, explain, read_text
from numaudit.memorymanager.commands import CommandRequest
from numaudit.memorymanager.outcome import Placement
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet

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
        return cls(os.getpid(), tasks.read_main_task(host, os.getpid()).started, _boot(host))

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


def _processes(host: Host, cgroup: Path) -> Iterator[tasks.Task]:
    """Those in the cgroup and below it. One that ends meanwhile is left out."""
    pending = [cgroup]
    while pending:
        folder, pids = pending.pop(), ""
        with suppress(OSError):  # it has gone
            pids = read_text(folder / "cgroup.procs")
            pending += [folder / name for name, _ in files.folders(folder)]
        for pid in map(int, pids.split()):
            with suppress(OSError):
                yield tasks.read_main_task(host, pid)


def _runs(host: Host, pid: int, started: int) -> bool:
    """One that has ended runs no more, though its parent has not waited for it yet."""
    try:
        process = tasks.read_main_task(host, pid)
    except OSError:
        return False
    return process.started == started and process.state not in _ENDED


def _boot(host: Host) -> str:
    return read_text(host.proc / "sys/kernel/random/boot_id").strip()


_NEEDED = ("cpuset", "memory")


def mount(host: Host, wanted: CommandRequest) -> Path:
    """The cgroup2 mount, where it can hold a command. Raises Unavailable with what is missing and what to do."""
    unified = find_hierarchies(host).unified
    boot = "boot with systemd.unified_cgroup_hierarchy=1 (and without cgroup_disable)"
    if unified is None:
        raise Unavailable(
            f"`numaudit run` restricts a command to nodes by cgroup version 2, which is not mounted here; {boot}"
        )
    try:
        offered = available_controllers(unified)
    except OSError as error:
        raise Unavailable(f"{explain(error)}; {boot}") from None
    for name in (*_NEEDED, *(("hugetlb",) if wanted.huge_pages else ())):
        if name not in offered:
            raise Unavailable(
                f"a command needs the {name} controller of cgroup version 2, and {unified} does not offer it: "
                f"cgroup version 1 has it, or it is not delegated to this container; {boot}"
            )
    return unified


def make(
    unified: Path, parent: str, name: str, wanted: CommandRequest, placement: Placement, machine: Machine
) -> OwnCgroup:
    """Make a command's cgroup. Raises Unavailable where the kernel refuses, or grants less than it was asked for."""
    has_huge_pages = "hugetlb" in available_controllers(unified)
    controllers = (*_NEEDED, *(("hugetlb",) if has_huge_pages else ()))
    group = own_child(unified, parent, name, controllers)
    try:
        assert placement.memory_nodes is not None
        group.write("cpuset.mems", str(placement.memory_nodes))
        if placement.cpus is not None:
            group.write("cpuset.cpus", str(placement.cpus))
        group.write("memory.max", str(wanted.memory))
        if has_huge_pages:
            for file, size in _huge_page_limits(wanted.huge_pages, machine).items():
                group.write(file, str(size))
        _check(group, placement.memory_nodes, placement.cpus)
    except BaseException:
        group.remove()
        raise
    return group


def _huge_page_limits(asked: Mapping[int, int], machine: Machine) -> dict[str, int]:
    """Of sizes that it did not ask for it gets none, as a pod's container: they may be promised to others."""
    sizes = {pages.page_size for node in machine.nodes for pages in node.huge_pages}
    return {
        f"hugetlb.{huge_page_label(size)}.{limit}": asked.get(size, 0)
        for size in sizes
        for limit in ("max", "rsvd.max")
    }


def _check(group: OwnCgroup, nodes: NodeSet, cpus: CpuSet | None) -> None:
    """The kernel takes a cpuset that the group above does not have, and then grants what that has."""
    given = NodeSet.parse(read_text(group.path / "cpuset.mems.effective"))
    if given != nodes:
        raise Unavailable(
            f"{group.path} may use {given.in_words}, not {nodes.in_words}: the cgroups above it allow no others"
        )
    if cpus is not None:
        own = CpuSet.parse(read_text(group.path / "cpuset.cpus.effective"))
        if own != cpus:
            raise Unavailable(
                f"{group.path} may use {own.in_words}, not {cpus.in_words}: the cgroups above it allow no others"
            )


@contextmanager
def own_group(host: Host) -> Iterator[OwnCgroup]:
    """A child of our own cgroup, removed at the end unless the command left processes in it.

    A cgroup with processes cannot hand controllers down, the root alone can: elsewhere the child's memory is counted
    with its parent's. Raises Unavailable where cgroup version 2 does not count memory, or we may not make one.
    """
    hierarchies = find_hierarchies(host)
    if hierarchies.unified is None or not hierarchies.is_v2:
        raise Unavailable(
            f"cgroup {hierarchies.mode}: `numaudit` finds the processes of a command by its "
            "cgroup, which must be of version 2; "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
    try:
        own = parse_process_cgroups(read_text(host.proc / "self/cgroup")).get("", "/")
    except OSError as error:
        raise Unavailable(explain(error)) from None
    group = own_child(hierarchies.unified, own, f"numaudit-assert-{os.getpid()}", ("memory",) if own == "/" else ())
    try:
        yield group
    finally:
        with suppress(OSError):
            group.path.rmdir()
