"""The Memory Manager's headroom as tables: columns and sentences for the terminal and the page. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.pod.spec import MEMORY
from numaudit.report.cells import Tone
from numaudit.report.columns import Column, ColumnPlaces, Placed, Row, everywhere
from numaudit.report.memory_manager import HugePageRow, MemoryManagerReport, MemoryNodeReport, MemoryTableReport
from numaudit.report.words import UNKNOWN, size
from numaudit.topology.quantity import at_most, plural

_ABSENT = "-"
_FIRST = 9
"""Leaves before every other column."""
_OTHERS = ("UNPROMISED", "USES FREE", "USES PROMISED")


class MapRow(Struct, frozen=True):
    """One resource of one node, and what holds for the node's memory alone."""

    table: MemoryTableReport
    node: MemoryNodeReport


def map_rows(manager: MemoryManagerReport) -> Iterator[MapRow]:
    """Those of each node that has some, its ordinary memory always."""
    nodes = {one.numa_node: one for one in manager.nodes}
    return (MapRow(one, nodes[one.numa_node]) for one in manager.tables if one.total or one.type == MEMORY)


def map_columns(manager: MemoryManagerReport) -> list[Placed[MapRow]]:
    """Those that say something; what is 0 on every node leaves first. A node that is its own group has it in NODE."""
    hidden = {"FREE CPUS"} if all(node.free_cpus is None for node in manager.nodes) else set[str]()
    if all(node.unpromised_bytes is None for node in manager.nodes):
        hidden.update(_OTHERS)
    if all(node.group is None or len(node.group) == 1 for node in manager.nodes):
        hidden.add("GROUP")
    rows = [row for row in map_rows(manager) if row.table.type == MEMORY]
    shown = [(column, place) for column, place in everywhere(_MAP) if column.title not in hidden]
    return [(column, _zero_first(place, {column.text(row) for row in rows})) for column, place in shown]


def _zero_first(place: ColumnPlaces, cells: set[str]) -> ColumnPlaces:
    return replace(place, leaves=_FIRST) if place.leaves and cells == {"0"} else place


def _group(row: MapRow) -> str:
    return _ABSENT if row.node.group is None else str(row.node.group) or UNKNOWN


def _cpus(row: MapRow) -> str:
    return _ABSENT if row.node.free_cpus is None else f"{row.node.free_cpus} of {row.node.cpus}"


def _amount(
    title: str,
    of: Callable[[Row], int | None],
    help_: str = "",
    leaves: int = 0,
    tone: Callable[[Row], Tone | None] | None = None,
) -> Column[Row]:
    place = ColumnPlaces(0, leaves)
    return Column(title, lambda row: size(of(row)), help_, is_number=True, tone=tone, table=place)


def _of_memory(column: Column[MapRow]) -> Column[MapRow]:
    """Empty beside huge pages."""
    return replace(column, text=lambda row: column.text(row) if row.table.type == MEMORY else "")


_MAP: tuple[Column[MapRow], ...] = (
    Column("NODE", lambda row: str(row.table.numa_node)),
    Column("TYPE", lambda row: row.table.type),
    Column("GROUP", _group, "nodes that serve containers together; - = the node serves none"),
    _amount("SYSTEM", lambda row: row.table.system_reserved, leaves=5),
    _amount("ALLOCATABLE", lambda row: row.table.allocatable, leaves=6),
    _amount("PROMISED", lambda row: row.table.reserved),
    _amount("FREE", lambda row: row.table.free),
    *map(
        _of_memory,
        (
            _amount("STRANDED", lambda row: row.node.stranded_bytes, "free, but not for a container of one node", 2),
            Column("FREE CPUS", _cpus, is_number=True),
            _amount(
                "UNPROMISED", lambda row: row.node.unpromised_bytes,
                "memory in use (anon, shmem) that no promise covers", 4,
            ),
            _amount(
                "USES FREE", lambda row: row.node.unpromised_in_free_bytes,
                "unpromised memory beyond SYSTEM: FREE still offers it, though it is in use", 3,
            ),
            _amount(
                "USES PROMISED", lambda row: row.node.unpromised_in_reserved_bytes,
                "unpromised memory beyond SYSTEM and FREE: it uses what was promised to others", 1,
            ),
        ),
    ),
)  # fmt: skip

HUGE_PAGES: list[Placed[HugePageRow]] = everywhere(
    (
        Column("NODES", lambda row: str(row.nodes)),
        Column("HUGE PAGES", lambda row: row.type),
        _amount("MAP FREE", lambda row: row.map_free, "pages that the Memory Manager would still promise"),
        _amount("KERNEL FREE", lambda row: row.kernel_free, "free pages of the kernel's pool"),
        _amount("UNCLAIMED", lambda row: row.unclaimed, "promised, but not used yet"),
        _amount("UNPROMISED", lambda row: row.others, "used without a promise"),
        _amount(
            "LEFT", lambda row: row.left, "what a new container can have",
            tone=lambda row: "unknown" if row.short else None,
        ),
    )
)  # fmt: skip


def largest(manager: MemoryManagerReport) -> str:
    """The sentence of the largest container that would be admitted."""
    if manager.admissible is None:
        return "Largest Guaranteed container: unknown, because the Topology Manager's policy is unknown"
    parts = [f"{at_most(one.bytes)} on {plural(one.node_count, 'node')}" for one in manager.admissible if one.bytes]
    text = f"Largest Guaranteed container that would be admitted now: {', '.join(parts) or 'none'}"
    if parts and manager.cpus_in_words:
        text += f" ({manager.cpus_in_words})"
    if manager.fragmentation_ratio is None:
        return f"{text}; nothing is free"
    return f"{text}; fragmentation {manager.fragmentation_ratio:.0%}"


def largest_with_huge_pages(manager: MemoryManagerReport) -> Iterator[str]:
    """A sentence for each size of huge pages of which that is known."""
    for of_size in manager.huge_pages:
        if of_size.admissible is not None:
            rows = [
                f"{at_most(one.bytes)} on {plural(one.node_count, 'node')}" for one in of_size.admissible if one.bytes
            ]
            said = ", ".join(rows) or "none"
            yield f"Largest request for {of_size.type} that would get its pages now: {said}"


def warnings(manager: MemoryManagerReport) -> Iterator[str]:
    """A sentence for each node whose promised memory is used by others."""
    for node in manager.nodes:
        if node.unpromised_in_reserved_bytes:
            yield (
                f"node {node.numa_node}: containers without a promise use {size(node.unpromised_in_reserved_bytes)} of "
                "the promised memory: reserve more for the system, or limit pods that are not Guaranteed"
            )
