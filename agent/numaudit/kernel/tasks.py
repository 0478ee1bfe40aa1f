"""/proc/PID and /proc/PID/task/TID: when processes and threads started, where each ran and may run, and how much memory
a process maps.

Source: proc_pid_stat(5), fields 2 (comm), 3 (state), 4 (ppid), 14 (utime), 15 (stime), 22 (starttime), 39 (processor);
proc_pid_status(5), proc_pid_task(5), fs/proc/task_mmu.c (task_mem), fs/proc/array.c (proc_pid_status). Everybody may
read `stat` and `status`. The kernel may be some pages behind for each CPU in sizes of memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from numaudit.errors import ParseError
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_bytes, read_text
from numaudit.topology.nodeset import CpuSet, NodeSet


class Task(NamedTuple):
    """A process or one of its threads."""

    name: bytes
    state: str
    """The kernel's letter: R runs or wants to, S sleeps, D waits for a disk, Z has ended and is not waited for, ..."""
    parent: int
    """Id of the parent process; 0 = it is in another PID namespace, or there is none."""
    ticks: int
    """CPU time in clock ticks: that of a thread, or of all threads of a process, those that have ended included."""
    started: int
    """Clock ticks since boot: another process may come by the same id."""
    last_cpu: int
    """CPU that it ran on last; of a process, its main thread."""


def parse_task(stat: bytes) -> Task:
    """A line of /proc/PID/stat. The name in it may hold any character.

    Raises IndexError and ValueError for what is no such line.
    """
    fields = stat.rpartition(b")")[2].split(None, 37)
    return Task(
        name=stat[stat.find(b"(") + 1 : stat.rfind(b")")],
        state=fields[0].decode("ascii", "replace"),
        parent=int(fields[1]),
        ticks=int(fields[11]) + int(fields[12]),
        started=int(fields[19]),
        last_cpu=int(fields[36]),
    )


def booted_at(host: Host) -> float | None:
    """Seconds since the epoch, by /proc/stat; None = not known."""
    try:
        words = read_text(host.proc / "stat").split()
        return float(words[words.index("btime") + 1])
    except (OSError, ValueError, IndexError):
        return None


_LINE = re.compile(rb"^Rss(Anon|File|Shmem):\s+(\d{1,15}) kB$", re.MULTILINE)
_PLACE = re.compile(rb"^(NSpid|Threads|CapEff|Seccomp|Cpus_allowed_list|Mems_allowed_list):[ \t]*(.*)$", re.MULTILINE)
_SYS_NICE = 23
"""Bit of CAP_SYS_NICE. Source: include/uapi/linux/capability.h."""


class Placing(NamedTuple):
    """Nodes and CPUs that one thread may use, and what it may change of that. None = this kernel does not say."""

    cpus: CpuSet | None
    """Cpus_allowed: its affinity within its cpuset."""
    memory_nodes: NodeSet | None
    """Mems_allowed: by its cpuset alone; memory policies do not show here."""
    seccomp: int | None
    """0 = disabled, 1 = strict, 2 = filter."""
    sys_nice: bool | None
    """Is CAP_SYS_NICE in effect?"""
    threads: int | None
    """Of its process."""
    ids: tuple[int, ...]
    """Its ids, from the PID namespace of this /proc to its own. Empty = not known."""


class ProcessMemory(NamedTuple):
    """Bytes that are resident, without huge pages of the pool."""

    anon: int
    file: int
    """Of files on disks, libraries included."""
    shmem: int
    """Of files in a tmpfs, and of shared memory without a name."""


def read_memory(host: Host, pid: int) -> ProcessMemory:
    """Raises OSError when the process has ended or may not be read, ParseError."""
    return parse_memory(read_bytes(f"{host.proc}/{pid}/status"))


def parse_memory(text: bytes) -> ProcessMemory:
    """Raises ParseError where sizes are missing, as of a kernel thread or a process that has ended."""
    sizes = {name: int(size) << 10 for name, size in _LINE.findall(text)}
    if len(sizes) < len(ProcessMemory._fields):
        raise ParseError("/proc/PID/status does not say how much memory the process has (RssAnon, RssFile, RssShmem)")
    return ProcessMemory(sizes[b"Anon"], sizes[b"File"], sizes[b"Shmem"])


def parse_placing(text: bytes) -> Placing:
    """Raises ParseError for figures that are none."""
    found: dict[bytes, bytes] = dict(_PLACE.findall(text))
    cpus, nodes, capabilities = found.get(b"Cpus_allowed_list"), found.get(b"Mems_allowed_list"), found.get(b"CapEff")
    try:
        return Placing(
            None if cpus is None else _cpus(cpus),
            None if nodes is None else _nodes(nodes),
            _number(found.get(b"Seccomp")),
            None if capabilities is None else bool(int(capabilities[:16], 16) >> _SYS_NICE & 1),
            _number(found.get(b"Threads")),
            tuple(int(word[:9]) for word in found.get(b"NSpid", b"").split()),
        )
    except ParseError:
        raise
    except ValueError as error:
        raise ParseError(f"/proc/PID/status has a figure that is none: {error}") from None


def _number(text: bytes | None) -> int | None:
    return None if text is None else int(text[:9])


@lru_cache(maxsize=1024)
def _cpus(text: bytes) -> CpuSet:
    """Few sets are in use, and each by many threads."""
    return CpuSet.parse(text.decode("ascii", "replace"))


@lru_cache(maxsize=64)
def _nodes(text: bytes) -> NodeSet:
    return NodeSet.parse(text.decode("ascii", "replace"))


class Thread(NamedTuple):
    """One thread."""

    id: int
    task: Task
    placing: Placing


def thread_ids(host: Host, pid: int) -> list[int]:
    """Of its threads, the main thread's first. Raises OSError when the process has ended."""
    found = [int(one) for one in files.names(f"{host.proc}/{pid}/task") if one.isascii() and one.isdigit()]
    return sorted(found, key=lambda one: (one != pid, one))


def read_main(host: Host, pid: int) -> Thread:
    """The main thread; in a capture without threads, with the CPU time of all. Raises OSError when the process has
    ended, ParseError."""
    try:
        return _read(f"{host.proc}/{pid}/task/{pid}", pid)
    except FileNotFoundError:
        return _read(f"{host.proc}/{pid}", pid)


def read_main_task(host: Host, pid: int) -> Task:
    """Only the `stat` of a process. Raises OSError when it has ended, ParseError."""
    return _task(f"{host.proc}/{pid}/stat")


def read_threads(host: Host, pid: int, threads: list[int]) -> Iterator[Thread]:
    """These threads; those that have ended are left out. Raises ParseError."""
    for one in threads:
        try:
            yield _read(f"{host.proc}/{pid}/task/{one}", one)
        except (FileNotFoundError, ProcessLookupError):
            continue


def read_task(host: Host, pid: int, thread: int) -> Task:
    """Only the `stat` of a thread. Raises OSError when it has ended, ParseError."""
    return _task(f"{host.proc}/{pid}/task/{thread}/stat")


def _read(folder: str, thread: int) -> Thread:
    task = _task(f"{folder}/stat")
    file = f"{folder}/status"
    try:
        return Thread(thread, task, parse_placing(read_bytes(file)))
    except ParseError as error:
        raise ParseError(f"{file}: {error}") from None


def _task(file: str) -> Task:
    try:
        return parse_task(read_bytes(file))
    except (IndexError, ValueError):
        raise ParseError(f"{file} is no line of /proc/PID/stat") from None
