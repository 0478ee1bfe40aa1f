"""The rows and columns of a container's ranks: what each was told, its devices, and if it is so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.evaluation.ranks.rank import RANK_VERDICTS, Rank
from numaudit.ranks.declaration import Declaration
from numaudit.report.columns import Column
from numaudit.report.words import UNKNOWN

MOST_RANKS = 40
"""Ranks that are shown."""


def rank_rows(ranks: Sequence[Rank]) -> list[Rank]:
    """The worst first, and helpers last."""
    ordered = sorted(ranks, key=lambda rank: (not rank.counts, RANK_VERDICTS.index(rank.verdict), rank.pid))
    return ordered[:MOST_RANKS]


def rank_columns(ranks: Sequence[Rank]) -> list[Column[Rank]]:
    """Those that have something to show."""
    has_devices = any(one.devices for one in ranks)
    return [one for one in _COLUMNS if one.text is not _devices or has_devices]


def _number(rank: Rank) -> str:
    number = UNKNOWN if rank.rank is None else str(rank.rank)
    return number if rank.counts else f"({number})"


def _told_by(rank: Rank) -> str:
    return ", ".join(dict.fromkeys(one.launcher for one in rank.declarations)) or UNKNOWN


def _declared(rank: Rank) -> str:
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


def _devices(rank: Rank) -> str:
    found = (
        f"{one.kind} {one.address} (N{UNKNOWN if one.numa_node is None else one.numa_node})" for one in rank.devices
    )
    return ", ".join(found)


def _why(rank: Rank) -> str:
    parts = (None if rank.verdict == "in-force" else rank.detail, rank.devices_note)
    return "; ".join(filter(None, parts))


_COLUMNS: tuple[Column[Rank], ...] = (
    Column("RANK", _number, is_number=True),
    Column("PID", lambda rank: str(rank.pid), is_number=True),
    Column("TOLD BY", _told_by),
    Column("DECLARED", _declared, folds=True),
    Column("DEVICES", _devices, folds=True),
    Column("VERDICT", lambda rank: rank.verdict),
    Column("WHY", _why, folds=True),
)
