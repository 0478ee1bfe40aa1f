"""The columns of a node's row: what the terminal's table, the live screen and the page say of each node.

Views lay them out, and compute nothing. A new column is one entry of NODE_COLUMNS.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from numaudit.containermanager.pod.spec import MEMORY
from numaudit.report.columns import Column, ColumnPlaces
from numaudit.report.values import ContainerReport, NodeReport, Report, Residual
from numaudit.report.words import UNKNOWN, cpu_list, or_unknown, share, size

_BAR = 20
"""Characters between the brackets."""


class NodeRow(Struct, frozen=True):
    """One node, beside what other parts of the report say of it."""

    node: NodeReport
    account: Residual | None
    """None = the node or the root cgroup does not show its own."""
    promised_bytes: int | None
    """Ordinary memory, by the Memory Manager's map; None = there is none."""
    wrong_bytes: int
    """Judged bytes of containers that were promised other nodes; without a Memory Manager's map, of those that may use
    none of its CPUs."""


def node_rows(report: Report) -> tuple[NodeRow, ...]:
    """One for each node of the report."""
    accounts = {one.numa_node: one for one in report.residual}
    manager = report.memory_manager
    tables = () if manager is None else manager.tables
    promised = {table.numa_node: table.reserved for table in tables if table.type == MEMORY}
    wrong = _bytes_elsewhere(_promised_ones(report) if _has_map(report) else _allowed_ones(report))
    return tuple(
        NodeRow(one, accounts.get(one.numa_node), promised.get(one.numa_node), wrong.get(one.numa_node, 0))
        for one in report.nodes
    )


def worst(rows: Sequence[NodeRow], most: int) -> list[NodeRow]:
    """Of more than `most` those with the most wrong bytes, then the fullest; in their order."""
    by_need = sorted(rows, key=lambda row: (-row.wrong_bytes, row.node.free_bytes or 0))
    chosen = {row.node.numa_node for row in by_need[:most]}
    return [row for row in rows if row.node.numa_node in chosen]


def _has_map(report: Report) -> bool:
    return report.memory_manager is not None


def _has_tiers(report: Report) -> bool:
    return report.tiering is not None and len(report.tiering.tiers) > 1


def _promised_ones(report: Report) -> Iterable[tuple[ContainerReport, Iterable[int]]]:
    for one in report.containers:
        if one.intended is not None and one.intended.memory_nodes:
            yield one, one.intended.memory_nodes


def _allowed_ones(report: Report) -> Iterable[tuple[ContainerReport, Iterable[int]]]:
    for one in report.containers:
        if one.allowed_cpu_nodes:
            yield one, one.allowed_cpu_nodes


def _bytes_elsewhere(wanted: Iterable[tuple[ContainerReport, Iterable[int]]]) -> dict[int, int]:
    """By node, outside those that each container should be on."""
    sums: dict[int, int] = {}
    for one, nodes in wanted:
        right = set(nodes)
        for row in one.resident or ():
            if row.numa_node not in right:
                sums[row.numa_node] = sums.get(row.numa_node, 0) + row.judged
    return sums


def _bar(row: NodeRow) -> str:
    """Bar of a node's memory. A part that exists is never rounded to nothing."""
    used, total = row.node.used_bytes, row.node.total_bytes
    if used is None or not total:
        return ""
    full = min(_BAR, -(-used * _BAR // total))
    wrong = min(full, -(-row.wrong_bytes * _BAR // total))
    return f"[{'!' * wrong}{'#' * (full - wrong)}{'.' * (_BAR - full)}]"


def _residual(row: NodeRow) -> str:
    if row.account is None:
        return UNKNOWN
    value = row.account.residual_bytes
    return f"+{size(value)}" if value > 0 else size(value)


NODE_COLUMNS: tuple[Column[NodeRow], ...] = (
    Column(
        "NODE", lambda row: str(row.node.numa_node),
        table=ColumnPlaces(0), top=ColumnPlaces(0), page=ColumnPlaces(0, heading="Node"),
    ),
    Column(
        "TIER", lambda row: or_unknown(row.node.memory_tier), "its memory tier by the kernel, a smaller one is faster",
        is_number=True, needs=_has_tiers,
        table=ColumnPlaces(5, 7), top=ColumnPlaces(5, 4), page=ColumnPlaces(5, heading="Tier"),
    ),
    Column(
        "CPU LIST", lambda row: cpu_list(row.node.cpus),
        table=ColumnPlaces(10, 5), page=ColumnPlaces(10, heading="CPUs"),
    ),
    Column(
        "[!!###...]", _bar,
        top=ColumnPlaces(10, 3, heading=""),
    ),
    Column(
        "TOTAL", lambda row: size(row.node.total_bytes), is_number=True,
        table=ColumnPlaces(20, 3), top=ColumnPlaces(20, 2), page=ColumnPlaces(20, heading="Total"),
    ),
    Column(
        "USED", lambda row: size(row.node.used_bytes), is_number=True,
        top=ColumnPlaces(30), page=ColumnPlaces(30, heading="Used"),
    ),
    Column(
        "FREE", lambda row: size(row.node.free_bytes), is_number=True,
        table=ColumnPlaces(40, 4), top=ColumnPlaces(40), page=ColumnPlaces(40, heading="Free"),
    ),
    Column(
        "PROMISED", lambda row: size(row.promised_bytes), is_number=True, needs=_has_map,
        top=ColumnPlaces(50, 1), page=ColumnPlaces(50, heading="Promised"),
    ),
    Column(
        "MISPLACED", lambda row: size(row.wrong_bytes),
        tone=lambda row: "bad" if row.wrong_bytes else None, is_number=True, needs=_has_map,
        top=ColumnPlaces(60), page=ColumnPlaces(60, heading="Misplaced"),
    ),
    Column(
        "REMOTE", lambda row: size(row.wrong_bytes),
        tone=lambda row: "bad" if row.wrong_bytes else None, is_number=True, needs=lambda report: not _has_map(report),
        top=ColumnPlaces(60), page=ColumnPlaces(60, heading="Remote"),
    ),
    Column(
        "CONTAINERS", lambda row: size(row.account.container_bytes if row.account else None), is_number=True,
        table=ColumnPlaces(70, 1), page=ColumnPlaces(70, heading="Containers"),
    ),
    Column(
        "UNATTRIBUTED", lambda row: size(row.account.unattributed_bytes if row.account else None), is_number=True,
        table=ColumnPlaces(80, 2), page=ColumnPlaces(80, heading="Unattributed"),
    ),
    Column("RESIDUAL", _residual, is_number=True, table=ColumnPlaces(90), page=ColumnPlaces(90, heading="Residual")),
    Column(
        "OF NODE", lambda row: share(row.account.residual_bytes if row.account else None, row.node.total_bytes),
        is_number=True,
        table=ColumnPlaces(100, 6),
    ),
)  # fmt: skip
