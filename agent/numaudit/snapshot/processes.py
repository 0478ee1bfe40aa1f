"""Processes of a container: what places them, where they ran and have their memory; and its PCI devices: what leads to
each, and where its interrupts run. Values of a tick; None = not known.

A process is a thread group. Its threads are grouped by what places them, so a process of a thousand threads of one kind
is one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from numaudit.encoding.value import Timestamp, Value
from numaudit.ranks.declaration import HeldDevice, ProcessTold
from numaudit.topology.nodeset import CpuSet, NodeSet

HeldBy = Literal["descriptor", "network-namespace", "device-list"]


class Interrupts(Value, frozen=True):
    """Message-signalled interrupts of a device."""

    interrupts: int
    """Number of them."""
    by_node: Mapping[int, int]
    """Number of those that run on each node; those that run on CPUs of several nodes are left out."""
    fired_by_node: Mapping[int, int]
    """Number of these that have fired since boot."""


class ContainerDevice(HeldDevice, frozen=True):
    """A PCI device of a container."""

    held_by: tuple[HeldBy, ...]
    """descriptor: a process has a file of it open; network-namespace: its interface is in the container's namespace;
    device-list: the cgroup lets its file be opened, and not every file."""
    interfaces: tuple[str, ...] = ()
    """Names of its network interfaces in the container's namespace."""
    interrupts: Interrupts | None = None
    """null = it has none that are message-signalled."""

    @property
    def title(self) -> str:
        """network adapter 0000:3b:02.1 (net1), for people."""
        names = f" ({', '.join(self.interfaces)})" if self.interfaces else ""
        return f"{self.in_words}{names}"


class UnreadDevices(Value, frozen=True):
    """A way to devices that could not be followed."""

    what: HeldBy
    """The way, as `heldBy` has it."""
    reason: str
    """Reason, in words."""


class ContainerDevices(Value, frozen=True):
    """The PCI devices of one container."""

    items: tuple[ContainerDevice, ...]
    """By their addresses."""
    unread: tuple[UnreadDevices, ...]
    """Ways that could not be followed; empty = there are no more devices."""
    promised: Mapping[str, HeldDevice]
    """The device plugin's name of a device (a PCI address, or NVIDIA's UUID) -> the device, where sysfs knows it."""


BytesByNode = Mapping[int, int]
TimeSource = Literal["affinity", "last-cpu"]
"""Source of CPU time by node: `affinity` = each thread may run on the CPUs of one node only; `last-cpu` = an estimate,
which counts all time of a thread for the node on which it ran last."""
_FILE = "file"
"""The kind of mapping that judges nothing."""


class SampledTime(msgspec.Struct, frozen=True):
    """CPU time of one container between a capture's two readings."""

    by_node: Mapping[int, float]
    """Seconds."""
    source: TimeSource | None
    """None = it did not run."""


class ThreadGroup(Value, frozen=True):
    """Threads of one process that may run on the same nodes, under the same memory policy."""

    threads: int
    """Number of them."""
    first_thread: int
    """Id of one of them; of the main thread's group, the main thread's."""
    names: tuple[str, ...]
    """Up to three different names, printable."""
    cpus: CpuSet | None
    """All CPUs that some of them may run on (Cpus_allowed)."""
    cpu_nodes: NodeSet | None
    """The nodes of the CPUs that each of them may run on."""
    memory_nodes: NodeSet | None
    """Nodes that the cpuset lets them use (Mems_allowed), which no memory policy changes."""
    policy: str | None
    """Their memory policy as the kernel prints it: default, bind:1, ...; null = not read."""
    last_on: Mapping[int, int]
    """Number of threads by the node of the CPU that each ran on last."""
    cpu_seconds: Mapping[int, float]
    """CPU time by node; `cpuTimeSource` of the process says what it is made of."""


class MappedMemory(Value, frozen=True):
    """Mappings of one kind and policy of one process."""

    kind: str
    """anon, heap, stack, shmem, hugetlb or file."""
    policy: str
    """The mappings' memory policy as the kernel prints it: default, bind:1, interleave:0-3, ..."""
    bytes_by_node: BytesByNode = msgspec.field(name="bytes")
    """Resident, by node. Memory that several processes map counts for each of them."""


class ProcessMappings(msgspec.Struct, frozen=True):
    """Mappings of one process."""

    started_at: Timestamp | None
    policy: str | None
    """The main thread's memory policy; None = it maps nothing."""
    memory: tuple[MappedMemory, ...]
    """The largest first."""


class UnreadPart(Value, frozen=True):
    """A part of a process that could not be read."""

    what: Literal["mappings", "policy", "threads", "status"]
    """mappings: numa_maps; policy: memory policies of some threads; threads: some or all of them."""
    reason: str
    """Reason, in words."""


class ProcessPlacement(Value, frozen=True):
    """One process."""

    pid: int
    """Process id."""
    process: str | None
    """Its name (comm), printable; null = not known."""
    parent: int | None
    """Id of its parent."""
    started_at: Timestamp | None
    """Time when it began; null = not known."""
    pid_in_namespace: int | None
    """Its id in its own PID namespace, where that is another one than ours."""
    threads: int | None
    """Number of all its threads, of which some may be in no group; null = not known."""
    thread_groups: tuple[ThreadGroup, ...]
    """The main thread's first, then the largest. Empty = no thread could be read."""
    mappings: tuple[MappedMemory, ...] | None
    """By kind and policy, the largest first; null = not read."""
    cpu_time_source: TimeSource | None
    """null = no CPU time is known."""
    seccomp: Literal["disabled", "strict", "filter"] | None
    """Of the main thread. A filter may refuse mempolicy calls; which ones, the kernel does not say."""
    sys_nice: bool | None
    """Has the main thread CAP_SYS_NICE in effect? Filters of container runtimes let only those set policies."""
    unread: tuple[UnreadPart, ...]
    """Parts that could not be read; empty = all was read."""

    @property
    def main(self) -> ThreadGroup | None:
        """The main thread's group, with which the others are compared."""
        return self.thread_groups[0] if self.thread_groups else None

    @property
    def policy(self) -> str | None:
        """Of the main thread."""
        return None if self.main is None else self.main.policy

    @property
    def ran(self) -> dict[int, float]:
        """CPU seconds by node, of all threads that were read."""
        sums: dict[int, float] = {}
        for group in self.thread_groups:
            for node, seconds in group.cpu_seconds.items():
                sums[node] = sums.get(node, 0.0) + seconds
        return sums

    @property
    def judged(self) -> dict[int, int] | None:
        """Bytes by node of everything but files of disks, as containers are judged; None = not read."""
        if self.mappings is None:
            return None
        sums: dict[int, int] = {}
        for one in self.mappings:
            if one.kind != _FILE:
                for node, size in one.bytes_by_node.items():
                    sums[node] = sums.get(node, 0) + size
        return sums

    @property
    def differing(self) -> tuple[ThreadGroup, ...]:
        """Thread groups that may run on other nodes, or have another memory policy, than the main thread."""
        return self.thread_groups[1:]

    @property
    def strays(self) -> int | None:
        """Threads that ran last on a node where the main thread may not run; None = not known."""
        if self.main is None or self.main.cpu_nodes is None:
            return None
        home = self.main.cpu_nodes
        return sum(count for group in self.thread_groups for node, count in group.last_on.items() if node not in home)


class ContainerProcesses(Value, frozen=True):
    """The processes of one container that were read."""

    processes: tuple[ProcessPlacement, ...]
    """By their ids."""
    alive: int
    """Processes that live. More than were read: `unread` says why."""
    unread: str | None
    """Reason why some were not read at all; null = all were read."""
    cpu_time_since: Literal["start", "measurement"]
    """Beginning of the CPU times: the start of each thread, or of the measurement."""


class WatchedProcesses(msgspec.Struct, frozen=True):
    """The processes of one container that declares a placement, as an agent read them in its newest round."""

    processes: ContainerProcesses
    told: Mapping[int, ProcessTold]
    """Declarations, by process."""
    read_at: Timestamp
    """Time when the last of them was read."""


class RankRound(Value, frozen=True):
    """The agent's rounds over the processes of all containers."""

    seconds: float | None
    """Time that the newest complete round took; null = the first goes on."""
    containers: int
    """Containers with a declaration or numbered ranks."""
