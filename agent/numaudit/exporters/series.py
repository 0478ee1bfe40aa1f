"""The container series: one for each (namespace, pod, container), whatever restarts.

Gauges show the newest instance. Counters add up what all instances have counted, so they never fall.
A container that ended is kept until the next two scrapes have seen its last values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import lt

from msgspec import Struct, field

from numaudit.exporters.catalogue import CONTAINER_METRICS
from numaudit.exporters.metric import Columns, Metric, Number
from numaudit.report.values import ContainerReport

ContainerName = tuple[str, str, str]
"""namespace, pod, container."""
Labels = tuple[str, ...]
Instance = tuple[int, str]
"""cgroup id and path: an id may come again, but not for the same cgroup. (0, "") = it does not run now."""

SANDBOX = "POD"
"""The container name of a pod's sandbox, as in cAdvisor. No real container may be called so."""

REST = "(rest)"
"""The container name of what a pod's own cgroup holds: no total of the pod, which cAdvisor gives an empty name."""

ENDED_FOR_FETCHES = 2
"""By each output: two scrapers of a pair must both see it."""
ENDED_FOR_TICKS = 20
"""Ticks after which an ended series is dropped when nothing fetches it."""


class Series(Struct, frozen=True):
    """One container as the exporters show it."""

    key: ContainerName
    report: ContainerReport
    """The newest instance's."""
    totals: Mapping[str, Columns]
    """Counter's name -> counts of all instances so far by label values."""
    created: float
    """Since when the counters count, in seconds since the epoch."""
    ended: bool


class _Entry(Struct):
    created: float
    report: ContainerReport
    instances: dict[Instance, dict[str, Columns]] = field(default_factory=dict)
    """The last counts of each instance that lives."""
    carried: dict[str, dict[Labels, Number]] = field(default_factory=dict)
    """The last counts of those that ended."""
    largest: dict[str, frozenset[Labels]] = field(default_factory=dict)
    """Counter -> the label values that have a series of their own. They keep it, since no counter may fall."""
    ended_at: tuple[Sequence[int], int] | None = None
    """Fetches and ticks so far when the last instance ended."""


def key_of(one: ContainerReport) -> ContainerName:
    """Name of a container in series. As long as a name is not known, it goes by its cgroup path."""
    if one.pod is not None:
        if one.container is not None:
            return (one.namespace or "", one.pod, one.container)
        if one.kind == "sandbox":
            return (one.namespace or "", one.pod, SANDBOX)
        if one.kind == "pod":
            return (one.namespace or "", one.pod, REST)
    return ("", "", one.path or "")


def _instance(one: ContainerReport) -> Instance:
    return (one.id or 0, one.path or "")


@dataclass(slots=True)
class SeriesTracker:
    """Remembers each series from tick to tick. Its size follows the containers that live or just ended."""

    counters: Sequence[Metric[ContainerReport]] = tuple(row for row in CONTAINER_METRICS if row.is_counter)
    most_ended: int = 1000
    forgotten: int = 0
    """Ended containers that gave way before every output had them, since start."""
    began: float | None = None
    """Since when a container that is new counts, in seconds since the epoch: the agent's start, then the newest tick.
    None = with the tick that first saw it."""
    _entries: dict[ContainerName, _Entry] = dataclasses.field(default_factory=dict)
    _ticks: int = 0
    _bounded: Sequence[tuple[Metric[ContainerReport], int]] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self._bounded = [(row, row.largest) for row in self.counters if row.largest is not None]

    def update(
        self,
        containers: Iterable[ContainerReport],
        taken_at: float,
        fetches: Sequence[int],
        ended: Iterable[ContainerReport] = (),
    ) -> list[Series]:
        """Take in one tick; what to export, in the order given, the ended ones last.

        `fetches` is how often each output has been given the values since start; `ended` are containers that
        were there in the tick before, with the counts that they ended with.
        """
        self._ticks += 1
        for one in ended:
            last = self._entries.get(key_of(one))
            if last is not None and _instance(one) in last.instances:
                self._count(last, last.instances[_instance(one)], one)
        alive: dict[ContainerName, dict[Instance, ContainerReport]] = {}
        for one in containers:
            alive.setdefault(key_of(one), {})[_instance(one)] = one
        for key, reports in alive.items():
            entry = self._entries.get(key)
            if entry is None:
                created = taken_at if self.began is None else self.began
                entry = self._entries[key] = _Entry(created, next(iter(reports.values())))
            self._take_in(entry, reports)
        self.began = taken_at
        self._end(alive, fetches)
        gone = [key for key in self._entries if key not in alive]
        return [self._series(key, self._entries[key]) for key in (*alive, *gone)]

    def _series(self, key: ContainerName, entry: _Entry) -> Series:
        if len(entry.instances) == 1 and not entry.carried:
            (counts,) = entry.instances.values()
            totals = counts.copy()
        else:
            sums = {name: dict(by_labels) for name, by_labels in entry.carried.items()}
            for counts in entry.instances.values():
                _carry(sums, counts)
            totals = {name: Columns.of(by_labels.items()) for name, by_labels in sums.items()}
        for row, most in self._bounded:
            counted = totals.get(row.name)
            if counted is None:
                continue
            if len(counted.labels) > most:
                totals[row.name] = Columns.of(_largest(row, most, dict(counted), entry.largest).items())
            elif len(counted.labels) != len(entry.largest.get(row.name, ())):
                entry.largest[row.name] = frozenset(counted.labels)
        return Series(key, entry.report, totals, entry.created, entry.ended_at is not None)

    def _take_in(self, entry: _Entry, now: Mapping[Instance, ContainerReport]) -> None:
        entry.ended_at = None
        entry.report = _newest(now, entry)
        if entry.instances.keys() != now.keys():
            for gone in entry.instances.keys() - now.keys():
                _carry(entry.carried, entry.instances.pop(gone))
            for instance in now:
                entry.instances.setdefault(instance, {})
        for instance, one in now.items():
            self._count(entry, entry.instances[instance], one)

    def _count(self, entry: _Entry, last: dict[str, Columns], one: ContainerReport) -> None:
        for row in self.counters:
            name, values = row.name, row.values(one)
            before = last.get(name)
            if not values and before is None:
                continue  # most count nothing of most containers
            counts = Columns.of(values)
            if before is None:
                if counts.labels:
                    last[name] = counts
            elif counts.labels == before.labels:
                if any(map(lt, counts.numbers, before.numbers)):
                    _carry_what_fell(entry.carried, name, before, counts)
                last[name] = counts
            elif counts.labels:
                _carry_what_fell(entry.carried, name, before, counts)
                last[name] = Columns.of({**dict(before), **dict(counts)}.items())

    def _end(self, alive: Mapping[ContainerName, Mapping[Instance, ContainerReport]], fetches: Sequence[int]) -> None:
        """Mark what ended, and forget what was kept long enough."""
        over = [(key, entry) for key, entry in self._entries.items() if key not in alive]
        living = {instance for reports in alive.values() for instance in reports} if over else set()
        ended: list[tuple[int, int, ContainerName]] = []
        for key, entry in over:
            if not living.isdisjoint(entry.instances):  # it lives on under a better name
                del self._entries[key]
                continue
            fetched, ticks = entry.ended_at = entry.ended_at or (fetches, self._ticks)
            had = [count - before for before, count in zip(fetched, fetches, strict=True) if count]
            if min(had, default=0) >= ENDED_FOR_FETCHES or self._ticks - ticks >= ENDED_FOR_TICKS:
                del self._entries[key]
                continue
            ended.append((had.count(0) if had else 1, ticks, key))
        self._make_room(ended)

    def _make_room(self, ended: list[tuple[int, int, ContainerName]]) -> None:
        """Forget what is too many: first what the fewest outputs in use still lack, of those what ended first."""
        for lacking, _, key in sorted(ended)[: max(0, len(ended) - self.most_ended)]:
            del self._entries[key]
            self.forgotten += lacking > 0


def _newest(now: Mapping[Instance, ContainerReport], entry: _Entry) -> ContainerReport:
    """The one that was not there before; else the highest cgroup id, since the kernel counts upwards."""
    if len(now) == 1:
        return next(iter(now.values()))
    return now[max(now, key=lambda instance: (instance not in entry.instances, instance))]


def _carry(carried: dict[str, dict[Labels, Number]], counts: Mapping[str, Columns]) -> None:
    for name, columns in counts.items():
        sums = carried.setdefault(name, {})
        for labels, count in columns:
            sums[labels] = sums.get(labels, 0) + count


def _carry_what_fell(carried: dict[str, dict[Labels, Number]], name: str, before: Columns, counts: Columns) -> None:
    """The source of what fell began again at 0; what it had counted stays counted."""
    now = dict(counts)
    fell = {labels: had for labels, had in before if now.get(labels, had) < had}
    if fell:
        _carry(carried, {name: Columns.of(fell.items())})


def _largest(
    row: Metric[ContainerReport], most: int, counts: Mapping[Labels, Number], kept: dict[str, frozenset[Labels]]
) -> dict[Labels, Number]:
    """The largest counts under their own labels, the others added up.

    Who has a series keeps it, and the others' sum stays one of the same points: otherwise either would fall.
    """
    own = kept.get(row.name, frozenset())
    if len(own) < most:
        others = sorted((labels for labels in counts if labels not in own), key=lambda labels: -counts[labels])
        own = kept[row.name] = own | set(others[: most - len(own)])
    found: dict[Labels, Number] = {labels: count for labels, count in counts.items() if labels in own}
    for labels, count in counts.items():
        if labels not in own:
            rest = row.rest(labels)
            found[rest] = found.get(rest, 0) + count
    return found
