"""The columns of a node's row: what the terminal's table, the live screen and the page say of each node.

Views lay them out, and compute nothing. A new column is one entry of NODE_COLUMNS.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from numaudit.containermanager.pod.spec import MEMORY
from numaudit.report.columns import Column, ColumnPlaces
from numaudit.report.values import NodeBytes, NodeReport, Report, Residual
from numaudit.report.words import UNKNOWN, cpu_list, or_unknown, share, size
from numaudit.topology.nodeset import NodeSet


class Elsewhere(Struct):
    """Judged bytes that containers hold on one node, and those of them that should be on another one."""

    misplaced: int | None = None
    """Of containers that were promised other nodes; None = no container's memory on this node is known."""
    remote: int | None = None
    """Of containers that may use none of its CPUs; None = of no container both memory and CPUs are known."""
    either: int = 0
    """Misplaced or remote, each byte once."""
    compared: int = 0
    """Of containers whose CPUs are known."""

    def add(self, row: NodeBytes, promised: NodeSet | None, cpu_nodes: NodeSet | None) -> None:
        """What one container holds here."""
        node, judged = row.numa_node, row.judged
        is_misplaced = promised is not None and bool(promised) and node not in promised
        is_remote = cpu_nodes is not None and node not in cpu_nodes
        self.misplaced = (self.misplaced or 0) + (judged if is_misplaced else 0)
        self.either += judged if is_misplaced or is_remote else 0
        if cpu_nodes is not None:
            self.remote = (self.remote or 0) + (judged if is_remote else 0)
            self.compared += judged

    @property
    def remote_ratio(self) -> float | None:
        """Remote share of the bytes that were compared; 0 where there are none."""
        if self.remote is None:
            return None
        return self.remote / self.compared if self.compared else 0.0


class NodeRow(Struct, frozen=True):
    """One node, beside what other parts of the report say of it."""

    node: NodeReport
    account: Residual | None
    """None = the node or the root cgroup does not show its own."""
    promised_bytes: int | None
    """Ordinary memory, by the Memory Manager's map; None = there is none."""
    elsewhere: Elsewhere


def node_rows(report: Report) -> tuple[NodeRow, ...]:
    """One for each node of the report."""
    accounts = {one.numa_node: one for one in report.residual}
    manager = report.memory_manager
    tables = () if manager is None else manager.tables
    promised = {table.numa_node: table.reserved for table in tables if table.type == MEMORY}
    elsewhere = {one.numa_node: Elsewhere() for one in report.nodes}
    for one in report.containers:
        nodes = None if one.intended is None else one.intended.memory_nodes
        for row in one.resident or ():
            if row.numa_node in elsewhere:
                elsewhere[row.numa_node].add(row, nodes, one.allowed_cpu_nodes)
    return tuple(
        NodeRow(one, accounts.get(one.numa_node), promised.get(one.numa_node), elsewhere[one.numa_node])
        for one in report.nodes
    )


def worst(rows: Sequence[NodeRow], most: int) -> list[NodeRow]:
    """Of more than `most` those with the most misplaced or remote bytes, then the fullest; in their order."""
    by_need = sorted(rows, key=lambda row: (-row.elsewhere.either, row.node.free_bytes or 0))
    chosen = {row.node.numa_node for row in by_need[:most]}
    return [row for row in rows if row.node.numa_node in chosen]


def _has_map(report: Report) -> bool:
    return report.memory_manager is not None


def _has_tiers(report: Report) -> bool:
    return report.tiering is not None and len(report.tiering.tiers) > 1


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
        table=ColumnPlaces(5, 7), top=ColumnPlaces(5, 5), page=ColumnPlaces(5, heading="Tier"),
    ),
    Column(
        "CPU LIST", lambda row: cpu_list(row.node.cpus),
        table=ColumnPlaces(10, 5), page=ColumnPlaces(10, heading="CPUs"),
    ),
    Column(
        "TOTAL", lambda row: size(row.node.total_bytes), is_number=True,
        table=ColumnPlaces(20, 3), top=ColumnPlaces(20, 4), page=ColumnPlaces(20, heading="Total"),
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
        top=ColumnPlaces(50, 3), page=ColumnPlaces(50, heading="Promised"),
    ),
    Column(
        "MISPLACED", lambda row: size(row.elsewhere.misplaced),
        tone=lambda row: "bad" if row.elsewhere.misplaced else None, is_number=True, needs=_has_map,
        top=ColumnPlaces(60), page=ColumnPlaces(60, heading="Misplaced"),
    ),
    Column(
        "REMOTE", lambda row: size(row.elsewhere.remote),
        tone=lambda row: "bad" if row.elsewhere.remote else None, is_number=True,
        top=ColumnPlaces(65), page=ColumnPlaces(65, heading="Remote"),
    ),
    Column(
        "CONTAINERS", lambda row: size(row.account.container_bytes if row.account else None), is_number=True,
        table=ColumnPlaces(70, 1), page=ColumnPlaces(70, heading="Containers"),
    ),
    Column(
        "UNATTRIBUTED", lambda row: size(row.account.unattributed_bytes if row.account else None), is_number=True,
        table=ColumnPlaces(80, 2), page=ColumnPlaces(80, wide_only=True, heading="Unattributed"),
    ),
    Column(
        "RESIDUAL", _residual, is_number=True,
        table=ColumnPlaces(90), page=ColumnPlaces(90, wide_only=True, heading="Residual"),
    ),
    Column(
        "OF NODE", lambda row: share(row.account.residual_bytes if row.account else None, row.node.total_bytes),
        is_number=True,
        table=ColumnPlaces(100, 6),
    ),
)  # fmt: skip
