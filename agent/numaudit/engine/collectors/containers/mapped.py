"""Mappings of one container's processes: sums, the shared memory that they map, each byte once, and each process's own
part.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple, cast

from msgspec import Struct, field, structs

from numaudit.encoding.value import Timestamp
from numaudit.errors import ParseError, printable
from numaudit.kernel import tasks
from numaudit.kernel.cgroup import unescape
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.memory import maps, numa_maps, physical
from numaudit.kernel.memory.maps import SharedMapping
from numaudit.snapshot import BytesByNode, ContainerId, Mappings, ProcessMapping, SharedMemory
from numaudit.snapshot.processes import MappedMemory, ProcessMappings


class SegmentMapping(NamedTuple):
    """Mapping of a segment by one process."""

    pid: int
    begin: int
    end: int
    address: int
    bytes_by_node: BytesByNode

    @property
    def size(self) -> int:
        return sum(self.bytes_by_node.values())


class Segment(Struct):
    """One file in memory (or a piece of memory without a name), which any number of processes may map."""

    kind: str
    """shmem or hugetlb."""
    file: str
    """As numa_maps has it."""
    parts: list[SegmentMapping] = field(default_factory=list)

    @property
    def bytes_by_node(self) -> dict[int, int]:
        """At least these: of mappings that overlap, the largest count for each node stands for all.

        The kernel does not say which pages of a mapping it counts. A process may map the same bytes twice, and has
        only those in its page tables that it has used.
        """
        total: dict[int, int] = {}
        for together in _overlapping(self.parts):
            most: dict[int, int] = {}
            for _, own in groupby(sorted(together, key=attrgetter("pid")), key=attrgetter("pid")):
                of_one: dict[int, int] = {}
                for twice in _overlapping(list(own)):
                    _add(of_one, _largest([part.bytes_by_node for part in twice]))
                most = _largest([most, of_one])
            _add(total, most)
        return total


class Segments(Struct):
    """Those of one container, as its processes are read."""

    found: dict[tuple[str, int], Segment] = field(default_factory=dict)
    """By device and inode."""

    def add(self, pid: int, mapping: numa_maps.Mapping, shared: SharedMapping) -> None:
        """One mapping of a process, as numa_maps and as maps have it."""
        segment = self.found.setdefault((shared.device, shared.inode), Segment(mapping.kind, mapping.file or ""))
        segment.parts.append(SegmentMapping(pid, shared.begin, shared.end, mapping.address, mapping.bytes_by_node))


def _overlapping(parts: Sequence[SegmentMapping]) -> Iterator[list[SegmentMapping]]:
    """Groups of parts that have no byte of the file in common with those of other groups."""
    group: list[SegmentMapping] = []
    end = 0
    for part in sorted(parts, key=attrgetter("begin")):
        if group and part.begin >= end:
            yield group
            group = []
        end = max(end, part.end) if group else part.end
        group.append(part)
    if group:
        yield group


def _largest(several: Sequence[BytesByNode]) -> dict[int, int]:
    nodes = {node for by_node in several for node in by_node}
    return {node: max(by_node.get(node, 0) for by_node in several) for node in sorted(nodes)}


def _add(total: dict[int, int], more: BytesByNode) -> None:
    for node, size in more.items():
        total[node] = total.get(node, 0) + size


_JUDGED = ("anon", "heap", "stack", "shmem", "hugetlb")
"""Kinds of mapping; files of disks and libraries judge nothing."""
_WORTH_ASKING = 1 << 20
"""Bytes of shared memory of which it is asked whose they are."""


class MappedProcess(NamedTuple):
    """One process (thread group)."""

    pid: int
    name: str | None
    """Printable."""
    started_at: Timestamp | None


class ProcessWalk(Struct, dict=True):
    """Values shared by all processes of a walk."""

    host: Host
    page_size: int
    owners: Mapping[int, ContainerId]
    """cgroup id -> container."""
    keeps_processes: bool = False
    """Keep what each process maps, by its kind and policy?"""
    _in_memory: dict[str, bool] = field(default_factory=dict)
    """Device -> does it keep its files in memory?"""

    def process(self, pid: int) -> MappedProcess:
        """Its name and start, which are None when it has ended."""
        try:
            task = tasks.read_main_task(self.host, pid)
        except (OSError, ParseError):
            return MappedProcess(pid, None, None)
        name, booted = printable(task.name.decode("utf-8", "surrogateescape")), self._booted_at
        return MappedProcess(
            pid, name, None if booted is None else Timestamp(booted + task.started / os.sysconf("SC_CLK_TCK"))
        )

    @cached_property
    def _booted_at(self) -> float | None:
        """Seconds since the epoch."""
        return tasks.booted_at(self.host)

    def shared(self, pid: int) -> dict[int, SharedMapping] | None:
        """The shared mappings of a process by address; None = not to be read."""
        try:
            return maps.read(self.host, pid)
        except (OSError, ParseError):
            return None

    def is_in_memory(self, pid: int, device: str) -> bool:
        """Is this the device of a tmpfs? By the mounts of the first process that has a file of it mapped."""
        if device not in self._in_memory:
            try:
                known = maps.devices_in_memory(read_text(self.host.proc / str(pid) / "mountinfo"))
            except OSError:
                known = frozenset()
            self._in_memory[device] = device in known
        return self._in_memory[device]

    def owner(self, segment: Segment) -> ContainerId | None:
        """Return the container that all sampled pages of a segment belong to. None = several own them, the root cgroup
        does, or they cannot be seen."""
        part = max(segment.parts, key=lambda part: part.size)
        if part.size < _WORTH_ASKING:
            return None
        try:
            found = physical.sample_owners(self.host, part.pid, part.address, part.end - part.begin, self.page_size)
        except OSError:
            return None
        owners = {self.owners.get(cgroup) for cgroup in found}
        return owners.pop() if len(owners) == 1 else None


class Mapped(Struct):
    """Adds up one container's processes."""

    walk: ProcessWalk
    sums: numa_maps.MappingSums = field(default_factory=numa_maps.MappingSums)
    _segments: Segments = field(default_factory=Segments)
    _by_process: list[ProcessMapping] = field(default_factory=list)
    read: dict[int, ProcessMappings] = field(default_factory=dict)
    """By process, where the walk keeps them."""
    unread: dict[int, str] = field(default_factory=dict)
    """Processes that could not be read, and why."""
    _shows_shared: bool = False

    def add(self, pid: int, mappings: tuple[numa_maps.Mapping, ...]) -> None:
        """One process."""
        shared = self.walk.shared(pid)
        if shared is not None:
            self._shows_shared = True
            mappings = tuple([self._shared(pid, mapping, shared.get(mapping.address)) for mapping in mappings])
        self.sums.add(mappings)
        process = self.walk.process(pid)
        self._by_process.extend(_by_kind(process, mappings))
        if self.walk.keeps_processes:
            policy = numa_maps.policy_of_thread(mappings)
            self.read[pid] = ProcessMappings(process.started_at, policy, _by_kind_and_policy(mappings))

    def mappings(self, read: int, alive: int) -> Mappings:
        """Of `read` processes out of those that live."""
        shared = None
        if self._shows_shared:
            found = [self._value(segment) for segment in self._segments.found.values()]
            shared = tuple(sorted(found, key=lambda one: -sum(one.bytes_by_node.values())))
        sums = self.sums
        return Mappings(
            sums.by_kind,
            sums.by_policy,
            sums.by_page_size,
            read,
            alive,
            shared,
            tuple(self._by_process),
            sums.unsampled,
            self.read,
            self.unread,
        )

    def _shared(self, pid: int, mapping: numa_maps.Mapping, shared: SharedMapping | None) -> numa_maps.Mapping:
        """Notes shared memory, and calls it so where it has a name on a tmpfs."""
        if shared is None or not mapping.bytes_by_node or mapping.kind not in ("file", "shmem", "hugetlb"):
            return mapping
        if mapping.kind == "file":
            if not self.walk.is_in_memory(pid, shared.device):
                return mapping
            mapping = structs.replace(mapping, kind="shmem")
        self._segments.add(pid, mapping, shared)
        return mapping

    def _value(self, segment: Segment) -> SharedMemory:
        kind = cast(Literal["shmem", "hugetlb"], segment.kind)
        return SharedMemory(kind, _name(segment.file), segment.bytes_by_node, self.walk.owner(segment))


def _by_kind(process: MappedProcess, mappings: tuple[numa_maps.Mapping, ...]) -> list[ProcessMapping]:
    """Its mappings that judge alignment; those of one kind, policy and file are one."""
    sums: dict[tuple[str, str, str | None], dict[int, int]] = {}
    for mapping in mappings:
        if mapping.kind in _JUDGED and mapping.bytes_by_node:
            file = mapping.file if mapping.kind == "shmem" else None
            by_node = sums.setdefault((mapping.kind, mapping.policy, file), {})
            for node, size in mapping.bytes_by_node.items():
                by_node[node] = by_node.get(node, 0) + size
    return [
        ProcessMapping(*process, kind, policy, None if file is None else _name(file), by_node)
        for (kind, policy, file), by_node in sums.items()
    ]


def _by_kind_and_policy(mappings: tuple[numa_maps.Mapping, ...]) -> tuple[MappedMemory, ...]:
    """All resident mappings, files of disks included, the largest first."""
    sums: dict[tuple[str, str], dict[int, int]] = {}
    for mapping in mappings:
        if mapping.bytes_by_node:
            by_node = sums.setdefault((mapping.kind, mapping.policy), {})
            for node, size in mapping.bytes_by_node.items():
                by_node[node] = by_node.get(node, 0) + size
    found = (MappedMemory(kind, policy, by_node) for (kind, policy), by_node in sums.items())
    return tuple(sorted(found, key=lambda one: -sum(one.bytes_by_node.values())))


def _name(file: str) -> str:
    return printable(unescape(file))
