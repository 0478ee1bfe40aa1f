"""memory.numa_stat and hugetlb.*.numa_stat of a cgroup: bytes by node. Pure: text in, values out.

Source: the kernel's mm/memcontrol.c, mm/memcontrol-v1.c, mm/hugetlb_cgroup.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from numaudit.errors import ParseError
from numaudit.snapshot import BytesByNode, Resident

_KERNEL_ROWS = ("kernel_stack", "pagetables", "sec_pagetables", "slab_reclaimable", "slab_unreclaimable")
_V2_ROWS = ("anon", "file", "shmem", "hugetlb", *_KERNEL_ROWS)
_V1_ROWS = ("hierarchical_anon", "hierarchical_file", "hierarchical_unevictable")
_FIELD = re.compile(r" N(\d{1,4})=(\d{1,19})", re.ASCII)


def parse(text: str, rows: tuple[str, ...]) -> dict[str, BytesByNode]:
    """The rows of these names that the text has: name -> node -> value as printed.

    v2: `anon N0=4096 N1=0` in bytes; v1 and hugetlb: `total=1 N0=1 N1=0`, v1's memory in pages.
    Raises ParseError when one of them has another form. Other rows, some thirty, are not looked at.
    """
    found: dict[str, BytesByNode] = {}
    for match in _pattern(rows).finditer(text):
        if match[2] is None:
            raise ParseError(f"not a numa_stat line: {text[match.start() :].partition(chr(10))[0][:120]!r}")
        found[match[1]] = {int(node): int(value) for node, value in _FIELD.findall(match[2])}
    return found


def resident_v2(text: str, hugetlb: BytesByNode | None) -> Resident:
    """Sort the rows of v2's memory.numa_stat so that each byte is in one type.

    `file` includes shmem (it is taken out), `anon` includes transparent huge pages. Kernels that
    charge huge pages to memory too have a row `hugetlb`; the hugetlb controller's figure wins.
    Raises ParseError when a row is missing that every kernel prints.
    """
    rows = parse(text, _V2_ROWS)
    anon, file, shmem = (_row(rows, key, text) for key in ("anon", "file", "shmem"))
    return Resident(
        anon=anon,
        shmem=shmem,
        file={node: max(0, value - shmem.get(node, 0)) for node, value in file.items()},
        hugetlb=hugetlb if hugetlb is not None else rows.get("hugetlb"),
        kernel=_sum([rows[key] for key in _KERNEL_ROWS if key in rows]),
    )


def resident_v1(text: str, hugetlb: BytesByNode | None, page_size: int) -> Resident:
    """Sort the rows of v1's memory.numa_stat, which counts pages on the LRU lists.

    `anon` includes shmem there, and nothing tells what the unevictable pages are. Kernel memory
    is not split by node. The rows are those with all descendants, also removed ones that left memory
    behind: a group's own rows do not have that. Raises ParseError when one is missing.
    """
    rows = parse(text, _V1_ROWS)
    anon, file, unevictable = (
        {node: pages * page_size for node, pages in _row(rows, key, text).items()} for key in _V1_ROWS
    )
    return Resident(anon=anon, file=file, hugetlb=hugetlb, unevictable=unevictable)


def hugetlb(text: str, is_v2: bool) -> BytesByNode:
    """Bytes in huge pages of one size, descendants included: v2's `total`, v1's `hierarchical_total`."""
    key = "total" if is_v2 else "hierarchical_total"
    return _row(parse(text, (key,)), key, text)


@lru_cache
def _pattern(rows: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the start of each of these rows; the second group is None when its rest has another form."""
    names = "|".join(re.escape(row) for row in rows)
    return re.compile(
        rf"^({names})(?![\w.])(?:(?:=\d{{1,19}})?((?: N\d{{1,4}}=\d{{1,19}})+) ?$|)", re.MULTILINE | re.ASCII
    )


def _row(rows: Mapping[str, BytesByNode], key: str, text: str) -> BytesByNode:
    try:
        return rows[key]
    except KeyError:
        start = text[:60] + ("..." if len(text) > 60 else "")
        raise ParseError(f"numa_stat has no row {key!r}, so it is empty, cut short or foreign: {start!r}") from None


def _sum(rows: list[BytesByNode]) -> dict[int, int] | None:
    if not rows:
        return None
    return {node: sum([row.get(node, 0) for row in rows]) for node in rows[0]}
