"""The table of containers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.table import Table
from rich.text import Text

from numaudit.errors import printable
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.names import display_name
from numaudit.report.values import ContainerReport, NodeBytes, Report
from numaudit.views.fit import Filled, filled_table, fit, left_out
from numaudit.views.words import UNKNOWN, judged_bytes, node_list, promised_nodes, share, size

_NODE_COLUMNS = 8
_TWO_NODES = len("N0:99.9M N1:99.9M")
_VERDICT_STYLE = {"aligned": "green", "unknown": "yellow", **dict.fromkeys(MISALIGNED, "red")}


def container_table(
    report: Report, shown: Sequence[ContainerReport], wide: bool, width: int
) -> tuple[Table, tuple[str, ...]]:
    """The table, and the titles of the columns that do not fit into this width."""
    nodes = [node.numa_node for node in report.nodes]
    kubernetes = report.kubelet is not None or any(one.pod_uid for one in shown)
    for node_columns in (_node_columns, _one_node_column):
        columns = _container_columns(node_columns(nodes), wide, kubernetes, report)
        filled = [column.filled(shown) for column in columns]
        kept, has_room = fit(filled, width)
        if has_room:
            break
    return filled_table(kept), left_out(filled, kept)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the containers' table; its title is that of `new_table`, its rank that of `fit`."""

    title: str
    cell: Callable[[ContainerReport], str | Text]
    rank: int = 0
    least: int | None = None

    def filled(self, containers: Sequence[ContainerReport]) -> Filled:
        return Filled(self.title, self.rank, [self.cell(one) for one in containers], self.least)


def _container_columns(node_columns: Sequence[Column], wide: bool, kubernetes: bool, report: Report) -> list[Column]:
    columns = [Column("CONTAINER", display_name)]
    if kubernetes:
        columns += [
            Column("QOS", lambda one: one.qos or "", 9),
            Column("PROMISED", promised_nodes, 2),
        ]
    columns += [
        Column("MEMS", lambda one: node_list(one.allowed_memory_nodes), 5),
        Column("CPUS ON", lambda one: node_list(one.allowed_cpu_nodes), 6),
        Column(">JUDGED", lambda one: size(one.judged_bytes), 3),
        *node_columns,
    ]
    if wide:
        columns += [Column(f">{kind.upper()}", partial(type_cell, kind)) for kind in ("anon", "shmem", "hugetlb")]
        if has_shared_of_others(report):
            columns.append(Column("OTHERS' SHARED", _shared_of_others))
        if kubernetes:
            columns.append(Column(">MISPLACED", misplaced_cell))
    columns += [
        Column(">FILE", partial(type_cell, "file"), 8),
        Column(">REMOTE", lambda one: _remote(one, size(one.remote_bytes)), 7),
        Column(">REMOTE%", lambda one: _remote(one, share(one.remote_bytes, one.judged_bytes)), 4),
    ]
    if has_cpu_time(report):
        columns.append(Column(">EXPECTED", lambda one: percent(one.expected_remote_ratio), 3))
        if wide:
            columns += [Column(">DISTANCE", _distance), Column(">CPU TIME", cpu_time_cell)]
    if has_counts(report):
        columns.append(Column(">COUNTED REMOTE", counted_remote_cell, 2))
        if wide:
            columns.append(Column(">STALL", _stall))
    if has_sampled_pages(report):
        columns.append(Column(">USED REMOTELY", used_remotely_cell, 2))
    if kubernetes:
        columns.append(Column("VERDICT", verdict_cell))
    if wide:
        columns += [
            Column("HINT OUTCOME", lambda one: one.hint_outcome.outcome if one.hint_outcome else ""),
            Column("KIND", lambda one: one.kind),
            Column("RUNTIME", lambda one: one.runtime or ""),
            Column("CGROUP", lambda one: printable(one.path or "")),
        ]
    return columns


def _node_columns(nodes: Sequence[int]) -> list[Column]:
    if len(nodes) > _NODE_COLUMNS:
        return _one_node_column()
    return [Column(f">N{node}", partial(_node_cell, node)) for node in nodes]


def _one_node_column(_nodes: Sequence[int] = ()) -> list[Column]:
    return [Column("~BY NODE", by_node_cell, least=_TWO_NODES)]


def _node_cell(node: int, container: ContainerReport) -> str:
    if container.resident is None:
        return UNKNOWN
    return size(sum(judged_bytes(row) for row in container.resident if row.numa_node == node))


def by_node_cell(container: ContainerReport) -> str:
    if container.resident is None:
        return UNKNOWN
    rows = [(row.numa_node, judged_bytes(row)) for row in container.resident]
    return " ".join(f"N{node}:{size(value)}" for node, value in rows if value) or "-"


def _shared_of_others(container: ContainerReport) -> str:
    if container.mappings is None or container.mappings.shared_of_others is None:
        return UNKNOWN
    by_node = container.mappings.shared_of_others
    return " ".join(f"N{node}:{size(value)}" for node, value in by_node.items()) or "-"


def type_cell(kind: str, container: ContainerReport) -> str:
    return size(_total(container.resident, kind))


def misplaced_cell(container: ContainerReport) -> str:
    """Nothing where nothing was promised."""
    if container.misplaced_bytes is None:
        return UNKNOWN if container.intended is not None and container.intended.memory_nodes else "-"
    return size(container.misplaced_bytes)


def cpu_time_cell(container: ContainerReport) -> str:
    return UNKNOWN if container.cpu_seconds is None else f"{sum(on.seconds for on in container.cpu_seconds):.1f} s"


def _remote(container: ContainerReport, text: str) -> Text:
    return Text(text, "red" if container.remote_bytes else "")


def verdict_cell(container: ContainerReport) -> Text:
    if container.verdict is None:
        return Text("")
    name = container.verdict.name
    return Text(name, _VERDICT_STYLE.get(name, ""))


def has_cpu_time(report: Report) -> bool:
    return any(one.cpu_seconds is not None for one in report.containers)


def has_counts(report: Report) -> bool:
    return any(access.counted is not None for one in report.containers for access in one.accesses)


def counted_remote_cell(container: ContainerReport) -> str:
    """The share of the accesses that were counted; ~ where a part of the count is made up for."""
    for access in container.accesses:
        if access.counted is not None:
            return f"{'~' if access.counted.multiplexed else ''}{percent(access.remote_ratio)}"
    return "-"


def _stall(container: ContainerReport) -> str:
    stall = container.remote_stall
    if stall is None or stall.share_low is None or stall.share_high is None:
        return "-"
    low, high = f"{stall.share_low:.1%}", f"{stall.share_high:.1%}"
    return f"<{high}" if low == high else f"<{low}-{high}"


def has_sampled_pages(report: Report) -> bool:
    return any(access.of == "pages" for one in report.containers for access in one.accesses)


def has_shared_of_others(report: Report) -> bool:
    return any(one.mappings is not None and one.mappings.shared_of_others for one in report.containers)


def used_remotely_cell(container: ContainerReport) -> str:
    """Bytes seen used from other nodes, of all that were seen used: `12.0M of 24.0M`."""
    for access in container.accesses:
        if access.pages is not None:
            seen = access.pages.remote_bytes + access.pages.local_bytes
            return f"{size(access.pages.remote_bytes)} of {size(seen)}"
    return UNKNOWN if any(access.of == "pages" and access.reason for access in container.accesses) else "-"


def _distance(container: ContainerReport) -> str:
    return UNKNOWN if container.distance_ratio is None else f"{container.distance_ratio:.2f}"


def percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f}%"


def _total(rows: Sequence[NodeBytes] | None, kind: str) -> int | None:
    values = [getattr(row, kind) for row in rows or ()]
    return None if not values or None in values else sum(values)
