"""Headroom for people: the map by node, the largest admitted containers, and the holders of groups."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from numaudit.containermanager.pod.spec import MEMORY, full_name
from numaudit.errors import printable
from numaudit.report.memory_manager import HolderReport, MemoryManagerReport
from numaudit.report.words import UNKNOWN, amounts, size
from numaudit.topology.quantity import at_most, plural
from numaudit.views.terminal.fit import Filled, filled_table, fit, left_out
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_ABSENT = "-"
_CPUS, _OTHERS = ">FREE CPUS", (">WITHOUT PROMISE", ">USES FREE", ">USES PROMISED")
_TITLES = (
    ("NODE", 0),
    ("GROUP", 0),
    (">SYSTEM", 2),
    (">ALLOCATABLE", 1),
    (">PROMISED", 0),
    (">FREE", 0),
    (">STRANDED", 0),
    (_CPUS, 0),
    *zip(_OTHERS, (4, 5, 3), strict=True),
)
"""Title, and the order in which columns leave for lack of room."""
_COLUMNS = (
    "GROUP = nodes that serve containers together; - = the node serves none. STRANDED = free, but not for a container "
    "of one node.",
    "WITHOUT PROMISE = anon + shmem of everything that has no promise. USES FREE = its part beyond SYSTEM, which uses "
    "memory that is free in the map. USES PROMISED = its part beyond even that.",
)

_HUGE_PAGES = (
    "MAP FREE = pages that the Memory Manager would still promise. KERNEL FREE = free pages of the kernel's pool. "
    "UNCLAIMED = promised, but not used yet. WITHOUT PROMISE = used by others. LEFT = what a new container can have."
)


def print_headroom(manager: MemoryManagerReport, out: Console, *, whole: bool = True) -> None:
    """The largest container that would be admitted, then the memory map by node, and who holds it.

    `whole` False: no legend, and holders only of groups of several nodes.
    """
    print_note(_admissible(manager), out, "bold")
    memory = {table.numa_node: table for table in manager.tables if table.type == MEMORY}
    with_others = any(node.unpromised_bytes is not None for node in manager.nodes)
    with_cpus = any(node.free_cpus is not None for node in manager.nodes)
    rows = []
    for node in manager.nodes:
        row = memory[node.numa_node]
        figures = [row.system_reserved, row.allocatable, row.reserved, row.free, node.stranded_bytes]
        held = [node.unpromised_bytes, node.unpromised_in_free_bytes, node.unpromised_in_reserved_bytes]
        group = _ABSENT if node.group is None else str(node.group) or UNKNOWN
        cpus = _ABSENT if node.free_cpus is None else f"{node.free_cpus} of {node.cpus}"
        rows.append((str(node.numa_node), group, *map(size, figures), cpus, *map(size, held)))
    columns = [
        Filled(title, leaves, cells)
        for (title, leaves), cells in zip(_TITLES, zip(*rows, strict=True), strict=True)
        if (with_cpus or title != _CPUS) and (with_others or title not in _OTHERS)
    ]
    kept, _ = fit(columns, out.width)
    print_table(filled_table(kept), out)
    if gone := left_out(columns, kept):
        print_note(f"left out: {', '.join(gone)} (no room)", out)
    if whole:
        for note in _COLUMNS[: 2 if any(one.title in _OTHERS for one in kept) else 1]:
            print_note(note, out, "dim")
    if manager.huge_pages:
        _print_huge_pages(manager, out, whole=whole)
    for line in _holders(manager, whole):
        print_note(line, out)
    for line in _warnings(manager):
        print_note(line, out, "yellow")


def _print_huge_pages(manager: MemoryManagerReport, out: Console, *, whole: bool) -> None:
    """The map, the kernel and what is left, by size and group or node."""
    table = new_table("NODES", "HUGE PAGES", ">MAP FREE", ">KERNEL FREE", ">UNCLAIMED", ">WITHOUT PROMISE", ">LEFT")
    for row in manager.huge_page_rows():
        figures = map(size, (row.map_free, row.kernel_free, row.unclaimed, row.others))
        left = size(row.left)
        table.add_row(str(row.nodes), row.type, *figures, Text(left, "yellow") if row.short else left)
    out.print()
    print_table(table, out)
    if whole:
        print_note(_HUGE_PAGES, out, "dim")
    for of_size in manager.huge_pages:
        if of_size.admissible is not None:
            rows = [f"{at_most(one.bytes)} on {plural(one.nodes, 'node')}" for one in of_size.admissible if one.bytes]
            said = ", ".join(rows) or "none"
            print_note(f"Largest request for {of_size.type} that would get its pages now: {said}", out)


def _admissible(manager: MemoryManagerReport) -> str:
    if manager.admissible is None:
        return "Largest Guaranteed container: unknown, because the Topology Manager's policy is unknown"
    parts = [f"{at_most(one.bytes)} on {plural(one.nodes, 'node')}" for one in manager.admissible if one.bytes]
    text = f"Largest Guaranteed container that would be admitted now: {', '.join(parts) or 'none'}"
    if parts and manager.cpus_in_words:
        text += f" ({manager.cpus_in_words})"
    if manager.fragmentation_ratio is None:
        return f"{text}; nothing is free"
    return f"{text}; fragmentation {manager.fragmentation_ratio:.0%}"


def _holders(manager: MemoryManagerReport, whole: bool) -> Iterator[str]:
    by_group: dict[tuple[int, ...], list[HolderReport]] = {}
    for one in manager.holders:
        by_group.setdefault(tuple(one.group), []).append(one)
    for nodes, holders in by_group.items():
        if whole or len(nodes) > 1:
            what = (
                f"group {holders[0].group} is kept together by" if len(nodes) > 1 else f"node {nodes[0]} is promised to"
            )
            yield f"{what} {', '.join(map(_holder, holders))}"


def _holder(one: HolderReport) -> str:
    stale = "; stale" if one.stale else ""
    return printable(f"{full_name(one.namespace, one.pod, one.pod_uid, None)} ({amounts(one.bytes)}{stale})")


def _warnings(manager: MemoryManagerReport) -> Iterator[str]:
    for node in manager.nodes:
        if node.unpromised_in_reserved_bytes:
            yield (
                f"node {node.numa_node}: containers without a promise use "
                f"{size(node.unpromised_in_reserved_bytes)} of the "
                "promised memory: reserve more for the system, or limit pods that are not Guaranteed"
            )
