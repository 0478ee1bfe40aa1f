"""memory.numa_stat and hugetlb.*.numa_stat of a cgroup: bytes by node. Pure: text in, values out.

hugetlb.*.numa_stat was seen on 6.1 and 6.12; an older kernel may not have it.
Source: the kernel's mm/memcontrol.c, mm/memcontrol-v1.c, mm/hugetlb_cgroup.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import msgspec
from msgspec import Struct

from numaudit.errors import ParseError
from numaudit.snapshot import BytesByNode, Resident

_FIELD = re.compile(r" N(\d{1,4})=(\d{1,19})", re.ASCII)
_WRAPPED = re.compile(rb"(?<==)\d{20}(?!\d)")
_TOO_MANY = b"%d" % (2**63 - 1)
_NAME = re.compile(rb"[^ =\n]*")
_decode_numbers = msgspec.json.Decoder(list[int]).decode
"""From an array of JSON, which is faster than to make an int of each text."""


class NumaStatReader(Struct):
    """Reads some rows of many texts of one kernel, which differ in their numbers only.

    The first text is taken apart; its layout (order of rows, nodes) makes a pattern that fits those of all other
    groups, which is ten times as fast. A text that it does not fit in full is parsed again line by line.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()
    """Optional rows wanted only as a sum, which goes by the name `sum`."""
    _layout: _Layout | None = None

    def read(self, text: bytes) -> Mapping[str, BytesByNode]:
        """Row -> node -> value as printed. Raises ParseError when a required row is missing or one is malformed."""
        layout = self._layout  # once: another thread may put a new one in its place
        match = None if layout is None else layout.pattern.fullmatch(text)
        if layout is None or match is None:
            return self._take_apart(text)
        try:
            numbers = _decode_numbers(b"[%b]" % b",".join(match.groups()))
        except msgspec.DecodeError:  # such as 007, which no kernel writes
            return self._take_apart(text)
        found: dict[str, BytesByNode] = {
            row: {node: numbers[place] for node, place in of_nodes} for row, of_nodes in layout.places
        }
        if layout.summed:
            found["sum"] = {node: sum(added(numbers)) for node, added in layout.summed}
        return found

    def _take_apart(self, text: bytes) -> Mapping[str, BytesByNode]:
        plain = text.decode("ascii", "replace")
        rows = parse(plain, (*self.required, *self.optional, *self.summed))
        for row in self.required:
            if row not in rows:
                start = plain[:60] + ("..." if len(plain) > 60 else "")
                raise ParseError(f"numa_stat has no row {row!r}, so it is empty, cut short or foreign: {start!r}")
        self._layout = _Layout.of(text, rows, self.summed)
        summed = [rows.pop(row) for row in self.summed if row in rows]
        if summed:
            sums: dict[int, int] = {}
            for node, value in chain.from_iterable(by_node.items() for by_node in summed):
                sums[node] = sums.get(node, 0) + value
            rows["sum"] = sums
        return rows


class _Layout(NamedTuple):
    pattern: re.Pattern[bytes]
    """Matches a whole text; a group for each number of a wanted row."""
    places: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    """Row, and each of its nodes with its place among the pattern's groups."""
    summed: tuple[tuple[int, Callable[[Sequence[int]], Iterable[int]]], ...]
    """Node, and how to get those of the groups' numbers that are to be added up for it."""

    @classmethod
    def of(cls, text: bytes, rows: Mapping[str, BytesByNode], summed: Collection[str]) -> _Layout:
        lines: list[bytes] = []
        first_of: dict[str, int] = {}
        count = 0
        for line in text.split(b"\n")[:-1]:
            name = _NAME.match(line)
            start = b"" if name is None else name[0]
            row = start.decode("ascii", "replace")
            if row not in rows:
                after = line[len(start) : len(start) + 1]
                lines.append(re.escape(start + after) + (rb".*\n" if after else rb"\n"))
                continue
            fields = b"".join(rb" N%d=(\d{1,19})" % node for node in rows[row])
            total = rb"=\d{1,19}" if line.startswith(start + b"=") else b""
            lines.append(re.escape(start) + total + fields + (b" \n" if line.endswith(b" ") else b"\n"))
            first_of[row] = count  # of a row that is there twice, the last counts
            count += len(rows[row])
        added: dict[int, list[int]] = {}
        for row in summed:
            for place, node in enumerate(rows.get(row, ()), first_of.get(row, 0)):
                added.setdefault(node, []).append(place)
        places = [
            (row, tuple([(node, place) for place, node in enumerate(rows[row], first)]))
            for row, first in first_of.items()
            if row not in summed
        ]
        sums = [(node, _at(where)) for node, where in added.items()]
        return cls(re.compile(b"".join(lines)), tuple(places), tuple(sums))


def _at(places: Sequence[int]) -> Callable[[Sequence[int]], Iterable[int]]:
    """Those of a sequence, at these places."""
    if len(places) == 1:
        return lambda numbers: (numbers[places[0]],)
    return itemgetter(*places)


_KERNEL_ROWS = ("kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable")
_V2 = NumaStatReader(("anon", "file", "shmem"), ("hugetlb", "file_mapped"), _KERNEL_ROWS)
DEMOTED_ROWS = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgdemote_proactive")
"""Pages that left a node for a slower memory tier; the last one since Linux 6.15 or so."""
PROMOTED_ROW = "pgpromote_success"
"""Pages that came to a node from a slower tier."""
MOVE_ROWS = (*DEMOTED_ROWS, PROMOTED_ROW)
"""Since Linux 6.12, in pages. All are 0 on hosts with a single memory tier, where nobody need read them."""
_V2_TIERED = NumaStatReader(_V2.required, (*_V2.optional, *MOVE_ROWS), _KERNEL_ROWS)
_V1 = NumaStatReader(("hierarchical_anon", "hierarchical_file", "hierarchical_unevictable"))
_HUGETLB_V2 = NumaStatReader(("total",))
_HUGETLB_V1 = NumaStatReader(("hierarchical_total",))


def parse(text: str, rows: tuple[str, ...]) -> dict[str, BytesByNode]:
    """The rows of these names that the text has: name -> node -> value as printed.

    v2: `anon N0=4096 N1=0` in bytes; v1 and hugetlb: `total=1 N0=1 N1=0`, v1's memory in pages.
    Raises ParseError when one of them has another form. Other rows, some thirty, are ignored.
    """
    found: dict[str, BytesByNode] = {}
    for match in _pattern(rows).finditer(text):
        if match[2] is None:
            raise ParseError(f"not a numa_stat line: {text[match.start() :].partition(chr(10))[0][:120]!r}")
        found[match[1]] = {int(node): int(value) for node, value in _FIELD.findall(match[2])}
    return found


def _times(pages: BytesByNode, page_size: int) -> BytesByNode:
    return {node: count * page_size for node, count in pages.items()}


def resident_v2(text: bytes, hugetlb: BytesByNode | None, tiered_page_size: int | None = None) -> Resident:
    """Sort the rows of v2's memory.numa_stat so that each byte is in one type.

    `tiered_page_size`: bytes of a page where there are several memory tiers; None = moves between them are not read.
    `file` includes shmem (it is taken out), `anon` includes transparent huge pages. Kernels that
    charge huge pages to memory too have a row `hugetlb`; the hugetlb controller's figure wins.
    Raises ParseError when a row is missing that every kernel prints.
    """
    rows = (_V2 if tiered_page_size is None else _V2_TIERED).read(text)
    shmem = rows["shmem"]
    demoted = promoted = None
    if tiered_page_size is not None:
        lists = [rows[row] for row in DEMOTED_ROWS if row in rows]
        demoted = {node: sum(one[node] for one in lists) * tiered_page_size for node in lists[0]} if lists else None
        promoted = _times(rows[PROMOTED_ROW], tiered_page_size) if PROMOTED_ROW in rows else None
    return Resident(
        anon=rows["anon"],
        shmem=shmem,
        file={node: max(0, value - shmem.get(node, 0)) for node, value in rows["file"].items()},
        hugetlb=hugetlb if hugetlb is not None else rows.get("hugetlb"),
        kernel=rows.get("sum"),
        mapped=rows.get("file_mapped"),
        demoted=demoted,
        promoted=promoted,
    )


def resident_v1(text: bytes, hugetlb: BytesByNode | None, page_size: int) -> Resident:
    """Sort the rows of v1's memory.numa_stat, which counts pages on the LRU lists.

    `anon` includes shmem there, and nothing says what the unevictable pages are. Kernel memory
    is not split by node. The rows are those with all descendants, also removed ones that left memory
    behind: a group's own rows do not have that. Raises ParseError when one is missing.
    """
    rows = _V1.read(text)
    anon, file, unevictable = ({node: pages * page_size for node, pages in rows[row].items()} for row in _V1.required)
    return Resident(anon=anon, file=file, hugetlb=hugetlb, unevictable=unevictable)


def hugetlb(text: bytes, is_v2: bool) -> BytesByNode:
    """Bytes in huge pages of one size, descendants included: v2's `total`, v1's `hierarchical_total`.

    Linux 6.1 and others take a page that was migrated from the count of its new node: the old one's is too large for
    good, and the new one's wraps below 0, to 20 digits. Such a count becomes one that no node can have.
    """
    rows = _HUGETLB_V2 if is_v2 else _HUGETLB_V1
    return rows.read(_WRAPPED.sub(_TOO_MANY, text))[rows.required[0]]


@lru_cache
def _pattern(rows: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the start of each of these rows; the second group is None when its rest has another form."""
    names = "|".join(re.escape(row) for row in rows)
    return re.compile(
        rf"^({names})(?![\w.])(?:(?:=\d{{1,19}})?((?: N\d{{1,4}}=\d{{1,19}})+) ?$|)", re.MULTILINE | re.ASCII
    )
