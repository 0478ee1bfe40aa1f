"""Rows of 64-bit words, one for each cgroup, as the program of bpf/residency.bpf.c writes them. Pure.

Rows are compared as bytes, and only those are decoded that are not as they were.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from msgspec import Struct, field

from numaudit.kernel.memory.cgroup_layout import KERNEL_ROWS, WORD, CgroupLayout
from numaudit.kernel.memory.numa_stat import DEMOTED_ROWS, PROMOTED_ROW
from numaudit.snapshot import Allowed, BytesByNode, Resident
from numaudit.topology.nodeset import CpuSet, NodeSet

_MEMORY, _CPUSET = 1, 2
_HEAD = 2
"""Words before the masks: the cgroup's id, and which parts were found."""
_BITS = 64
_PLAIN_FILE, _KERNEL = "file without shmem", "kernel"
"""Columns that the program works out."""


class RowLayout(Struct, frozen=True):
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
    def columns_at(self) -> int:
        return self.cpus_at + self.cpu_words

    @property
    def columns(self) -> tuple[str, ...]:
        """Each has a word for every node: the rows of memory.numa_stat, and what the program works out."""
        return (*self.kernel.rows, _PLAIN_FILE, _KERNEL)

    @property
    def width(self) -> int:
        return self.columns_at + self.nodes * len(self.columns)

    def starts(self) -> dict[str, int]:
        """Column -> where its words begin."""
        return {column: self.columns_at + self.nodes * place for place, column in enumerate(self.columns)}


class CgroupRows:
    """Every cgroup at one moment, by its place among the rows."""

    def __init__(self, rows: bytes, layout: RowLayout) -> None:
        """`rows`: a whole number of them."""
        self.rows = rows
        self.layout = layout
        self._words = memoryview(rows).cast("q")
        self.ids: list[int] = self._words[:: layout.width].tolist()

    @cached_property
    def place_of(self) -> dict[int, int]:
        """Cgroup id -> its place."""
        return {id_: place for place, id_ in enumerate(self.ids)}

    def has_memory(self, place: int) -> bool:
        """Is memory counted for this very cgroup?"""
        return bool(self._words[place * self.layout.width + 1] & _MEMORY)

    def sizes(self, row: str) -> list[int]:
        """Bytes of a row of memory.numa_stat on all nodes, by place; any number where memory is not counted."""
        start, width = self.layout.starts()[row], self.layout.width
        nodes = [self._words[start + node :: width].tolist() for node in range(self.layout.nodes)]
        return [sum(cells) for cells in zip(*nodes, strict=True)]

    def of_cgroup(self, place: int, rows: Collection[str], nodes: Collection[int]) -> dict[str, dict[int, int]]:
        """Row -> node -> bytes of one cgroup."""
        at, words = place * self.layout.width, self._words
        starts = self.layout.starts()
        return {row: {node: words[at + starts[row] + node] for node in nodes} for row in rows}

    def each(self) -> list[bytes]:
        """The rows."""
        return [row for (row,) in struct.Struct(f"{self.layout.width * WORD}s").iter_unpack(self.rows)]

    def heads(self) -> list[bytes]:
        """Column after column: the ids, the parts that were found, and the masks."""
        return [self._words[column :: self.layout.width].tobytes() for column in range(self.layout.columns_at)]

    def allowed(self) -> dict[int, Allowed]:
        """Cgroup id -> its effective cpuset, of those that have one of their own."""
        layout = self.layout
        if not layout.node_words:
            return {}
        size, rest = (layout.columns_at - _HEAD) * WORD, (layout.width - layout.columns_at) * WORD
        each = struct.Struct(f"=qQ{size}s{rest}x").iter_unpack(self.rows)
        return {id_: _allowed(masks, layout.node_words) for id_, found, masks in each if found & _CPUSET}


class RowDecoding(Struct, frozen=True):
    """Way to decode rows."""

    rows: tuple[str, ...]
    """Of memory.numa_stat, as this kernel has them."""
    nodes: tuple[int, ...]
    """That they have."""
    zeros: frozenset[str]
    """Rows that are 0 everywhere, whatever their columns have."""
    hugetlb: BytesByNode | None
    """Of each cgroup; None = as the row hugetlb has it."""


class Residents(Struct):
    """Decodes walk after walk; a cgroup whose row is as before has the very value of before."""

    _before: _Decoded | None = None

    def decode(self, walked: CgroupRows, how: RowDecoding) -> Mapping[int, Resident]:
        """Cgroup id -> its memory, as memory.numa_stat has it, descendants included."""
        before = self._before
        if before is None or (before.how, before.walked.layout) != (how, walked.layout):
            nothing = CgroupRows(b"", walked.layout)
            before = _Decoded(how, _decoder(walked.layout, how), nothing, [], {})
        if walked.rows != before.walked.rows:
            before = before.then(walked)
        self._before = before
        return before.residents


_Decode = Callable[[Mapping[int, bytes]], dict[int, Resident]]
"""Cgroup id -> row, to cgroup id -> memory, of those that have some counted."""


class _Decoded(NamedTuple):
    how: RowDecoding
    decode: _Decode
    walked: CgroupRows
    rows: list[bytes]
    residents: dict[int, Resident]

    def then(self, walked: CgroupRows) -> _Decoded:
        rows, before = walked.each(), self.rows
        gone: Collection[int] = ()
        if walked.ids != self.walked.ids:
            row_of = dict(zip(self.walked.ids, before, strict=True))
            before, gone = [row_of.get(id_, b"") for id_ in walked.ids], row_of.keys() - walked.place_of.keys()
        unlike = {id_: row for id_, row, was in zip(walked.ids, rows, before, strict=True) if row != was}
        fresh = self.decode(unlike)
        residents = self.residents | fresh
        if len(fresh) < len(unlike):
            gone = [*gone, *(unlike.keys() - fresh.keys())]
        for id_ in gone:
            residents.pop(id_, None)
        return self._replace(walked=walked, rows=rows, residents=residents)


def _decoder(layout: RowLayout, how: RowDecoding) -> _Decode:
    """Compiled for these columns and nodes, as the methods of named tuples are.

    A dict that is written out is made in a third of the time that one of its keys and values takes.
    """
    columns: dict[str, Sequence[str]] = {
        "anon": ("anon",),
        "shmem": ("shmem",),
        "file": (_PLAIN_FILE,),
        "mapped": ("file_mapped",),
    }
    columns |= {"demoted": DEMOTED_ROWS, "promoted": (PROMOTED_ROW,)}
    constants: dict[str, BytesByNode] = {"zeros": dict.fromkeys(how.nodes, 0)}
    if how.hugetlb is None:
        columns["hugetlb"] = ("hugetlb",)
    else:
        constants["hugetlb"] = how.hugetlb
    if not KERNEL_ROWS.isdisjoint(how.rows):
        columns["kernel"] = (_KERNEL,)
    known = {*how.rows, _PLAIN_FILE, _KERNEL}
    there = {field: [one for one in added if one in known] for field, added in columns.items()}
    wanted = {column for added in there.values() for column in added} - how.zeros
    form = f"=8xQ{(layout.columns_at - _HEAD) * WORD}x"
    cells: dict[str, dict[int, str]] = {}
    for number, column in enumerate(layout.columns):
        cells[column] = {node: f"c{number}n{node}" for node in how.nodes} if column in wanted else {}
        form += "".join("q" if node in cells[column] else "8x" for node in range(layout.nodes))
    names = [cell for by_node in cells.values() for cell in by_node.values()]
    fields = {field: _sums_of([cells[one] for one in added], how.nodes) for field, added in there.items() if added}
    fields.update({name: name for name in constants if name != "zeros"})
    made = ", ".join(f"{field}={value}" for field, value in fields.items())
    text = (
        f"lambda ids, rows: {{id_: Resident({made}) "
        f"for id_, (found, {', '.join(names)}) in zip(ids, rows) if found & {_MEMORY}}}"
    )
    decode = eval(text, {"Resident": Resident, **constants})  # noqa: S307 -- of numbers and our own names
    unpack = struct.Struct(form).iter_unpack

    def of_rows(rows: Mapping[int, bytes]) -> dict[int, Resident]:
        found: dict[int, Resident] = decode(rows, unpack(b"".join(rows.values())))
        return found

    return of_rows


def _sums_of(columns: Sequence[Mapping[int, str]], nodes: Collection[int]) -> str:
    """The text of a dict: node -> sum of its cells. Columns of zeros have no cells."""
    with_cells = [cells for cells in columns if cells]
    if not with_cells:
        return "zeros"
    return "{" + ", ".join(f"{node}: {' + '.join(cells[node] for cells in with_cells)}" for node in nodes) + "}"


class AllowedSets(Struct):
    """Decodes the cpusets of walk after walk, which are seldom different."""

    _heads: list[bytes] = field(default_factory=list)
    _found: dict[int, Allowed] = field(default_factory=dict)

    def decode(self, walked: CgroupRows) -> Mapping[int, Allowed]:
        """Cgroup id -> its effective cpuset, of those that have one of their own."""
        heads = walked.heads()
        if heads != self._heads:
            self._heads, self._found = heads, walked.allowed()
        return self._found


@lru_cache(maxsize=1024)
def _allowed(masks: bytes, node_words: int) -> Allowed:
    """Few sets are in use, and each by many groups."""
    words = memoryview(masks).cast("Q").tolist()
    return Allowed(NodeSet(_mask(words[:node_words])), CpuSet(_mask(words[node_words:])))


def _mask(words: Sequence[int]) -> int:
    return sum(word << _BITS * place for place, word in enumerate(words))
