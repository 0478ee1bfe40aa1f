"""One tick's numbers, evaluated once from the catalogue. Every exporter sends these and computes none itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Any

from msgspec import Struct, field

from numaudit.exporters.catalogue import CONTAINER_METRICS, LIVE_METRICS, TICK_METRICS
from numaudit.exporters.facts import ExportedTick, Live
from numaudit.exporters.metric import IDENTITY, Columns, Metric, Number, Since
from numaudit.exporters.selection import Omitted, SeriesLimit
from numaudit.exporters.series import ContainerName, Labels, Series

Point = tuple[ContainerName | None, Labels, Number]
"""The container (None = the series belongs to none), the values of the row's labels, the number."""


class SeriesBlock(Struct, frozen=True, gc=False):
    """The points of one container in one family; without a container (key None), all of the family."""

    key: ContainerName | None
    labels: tuple[Labels, ...]
    numbers: tuple[Number, ...]


class MetricFamily(Struct, frozen=True):
    """One metric family with all its points; most come in blocks whose numbers alone differ from tick to tick."""

    metric: Metric[Any]
    blocks: Sequence[SeriesBlock]
    size: int
    """The number of its points."""

    @classmethod
    def of(cls, metric: Metric[Any], blocks: Sequence[SeriesBlock]) -> MetricFamily:
        """Count its points."""
        return cls(metric, blocks, sum([len(block.numbers) for block in blocks]))

    @property
    def points(self) -> Iterator[Point]:
        for block in self.blocks:
            for own, number in zip(block.labels, block.numbers, strict=True):
                yield block.key, own, number

    def __len__(self) -> int:
        return self.size


class Exposition(Struct, frozen=True):
    """Families in the catalogue's order, and since when counters count."""

    families: tuple[MetricFamily, ...] = ()
    since: Mapping[Since, float | None] = field(default_factory=dict)
    created: Mapping[ContainerName, float] = field(default_factory=dict)
    omitted: Omitted = Omitted()
    """Series that `max_series` left out."""
    taken_at: float | None = None
    """Time when the numbers were measured, in seconds since the epoch; None = now."""

    def created_at(self, metric: Metric[Any], key: ContainerName | None) -> float | None:
        """Since when this counter counts, in seconds since the epoch; None = not known."""
        if metric.since == "container" and key is not None:
            return self.created.get(key)
        return None if metric.since is None else self.since.get(metric.since)

    @property
    def series(self) -> int:
        return sum(map(len, self.families))


def evaluate_containers(
    series: Sequence[Series], kept_labels: Sequence[str] = IDENTITY, limit: SeriesLimit | None = None
) -> Exposition:
    """The container families. What is over the limit is left out; the series come in order of importance."""
    families = [_container_family(row, series) for row in CONTAINER_METRICS]
    created: Mapping[ContainerName, float] = {one.key: one.created for one in series}
    order = [*created]
    if set(kept_labels) != set(IDENTITY):
        shorten = _shortener(kept_labels)
        families = [_merge(family, shorten) for family in families if family.metric.merged is not None]
        created = _earliest(created, shorten)
        order = [*dict.fromkeys(map(shorten, order))]
    omitted = Omitted()
    if limit is not None:
        families, omitted = _limited(families, limit, order)
    return Exposition(tuple(families), {}, created, omitted)


def _container_family(row: Metric[Any], series: Sequence[Series]) -> MetricFamily:
    name, values = row.name, row.values
    if row.is_counter:
        found = [(one.key, had) for one in series if (had := one.totals.get(name)) is not None]
    else:  # most have nothing
        found = [(one.key, Columns.of(seen)) for one in series if (seen := values(one.report))]
    return MetricFamily.of(row, [SeriesBlock(key, of.labels, of.numbers) for key, of in found if of.numbers])


def evaluate_tick(tick: ExportedTick, containers: Exposition) -> Exposition:
    """All families of one tick: the containers' and the node's and agent's own."""
    own = [_own_family(metric, tick) for metric in TICK_METRICS]
    since: dict[Since, float | None] = {"agent": tick.started_at, "boot": tick.booted_at}
    families = tuple(family for family in (*containers.families, *own) if family.blocks)
    return Exposition(families, since, containers.created, containers.omitted, tick.report.taken_at)


def evaluate_live(live: Live, started_at: float) -> Exposition:
    """Metrics that are true at this moment."""
    families = [_own_family(metric, live) for metric in LIVE_METRICS]
    return Exposition(tuple(family for family in families if family.blocks), {"agent": started_at})


def _own_family(metric: Metric[Any], subject: ExportedTick | Live) -> MetricFamily:
    columns = tuple(zip(*metric.values(subject), strict=True))
    return MetricFamily.of(metric, (SeriesBlock(None, *columns),) if columns else ())


def _shortener(kept_labels: Sequence[str]) -> Callable[[ContainerName], ContainerName]:
    keep = tuple(name in kept_labels for name in IDENTITY)

    def shorten(key: ContainerName) -> ContainerName:
        return (key[0] if keep[0] else "", key[1] if keep[1] else "", key[2] if keep[2] else "")

    return shorten


def _merge(family: MetricFamily, shorten: Callable[[ContainerName], ContainerName]) -> MetricFamily:
    """Add up (or take the largest of) the series that have become one."""
    merged: dict[ContainerName | None, dict[Labels, Number]] = {}
    join: Callable[[Number, Number], Number] = add if family.metric.merged == "sum" else max
    for key, labels, value in family.points:
        row = merged.setdefault(None if key is None else shorten(key), {})
        row[labels] = join(row[labels], value) if labels in row else value
    return MetricFamily.of(
        family.metric, [SeriesBlock(key, tuple(row), tuple(row.values())) for key, row in merged.items()]
    )


def _earliest(
    created: Mapping[ContainerName, float], shorten: Callable[[ContainerName], ContainerName]
) -> dict[ContainerName, float]:
    found: dict[ContainerName, float] = {}
    for key, at in created.items():
        short = shorten(key)
        found[short] = min(at, found.get(short, at))
    return found


def _counts(families: Iterable[MetricFamily]) -> Counter[ContainerName]:
    counts: Counter[ContainerName] = Counter()
    for family in families:
        for block in family.blocks:
            if block.key is not None:
                counts[block.key] += len(block.numbers)
    return counts


def _limited(
    families: list[MetricFamily], limit: SeriesLimit, order: Sequence[ContainerName]
) -> tuple[list[MetricFamily], Omitted]:
    if sum(map(len, families)) <= limit.most:
        return families, limit.choose_all(order)
    chosen, omitted = limit.choose(order, _counts(families))
    if not omitted.containers:
        return families, omitted
    return [
        MetricFamily.of(one.metric, [block for block in one.blocks if block.key in chosen]) for one in families
    ], omitted
