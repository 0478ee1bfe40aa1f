"""The columns of a container's row: what the terminal's table, the live screen and the page say of each container.

Views lay them out, and compute nothing. A new column is one entry of COLUMNS; what takes more than a field of the
report is in `cells`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from numaudit.errors import printable
from numaudit.evaluation.verdicts import severity
from numaudit.report import cells
from numaudit.report.cells import Tone
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name, node_list, promised_nodes, share, size

Row = TypeVar("Row")
ViewName = Literal["table", "top", "page"]


class ColumnPlaces(Struct, frozen=True):
    """Position of a column in a view."""

    at: int
    """From the left; the numbers leave room for others."""
    leaves: int = 0
    """Order in which columns are dropped for lack of room: the highest number first; 0 = the column always stays."""
    leaves_unpromised: int | None = None
    """The same where nothing can be promised; None = the same number."""
    wide_only: bool = False
    """Only in `-o wide`; on a page, folded."""
    heading: str | None = None
    """Title of the column in the view; None = by its title."""


class Column(Struct, Generic[Row], frozen=True):
    """One figure of every container, or of every node."""

    title: str
    text: Callable[[Row], str]
    help: str = ""
    """Explanation: the end of `TITLE = ...`. Empty = a view says nothing of it; docs/report.md explains all."""
    value: Callable[[Row], float | None] | None = None
    """Value by which rows are sorted, where None is not known; no function = by the text."""
    sort: str | None = None
    """The word for --sort, which puts the largest first."""
    tone: Callable[[Row], Tone | None] | None = None
    is_number: bool = False
    needs: Callable[[Report], bool] | None = None
    """Returns True when there is something to show. The page has all its columns always: its script knows them by
    number."""
    of_node: Callable[[int, Row], str] | None = None
    """The part of one node, where a view can show one column for each."""
    folds: bool = False
    """May its text go on in a second line?"""
    least: int | None = None
    """Width at which such a text can still be read; None = all of it has to have room, or other columns leave."""
    table: ColumnPlaces | None = None
    top: ColumnPlaces | None = None
    page: ColumnPlaces | None = None

    def heading(self, place: ColumnPlaces) -> str:
        return self.title if place.heading is None else place.heading

    def page_heading(self, place: ColumnPlaces) -> str:
        """As sentences begin, but for abbreviations."""
        sentence = re.sub("Pid|[Cc]pu", lambda found: found[0].upper(), self.title.capitalize())
        return sentence if place.heading is None else place.heading


Placed = tuple[Column[Row], ColumnPlaces]
"""A column, and its position in one view."""


def columns_of(view: ViewName, report: Report | None = None, *, wide: bool = False) -> list[Placed[ContainerReport]]:
    """The columns of a view's containers, as `placed` has them."""
    return placed(COLUMNS, view, report, wide=wide)


def placed(
    columns: Iterable[Column[Row]], view: ViewName, report: Report | None = None, *, wide: bool = False
) -> list[Placed[Row]]:
    """The columns of a view from left to right; with a report, those that have something to show."""
    shown = (column for column in columns if report is None or column.needs is None or column.needs(report))
    here = ((column, getattr(column, view)) for column in shown)
    found = [(column, place) for column, place in here if place is not None and (wide or not place.wide_only)]
    return sorted(found, key=lambda pair: pair[1].at)


def everywhere(columns: Iterable[Column[Row]]) -> list[Placed[Row]]:
    """Of a table that is the same in every view: columns in their order, with their place in the terminal's table."""
    return [(column, column.table or ColumnPlaces(at)) for at, column in enumerate(columns)]


def explained(columns: Iterable[Placed[Row]]) -> Iterator[tuple[str, str]]:
    """Heading and explanation of each column that needs one."""
    return ((column.heading(place), column.help) for column, place in columns if column.help)


def can_promise(report: Report) -> bool:
    """Is there a kubelet, or a pod?"""
    return report.kubelet is not None or any(one.pod_uid for one in report.containers)


def _any(has: Callable[[ContainerReport], object]) -> Callable[[Report], bool]:
    """Has a container of the report this?"""
    return lambda report: any(map(has, report.containers))


_has_cpu_time = _any(lambda one: one.cpu_seconds is not None)
_has_counts = _any(lambda one: any(access.counted is not None for access in one.accesses))


def _remote_tone(one: ContainerReport) -> Tone | None:
    return "bad" if one.remote_bytes else None


_EXPECTED = (
    "share of accesses that would be remote if all judged bytes were used equally from the CPUs where it ran "
    "(residence x CPU time); of the container as a whole, unless its processes were read and add up"
)

COLUMNS: tuple[Column[ContainerReport], ...] = (
    Column(
        "CONTAINER", display_name,
        table=ColumnPlaces(0), top=ColumnPlaces(0), page=ColumnPlaces(0, heading="Container"),
    ),
    Column(
        "QOS", lambda one: one.qos or "", needs=can_promise,
        table=ColumnPlaces(10, 9), top=ColumnPlaces(30, 9), page=ColumnPlaces(90, heading="QoS"),
    ),
    Column(
        "VERDICT", cells.verdict, value=lambda one: severity(one.verdict), tone=cells.verdict_tone, needs=can_promise,
        table=ColumnPlaces(200), top=ColumnPlaces(10), page=ColumnPlaces(10, heading="Verdict"),
    ),
    Column(
        "WHY", cells.why, "the evidence for the verdict, in a few words",
        value=lambda one: severity(one.verdict), needs=can_promise,
        table=ColumnPlaces(205), top=ColumnPlaces(15),
    ),
    Column(
        "PROMISED", promised_nodes, "nodes that the kubelet promised to it", needs=can_promise,
        table=ColumnPlaces(20, 2), top=ColumnPlaces(20, 3), page=ColumnPlaces(30, heading="Promised"),
    ),
    Column(
        "ALLOWED", lambda one: node_list(one.allowed_memory_nodes), "nodes that its memory may be on",
        table=ColumnPlaces(30, 5), top=ColumnPlaces(40, 6, 1), page=ColumnPlaces(100, heading="Allowed"),
    ),
    Column(
        "CPU NODES", lambda one: node_list(one.allowed_cpu_nodes), "nodes of the CPUs that it may use",
        table=ColumnPlaces(40, 6), top=ColumnPlaces(50, 7, 1), page=ColumnPlaces(50, heading="CPU nodes"),
    ),
    Column(
        "JUDGED", lambda one: size(one.judged_bytes), "anon + shmem + hugetlb",
        value=lambda one: one.judged_bytes, sort="judged", is_number=True,
        table=ColumnPlaces(50, 3), top=ColumnPlaces(60, 2), page=ColumnPlaces(60, heading="Judged"),
    ),
    Column(
        "BY NODE", cells.by_node, value=cells.home, of_node=cells.on_node,
        table=ColumnPlaces(60), top=ColumnPlaces(140, 8), page=ColumnPlaces(20, heading="By node"),
    ),
    Column("ANON", partial(cells.type_size, "anon"), is_number=True, table=ColumnPlaces(70, wide_only=True)),
    Column("SHMEM", partial(cells.type_size, "shmem"), is_number=True, table=ColumnPlaces(71, wide_only=True)),
    Column("HUGETLB", partial(cells.type_size, "hugetlb"), is_number=True, table=ColumnPlaces(72, wide_only=True)),
    Column(
        "HUGE PAGES", cells.huge_pages, "used of promised huge pages by size, and what is not on the promised nodes",
        needs=_any(lambda one: one.huge_pages), table=ColumnPlaces(73, wide_only=True),
    ),
    Column(
        "POLICY", cells.policy, "memory policies of its processes, those with the most bytes first",
        needs=_any(lambda one: one.mappings is not None), table=ColumnPlaces(74, wide_only=True),
    ),
    Column(
        "MISPLACED", cells.misplaced, "judged bytes on nodes that were not promised",
        value=lambda one: one.misplaced_bytes, sort="misplaced",
        tone=lambda one: "bad" if one.misplaced_bytes else None, is_number=True, needs=can_promise,
        table=ColumnPlaces(90, wide_only=True), top=ColumnPlaces(70, 1), page=ColumnPlaces(70, heading="Misplaced"),
    ),
    Column(
        "REMOTE", lambda one: size(one.remote_bytes), "judged bytes on nodes that have none of the allowed CPUs",
        value=lambda one: one.remote_bytes, sort="remote", tone=_remote_tone, is_number=True,
        table=ColumnPlaces(110), top=ColumnPlaces(80, 3, 0),
    ),
    Column(
        "REMOTE%", lambda one: share(one.remote_bytes, one.judged_bytes), tone=_remote_tone, is_number=True,
        table=ColumnPlaces(120, 4),
    ),
    Column(
        "REMOTE, REMOTE%", cells.remote_with_share, "judged bytes on nodes that have none of the allowed CPUs",
        value=lambda one: one.remote_bytes, tone=_remote_tone, is_number=True,
        page=ColumnPlaces(80, heading="Remote"),
    ),
    Column(
        "FILE", partial(cells.type_size, "file"),
        value=partial(cells.bytes_of_type, "file"), sort="file", is_number=True,
        table=ColumnPlaces(100, 8), top=ColumnPlaces(150, 10),
    ),
    Column(
        "EXPECTED", cells.expected, _EXPECTED,
        value=lambda one: one.expected_remote_ratio, is_number=True,
        needs=_any(lambda one: one.cpu_seconds is not None or one.expected_basis is not None),
        table=ColumnPlaces(130, 3),
    ),
    Column(
        "EXPECTED", cells.expected, _EXPECTED,
        value=lambda one: one.expected_remote_ratio, is_number=True, needs=_has_cpu_time,
        top=ColumnPlaces(110, 5),
    ),
    Column(
        "DISTANCE", cells.distance,
        "mean NUMA distance from the CPUs where it ran to its judged bytes, divided by 10; 1.00 = all local, ? = no "
        "CPU time, or no distance",
        value=lambda one: one.distance_ratio, is_number=True, needs=_has_cpu_time,
        table=ColumnPlaces(140, wide_only=True),
    ),
    Column(
        "CPU REMOTE", cells.cpu_off, "share of its CPU time on nodes that were not promised, since the first tick",
        is_number=True, needs=lambda report: can_promise(report) and _has_cpu_time(report),
        top=ColumnPlaces(120, 4),
    ),
    Column(
        "CPU TIME", cells.cpu_time_by_node,
        "by node, since the measurement began or between a capture's two readings; ~ = an estimate by the last CPU of "
        "each thread",
        value=cells.cpu_seconds, needs=_has_cpu_time,
        table=ColumnPlaces(150, 6),
    ),
    Column(
        "CPU TIME", cells.cpu_time, value=cells.cpu_seconds, sort="cpu", is_number=True, needs=_has_cpu_time,
        top=ColumnPlaces(130, 8),
    ),
    Column(
        "COUNTED REMOTE", cells.counted_remote,
        "share of memory accesses to another node, as the processor counts them; - = it did not run, ? = too few, or "
        "not counted, ~ = another tool used the counters for a part of the time",
        is_number=True, needs=_has_counts,
        table=ColumnPlaces(160, 2), top=ColumnPlaces(90, 2, heading="ACCESSED"),
    ),
    Column(
        "STALL", cells.stall,
        "upper bound of the share of its CPU time spent waiting for remote memory; cores overlap accesses. Two figures "
        "= by the nearest and by the farthest node",
        is_number=True, needs=_has_counts,
        table=ColumnPlaces(170, wide_only=True),
    ),
    Column(
        "USED REMOTELY", cells.used_remotely,
        "memory that the kernel saw used from another node's CPUs, at least (NUMA hint faults of one scan pass). It "
        "shows which pages are used, not how often; ? = it saw none, which proves nothing",
        is_number=True, needs=_any(lambda one: any(access.used_remotely is not None for access in one.accesses)),
        table=ColumnPlaces(180, 2), top=ColumnPlaces(100, 2),
    ),
    Column(
        "ACCESSES", cells.measured, value=lambda one: None if one.measured is None else one.measured.lower,
        page=ColumnPlaces(85, heading="Accesses"),
    ),
    Column(
        "OTHERS' SHARED", cells.shared_of_others,
        "shared memory that it maps but that is charged to other containers, whose rows show it; a lower bound. It "
        "counts in EXPECTED and DISTANCE, not in JUDGED",
        needs=_any(lambda one: one.mappings is not None and one.mappings.shared_of_others),
        table=ColumnPlaces(80, wide_only=True),
    ),
    Column(
        "HINT OUTCOME", lambda one: one.hint_outcome.outcome if one.hint_outcome else "",
        table=ColumnPlaces(210, wide_only=True),
    ),
    Column("KIND", lambda one: one.kind, table=ColumnPlaces(220, wide_only=True)),
    Column("RUNTIME", lambda one: one.runtime or "", table=ColumnPlaces(230, wide_only=True)),
    Column("CGROUP", lambda one: printable(one.path or ""), table=ColumnPlaces(240, wide_only=True)),
)  # fmt: skip
"""In the order in which a view explains them and --sort lists its words; `ColumnPlaces` has the order of cells."""
