"""The columns of ranks, for the terminal's table and the page: what each declares, where it is, and if that is so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.api.ranks_document import RankRow
from numaudit.ranks.declaration import Declaration
from numaudit.report.columns import Column, ColumnPlaces, Placed, everywhere
from numaudit.report.process_columns import amounts_by_node
from numaudit.report.words import UNKNOWN, node_list, size
from numaudit.topology.nodeset import NodeSet

MOST = 40
"""Ranks that are shown, unless all are asked for."""


def rank_columns(rows: Sequence[RankRow], *, wide: bool = False) -> list[Placed[RankRow]]:
    """Those that have something to show; `wide`: also the container where all are in one."""
    hidden = {
        "DEVICES": not any(one.devices for one in rows),
        "CONTAINER": not wide and len({one.container for one in rows}) < 2,
        "MAY RUN ON": not wide,
    }
    return everywhere(one for one in _COLUMNS if not hidden.get(one.title))


def _number(rank: RankRow) -> str:
    number = UNKNOWN if rank.rank is None else str(rank.rank)
    return number if rank.counts else f"({number})"


def _declared_by(rank: RankRow) -> str:
    return ", ".join(dict.fromkeys(one.launcher for one in rank.declarations)) or UNKNOWN


def _declared(rank: RankRow) -> str:
    if rank.verdict == "unbound":
        return "nothing"
    return "; ".join(text for one in rank.declarations for text in _parts(one)) or UNKNOWN


def _parts(one: Declaration) -> Iterator[str]:
    if one.has_memory:
        nodes = "" if one.memory_nodes is None else f" {one.memory_nodes}"
        yield f"{one.policy or 'memory'}{nodes}"
    if one.cpus is not None:
        yield one.cpus.in_words
    elif one.one_node:
        yield "CPUs of one node"


def _runs_on(rank: RankRow) -> str:
    found = rank.threads_by_node
    return UNKNOWN if found is None else node_list(NodeSet.from_ids(node for node, threads in found.items() if threads))


def _memory(rank: RankRow) -> str:
    return UNKNOWN if rank.bytes_by_node is None else amounts_by_node(rank.bytes_by_node, size)


def _devices(rank: RankRow) -> str:
    found = (
        f"{one.kind} {one.address} (N{UNKNOWN if one.numa_node is None else one.numa_node})" for one in rank.devices
    )
    return ", ".join(found)


def _why(rank: RankRow) -> str:
    parts = (None if rank.verdict == "in-force" else rank.detail, rank.devices_note)
    return "; ".join(filter(None, parts))


_COLUMNS: tuple[Column[RankRow], ...] = (
    Column("PROCESS", lambda rank: rank.process or UNKNOWN, table=ColumnPlaces(0)),
    Column("PID", lambda rank: str(rank.pid), is_number=True, table=ColumnPlaces(1)),
    Column("RANK", _number, is_number=True, table=ColumnPlaces(2, 1)),
    Column("CONTAINER", lambda rank: rank.container, table=ColumnPlaces(3, 6), folds=True),
    Column("BY", _declared_by, table=ColumnPlaces(4, 5)),
    Column("DECLARED", _declared, folds=True, table=ColumnPlaces(5)),
    Column("MAY RUN ON", lambda rank: node_list(rank.allowed_cpu_nodes), table=ColumnPlaces(6, 8)),
    Column("RUNS ON", _runs_on, "nodes on which its threads ran last", table=ColumnPlaces(7, 4)),
    Column("MEMORY", _memory, folds=True, table=ColumnPlaces(8, 2)),
    Column("DEVICES", _devices, folds=True, table=ColumnPlaces(9, 7)),
    Column("VERDICT", lambda rank: rank.verdict, table=ColumnPlaces(10, 3)),
    Column("WHY", _why, folds=True, least=24, table=ColumnPlaces(11)),
)
"""From left to right."""
