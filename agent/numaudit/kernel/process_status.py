"""/proc/PID/status and /proc/PID/task/TID/status, which any user may read: how much memory a process maps, and where a
thread may run.

Source: proc_pid_status(5), fs/proc/task_mmu.c (task_mem), fs/proc/array.c (proc_pid_status). The kernel may be some
pages behind for each CPU in sizes of memory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_bytes
from numaudit.topology.nodeset import CpuSet, NodeSet

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


def read(host: Host, pid: int) -> ProcessMemory:
    """Raises OSError when the process has ended or may not be read, ParseError."""
    return parse(read_bytes(f"{host.proc}/{pid}/status"))


def parse(text: bytes) -> ProcessMemory:
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
