"""perf_event_open(2): open an event or a group of them, hang a BPF program on it, switch it on, read it.

Source: include/uapi/linux/perf_event.h (struct perf_event_attr, ioctls), kernel/events/core.c.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import syscall
from numaudit.kernel.tracing.bpf import address_of
from numaudit.topology.nodeset import CpuSet

TYPE_SOFTWARE = 1
TYPE_TRACEPOINT = 2

_CLOEXEC = 1 << 3  # PERF_FLAG_FD_CLOEXEC
_CGROUP = 1 << 2  # PERF_FLAG_PID_CGROUP
_ENABLE, _SET_BPF = 0x2400, 0x40042408
_LARGEST_READING = 64
_TIMES = 1 << 0 | 1 << 1  # PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING
_TIMES_AND_GROUP = _TIMES | 1 << 3  # and PERF_FORMAT_GROUP
_LARGEST_GROUP = 8 * (3 + 64)
_ATTRIBUTE_SIZE = 128  # PERF_ATTR_SIZE_VER7; the kernel takes a larger one than its own when the rest is 0


class Event(Struct, frozen=True):
    """Event to count; the words of struct perf_event_attr."""

    type: int
    config: int
    config1: int = 0
    sample_period: int = 0
    """Run the program at every n-th event; 0 = only count."""
    read_format: int = 0
    is_on: bool = False
    """It counts as soon as it is opened; of a group, as soon as its leader does."""
    is_inherited: bool = False
    """Threads that the thread starts later count with it (inherit_thread); processes that it forks do not."""

    def pack(self) -> bytearray:
        """struct perf_event_attr."""
        flags = (not self.is_on) | self.is_inherited << 1 | self.is_inherited << 35
        start = struct.pack(
            "=IIQQQQQ IIQ",
            *(self.type, _ATTRIBUTE_SIZE, self.config, self.sample_period, 0, self.read_format, flags),
            *(0, 0, self.config1),
        )
        return bytearray(start.ljust(_ATTRIBUTE_SIZE, b"\0"))


def tracepoint(event_id: int) -> Event:
    """A tracepoint by the number in its `id` file."""
    return Event(TYPE_TRACEPOINT, config=event_id, sample_period=1)


def open_event(event: Event, *, cpu: int, pid: int = -1, group: int = -1, cgroup: int | None = None) -> int:
    """A descriptor of the event on one CPU, of all tasks (`pid` -1), one task, or a cgroup folder's descriptor.

    Raises OSError: ENOENT when this machine has no such event, EACCES or EPERM without CAP_PERFMON,
    ENODEV when the CPU is offline.
    """
    attributes = event.pack()
    if cgroup is not None:
        return syscall.call("perf_event_open", address_of(attributes), cgroup, cpu, group, _CLOEXEC | _CGROUP)
    return syscall.call("perf_event_open", address_of(attributes), pid, cpu, group, _CLOEXEC)


class GroupCounts(NamedTuple):
    """Counts of a group's events, in the order in which they were opened, and for how long."""

    enabled: int
    """Nanoseconds in which they were switched on; of a cgroup's events, in which one of its tasks was on the CPU."""
    running: int
    """Of these, nanoseconds in which they had counters of the hardware: the kernel shares those among all groups."""
    counts: tuple[int, ...]


def open_group(events: Sequence[Event], *, cpu: int, cgroup: int | None = None) -> list[int]:
    """Descriptors of events that one CPU counts at the same times, so that their ratio needs no scaling.

    The first one leads: `enable` switches it on and so all of them. They count all tasks, or those of a cgroup
    folder's descriptor. Raises OSError as `open_event` does: EINVAL also when the hardware can never count all at once.
    """
    members = [replace(event, read_format=_TIMES_AND_GROUP) for event in events]
    return _open_together(members, lambda event, leader: open_event(event, cpu=cpu, group=leader, cgroup=cgroup))


def open_group_of_thread(events: Sequence[Event], thread: int) -> list[int]:
    """The same for one thread and those that it starts later, on whatever CPU. `read_scalable` reads each of them.

    The kernel refuses to read a whole group that is inherited. Raises OSError as `open_event` does: ESRCH when the
    thread has ended, EINVAL also before Linux 5.13.
    """
    members = [replace(event, read_format=_TIMES, is_inherited=True) for event in events]
    return _open_together(members, lambda event, leader: open_event(event, cpu=-1, pid=thread, group=leader))


def _open_together(events: Sequence[Event], open_member: Callable[[Event, int], int]) -> list[int]:
    """`open_member` opens one of them, beside the descriptor of their leader. Raises OSError, and leaves none open."""
    opened: list[int] = []
    try:
        for event in events:
            leader = opened[0] if opened else -1
            opened.append(open_member(replace(event, is_on=bool(opened)), leader))
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened


def read_group(leader: int) -> GroupCounts:
    """Counts and times since the group was opened. Raises OSError."""
    words = os.read(leader, _LARGEST_GROUP)
    number, enabled, running, *counts = struct.unpack(f"={len(words) // 8}Q", words)
    return GroupCounts(enabled, running, tuple(counts[:number]))


def read_scalable(descriptor: int) -> tuple[int, int, int]:
    """Count of one event of `open_group_of_thread`, and the nanoseconds for which it was enabled and running.

    Those of threads that were started since are in it, and all stays when a thread ends. Raises OSError.
    """
    count, enabled, running = struct.unpack("=3Q", os.read(descriptor, _LARGEST_READING))
    return count, enabled, running


def open_kprobe(host: Host, function: str, *, cpu: int) -> int:
    """A descriptor of an event that happens whenever the kernel enters a function of its own.

    Raises OSError: ENOENT when this kernel has no kprobes or no such function. Source: kernel/events/core.c
    (perf_kprobe_event_init).
    """
    kind = int(read_text(host.sys / "bus/event_source/devices/kprobe/type"))
    name = bytearray(function.encode() + b"\0")
    return open_event(Event(kind, config=0, config1=address_of(name), sample_period=1), cpu=cpu)


def any_cpu(host: Host) -> int:
    """One that is online: an event whose program runs on all CPUs still has to be opened on one.

    The program goes on when that CPU goes offline, for as long as the descriptor is open. Raises OSError.
    """
    return min(CpuSet.parse(read_text(host.cpus / "online")))


def set_program(descriptor: int, program: int) -> None:
    """Run a BPF program at the event; it stays for as long as the event's descriptor is open. Raises OSError."""
    fcntl.ioctl(descriptor, _SET_BPF, program)


def enable(descriptor: int) -> None:
    fcntl.ioctl(descriptor, _ENABLE, 0)
