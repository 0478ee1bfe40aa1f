"""The shared memory that one container's processes map, each byte once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct, field

from numaudit.kernel.memory.maps import SharedMapping
from numaudit.kernel.memory.numa_maps import Mapping
from numaudit.snapshot import BytesByNode


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

    def add(self, pid: int, mapping: Mapping, shared: SharedMapping) -> None:
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
