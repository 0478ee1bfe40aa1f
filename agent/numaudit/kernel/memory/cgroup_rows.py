"""Rows of 64-bit words, one for each cgroup, as the program of bpf/residency.bpf.c writes them. Pure.

Columns are cut out of all rows at once, which takes a tenth of the time that row by row does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import add

from numaudit.kernel.memory.cgroup_layout import WORD, CgroupLayout
from numaudit.snapshot import Allowed, BytesByNode, Resident
from numaudit.topology.nodeset import CpuSet, NodeSet

_MEMORY, _CPUSET = 1, 2
_HEAD = 2
"""Words before the masks: the cgroup's id, and which parts were found."""
_BITS = 64
_KERNEL = ("kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable")
"""Rows wanted only as a sum."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Lengths of the parts of a row, in words."""

    kernel: CgroupLayout
    nodes: int
    """Nodes that have counters here: from 0 to the highest with memory."""
    node_words: int
    """Of the mask of nodes; 0 = there are no masks."""
    cpu_words: int

    @classmethod
    def of(cls, kernel: CgroupLayout, nodes: int, cpus: int) -> RowLayout:
        """For a machine with at most this many nodes with memory and CPUs."""
        if kernel.cpuset is None:
            return cls(kernel, nodes, 0, 0)
        masks = (kernel.cpuset.nodes, nodes), (kernel.cpuset.cpus, cpus)
        node_words, cpu_words = (min(mask.size // WORD, -(-bits // _BITS)) for mask, bits in masks)
        return cls(kernel, nodes, node_words, cpu_words)

    @property
    def cpus_at(self) -> int:
        return _HEAD + self.node_words

    @property
    def counters_at(self) -> int:
        return self.cpus_at + self.cpu_words

    @property
    def width(self) -> int:
        return self.counters_at + self.nodes * self.kernel.length


class Walked:
    """Every cgroup at one moment, by its place among the rows."""

    def __init__(self, rows: bytes, layout: RowLayout) -> None:
        """`rows`: a whole number of them."""
        self._bytes = rows
        self._words = memoryview(rows).cast("q")
        self.layout = layout
        self.ids: list[int] = self._words[:: layout.width].tolist()

    @cached_property
    def row_of(self) -> dict[int, int]:
        """Cgroup id -> its place."""
        return {id_: place for place, id_ in enumerate(self.ids)}

    @cached_property
    def _found(self) -> list[int]:
        found: list[int] = self._words[1 :: self.layout.width].tolist()
        return found

    @cached_property
    def _all_have_memory(self) -> bool:
        return all(found & _MEMORY for found in self._found)

    def values(self, row: str, node: int) -> list[int]:
        """Bytes of a row of memory.numa_stat on one node, by place; the kernel shows what is below 0 as 0, too.

        0 where memory is not counted. Raises KeyError when this kernel has no such counter.
        """
        counter, layout = self.layout.kernel.rows[row], self.layout
        start = layout.counters_at + node * layout.kernel.length + counter.index
        unit, numbers = counter.unit, self._words[start :: layout.width].tolist()
        if not any(numbers):
            return numbers
        if not self._all_have_memory or min(numbers) < 0:
            both = zip(numbers, self._found, strict=True)
            return [number * unit if number > 0 and found & _MEMORY else 0 for number, found in both]
        return numbers if unit == 1 else [number * unit for number in numbers]

    def of_cgroup(self, place: int, rows: Collection[str], nodes: Collection[int]) -> dict[str, dict[int, int]]:
        """Row -> node -> bytes of one cgroup."""
        layout = self.layout
        start = place * layout.width + layout.counters_at
        counters = layout.kernel.rows
        return {
            row: {
                node: max(0, self._words[start + node * layout.kernel.length + counters[row].index])
                * counters[row].unit
                for node in nodes
            }
            for row in rows
        }

    def has_memory(self, place: int) -> bool:
        """Is memory counted for this very cgroup?"""
        return bool(self._found[place] & _MEMORY)

    @cached_property
    def allowed(self) -> dict[int, Allowed]:
        """Cgroup id -> its effective cpuset, of those that have one of their own."""
        layout, rows = self.layout, self._bytes
        if not layout.node_words:
            return {}
        size, first, end = layout.width * WORD, _HEAD * WORD, layout.counters_at * WORD
        each = zip(self.ids, self._found, range(0, len(rows), size), strict=True)
        return {
            id_: _allowed(rows[at + first : at + end], layout.node_words) for id_, found, at in each if found & _CPUSET
        }

    def residents(
        self, rows: Sequence[str], zeros: Collection[str], nodes: Sequence[int], hugetlb: BytesByNode | None
    ) -> dict[int, Resident]:
        """Cgroup id -> its memory, as memory.numa_stat has it with these rows and nodes. `zeros` are 0 everywhere.

        `hugetlb` is that of all cgroups, where it is not None.
        """
        columns = {row: self._columns([] if row in zeros else [row], nodes) for row in rows if row not in _KERNEL}
        summed = [row for row in rows if row in _KERNEL]
        shmem = columns["shmem"]
        file = [_less(*pair) if any(pair[1]) else pair[0] for pair in zip(columns["file"], shmem, strict=True)]
        kernel = self._columns([row for row in summed if row not in zeros], nodes) if summed else None
        none = [None] * len(self.ids)

        def by_node(lists: list[list[int]] | None) -> Sequence[BytesByNode | None]:
            return none if lists is None else [dict(zip(nodes, one, strict=True)) for one in zip(*lists, strict=True)]

        found = zip(
            self.ids, self._found, by_node(columns["anon"]), by_node(shmem), by_node(file),
            by_node(columns.get("hugetlb")) if hugetlb is None else [hugetlb] * len(self.ids),
            by_node(kernel), by_node(columns.get("file_mapped")), strict=True,
        )  # fmt: skip
        return {
            id_: Resident(anon, shmem, file, huge, kernel, None, mapped)
            for id_, what, anon, shmem, file, huge, kernel, mapped in found
            if what & _MEMORY
        }

    def unlike(self, earlier: Walked) -> Walked:
        """The cgroups that are new, or whose row has changed."""
        size = self.layout.width * WORD
        now, before = self._bytes, earlier._bytes
        if self.ids == earlier.ids:
            pieces = [
                now[at : at + size] for at in range(0, len(now), size) if now[at : at + size] != before[at : at + size]
            ]
        else:
            place_of, pieces = earlier.row_of, []
            for at, id_ in zip(range(0, len(now), size), self.ids, strict=True):
                place = place_of.get(id_)
                if place is None or now[at : at + size] != before[place * size : (place + 1) * size]:
                    pieces.append(now[at : at + size])
        return Walked(b"".join(pieces), self.layout)

    def _columns(self, rows: Sequence[str], nodes: Sequence[int]) -> list[list[int]]:
        """For each node, the sums of the rows by place."""
        if not rows:
            return [[0] * len(self.ids) for _ in nodes]
        return [reduce(_sums, (self.values(row, node) for row in rows)) for node in nodes]


def _sums(some: list[int], others: list[int]) -> list[int]:
    return list(map(add, some, others))


def _less(all_: list[int], part: list[int]) -> list[int]:
    """The kernel's counters are read one after the other, so a part may be larger than all."""
    return [size - taken if size > taken else 0 for size, taken in zip(all_, part, strict=True)]


@dataclass(slots=True)
class Residents:
    """Decodes walk after walk; a cgroup whose row is as before has the same value as before."""

    _earlier: tuple[object, Walked, dict[int, Resident]] | None = None
    """Layout, walk and result of the previous decoding."""

    def decode(
        self,
        walked: Walked,
        rows: Sequence[str],
        zeros: Collection[str],
        nodes: Sequence[int],
        hugetlb: BytesByNode | None,
    ) -> dict[int, Resident]:
        """As `Walked.residents`."""
        how = (walked.layout, tuple(rows), frozenset(zeros), tuple(nodes), hugetlb)
        if self._earlier is None or self._earlier[0] != how:
            found = walked.residents(rows, zeros, nodes, hugetlb)
        else:
            _, before, values = self._earlier
            changed = walked.unlike(before)
            found = dict(values)
            for id_, one in changed.residents(rows, zeros, nodes, hugetlb).items():
                if (
                    found.get(id_) != one
                ):  # what the same is stays the very same value, so that its judgement can be kept
                    found[id_] = one
            for id_ in found.keys() - walked.row_of.keys() | {
                id_ for id_, place in changed.row_of.items() if not changed.has_memory(place)
            }:
                found.pop(id_, None)
        self._earlier = how, walked, found
        return found


@lru_cache(maxsize=1024)
def _allowed(masks: bytes, node_words: int) -> Allowed:
    """Few sets are in use, and each by many groups."""
    words = memoryview(masks).cast("Q").tolist()
    return Allowed(NodeSet(_mask(words[:node_words])), CpuSet(_mask(words[node_words:])))


def _mask(words: Sequence[int]) -> int:
    return sum(word << _BITS * place for place, word in enumerate(words))
