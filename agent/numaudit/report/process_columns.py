"""The rows and columns of a container's processes, for the terminal's table, the live screen and the page.

A process has a row, and each of its thread groups that differs from its main thread's has one below it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from numaudit.report.columns import Column, ColumnPlaces
from numaudit.report.processes import ProcessesReport, ProcessReport
from numaudit.report.words import ESTIMATE, UNKNOWN, counted_share, node_list, percent, size
from numaudit.snapshot.processes import MappedMemory, ThreadGroup
from numaudit.topology.quantity import plural

MOST = 40
"""Processes that are shown."""
_LEAST_BYTES = 1 << 20
"""Mappings with less than this do not show the policy that they have of their own."""
_MOST_REASONS = 3
_NONE = "-"
Amount = TypeVar("Amount", int, float)


class ProcessRow(Struct, frozen=True):
    """A process, or one of its thread groups."""

    process: ProcessReport
    group: ThreadGroup | None
    """The group that the row is about; None = the process as a whole."""

    @property
    def threads(self) -> ThreadGroup | None:
        """The group of whose CPUs and policy the row tells."""
        return self.process.main if self.group is None else self.group

    @property
    def cpu_seconds(self) -> Mapping[int, float]:
        return self.process.cpu_seconds if self.group is None else self.group.cpu_seconds


def process_rows(report: ProcessesReport) -> list[ProcessRow]:
    """Of the processes with the most memory, in the order of their ids, which is that in which ranks were started."""
    shown = report.items
    if len(shown) > MOST:
        largest = sorted(shown, key=lambda one: -sum((one.judged_bytes or {}).values()))[:MOST]
        shown = tuple(sorted(largest, key=lambda one: one.pid))
    return [row for one in shown for row in _rows(one)]


def _rows(one: ProcessReport) -> Iterator[ProcessRow]:
    yield ProcessRow(one, None)
    for group in one.differing:
        yield ProcessRow(one, group)


def process_columns(report: ProcessesReport) -> list[Column[ProcessRow]]:
    """Those that have something to show."""
    counted, used = report.accesses_uncounted is None, report.none_used_remotely is None
    hidden = {title for title, has in (("COUNTED REMOTE", counted), ("USED REMOTELY", used)) if not has}
    return [column for column in COLUMNS if column.title not in hidden]


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _name(row: ProcessRow) -> str:
    if row.group is None:
        return row.process.process or UNKNOWN
    names = f": {', '.join(row.group.names)}" if row.group.names else ""
    return f"  {plural(row.group.threads, 'thread')}{names}"


def _threads(row: ProcessRow) -> str:
    if row.group is not None:
        return str(row.group.threads)
    return UNKNOWN if row.process.threads is None else str(row.process.threads)


def _cpus(row: ProcessRow) -> str:
    found = row.threads
    return UNKNOWN if found is None or found.cpus is None else str(found.cpus)


def _cpu_nodes(row: ProcessRow) -> str:
    found = row.threads
    return UNKNOWN if found is None else node_list(found.cpu_nodes)


def _policy(row: ProcessRow) -> str:
    """That of the threads; and of a process's mappings, where they have another one and some memory."""
    found = row.threads
    own = UNKNOWN if found is None or found.policy is None else found.policy
    if row.group is not None:
        return own
    return "; ".join([own, *(_mapped(one) for one in _with_policies(row.process))])


def _with_policies(process: ProcessReport) -> Sequence[MappedMemory]:
    """Mappings with another policy than any of its threads has."""
    of_threads = {one.policy for one in process.thread_groups}
    return [
        one
        for one in process.mappings or ()
        if one.policy not in of_threads and sum(one.bytes_by_node.values()) >= _LEAST_BYTES
    ]


def _mapped(one: MappedMemory) -> str:
    return f"{one.kind} {size(sum(one.bytes_by_node.values()))} {one.policy}"


def _of_process(text: Callable[[ProcessReport], str]) -> Callable[[ProcessRow], str]:
    """Of a process as a whole; nothing in the rows of its thread groups."""
    return lambda row: text(row.process) if row.group is None else ""


def amounts_by_node(by_node: Mapping[int, Amount], text: Callable[[Amount], str]) -> str:
    """By node, the most first."""
    largest = sorted((pair for pair in by_node.items() if pair[1]), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"N{node} {text(amount)}" for node, amount in largest) or _NONE


def _memory(process: ProcessReport) -> str:
    return UNKNOWN if process.judged_bytes is None else amounts_by_node(process.judged_bytes, size)


def _ran(row: ProcessRow) -> str:
    """Seconds by node; with a mark where they are an estimate."""
    mark = ESTIMATE if row.process.cpu_time_source == "last-cpu" else ""
    return amounts_by_node(row.cpu_seconds, lambda time: f"{mark}{time:.1f}s")


def _elsewhere(row: ProcessRow) -> str:
    if row.group is not None:
        home = None if row.process.main is None else row.process.main.cpu_nodes
        return UNKNOWN if home is None else str(sum(n for node, n in row.group.last_on.items() if node not in home))
    return UNKNOWN if row.process.threads_elsewhere is None else str(row.process.threads_elsewhere)


def _expected(process: ProcessReport) -> str:
    return percent(process.expected_remote_ratio) if any(process.cpu_seconds.values()) else _NONE


def _used_remotely(process: ProcessReport) -> str:
    used = process.used_remotely_bytes
    return _NONE if used is None else f">={size(used)}"


def _counted_remote(process: ProcessReport) -> str:
    return _NONE if process.accesses is None else counted_share(process.accesses)


COLUMNS: tuple[Column[ProcessRow], ...] = (
    Column("PID", _of_process(lambda process: str(process.pid)), is_number=True),
    Column("PROCESS", _name),
    Column("THREADS", _threads, is_number=True, table=ColumnPlaces(2, 2)),
    Column("CPUS", _cpus, folds=True, table=ColumnPlaces(3, 4)),
    Column("CPU NODES", _cpu_nodes),
    Column("POLICY", _policy, folds=True),
    Column(
        "MEMORY", _of_process(_memory), "what judges alignment; memory that processes share counts for each of them",
        folds=True,
    ),
    Column("CPU TIME", _ran, folds=True, table=ColumnPlaces(7, 1)),
    Column(
        "ELSEWHERE", _elsewhere, "threads that ran last on a node where the main thread may not run", is_number=True,
        table=ColumnPlaces(8, 3),
    ),
    Column("EXPECTED", _of_process(_expected), is_number=True),
    Column("COUNTED REMOTE", _of_process(_counted_remote), is_number=True),
    Column("USED REMOTELY", _of_process(_used_remotely), is_number=True),
)  # fmt: skip
"""From left to right."""


def notes(report: ProcessesReport, expected: float | None, basis: str | None) -> Iterator[str]:
    """The origin of the figures, and what was not read. `expected`: share of the container, on its basis."""
    more = len(report.items) - MOST
    if more > 0:
        yield f"and {_processes(more)} more with less memory; -o json has all"
    if basis == "processes":
        counted = _processes(len(report.items))
        yield f"EXPECTED of the container is the sum over its {counted}, by their CPU time: {percent(expected)}."
    elif basis == "container":
        yield f"EXPECTED of the container is of it as a whole: {percent(expected)}."
    since = "of the measurement" if report.cpu_time_since == "measurement" else "since each thread began"
    estimates = any(one.cpu_time_source == "last-cpu" for one in report.items)
    how = (
        f"; {ESTIMATE} = an estimate: all time of a thread that may run on several nodes counts for the node of its "
        "last CPU"
    )
    yield f"CPU TIME is that {since}{how if estimates else ''}."
    if report.unread is not None:
        yield f"{report.alive - len(report.items)} of {report.alive} processes were not read: {report.unread}"
    reasons: dict[tuple[str, str], int] = {}
    for one in report.items:
        for part in one.unread:
            reasons[part.what, part.reason] = reasons.get((part.what, part.reason), 0) + 1
    for (what, reason), count in list(reasons.items())[:_MOST_REASONS]:
        yield f"{what} of {_processes(count)} not read: {reason}"
    if report.accesses_uncounted is None:
        found = [one.accesses for one in report.items if one.accesses is not None]
        uncounted = Counter(one.reason for one in found if one.counted is None)
        for text, count in uncounted.most_common(_MOST_REASONS):
            yield f"accesses of {_processes(count)} not counted: {text}"
