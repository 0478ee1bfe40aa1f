"""One tick's numbers, evaluated once from the catalogue. Every exporter sends these and computes none itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numaudit.exporters.facts import Live, Tick
from numaudit.exporters.metric import IDENTITY, Metric, Number, Since
from numaudit.exporters.metrics import CONTAINER_METRICS, LIVE_METRICS, TICK_METRICS
from numaudit.exporters.series import Key, Labels, Series

Point = tuple[Key | None, Labels, Number]
"""The container (None = the series is no container's), the values of the row's labels, the number."""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family with all its points."""

    metric: Metric[Any]
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Exposition:
    """Families in the catalogue's order, and since when counters count."""

    families: tuple[Family, ...] = ()
    since: Mapping[Since, float | None] = field(default_factory=dict)
    created: Mapping[Key, float] = field(default_factory=dict)
    dropped: int = 0
    """Series left out of this one by `max_series`."""

    def created_at(self, metric: Metric[Any], key: Key | None) -> float | None:
        """Since when this counter counts, in seconds since the epoch; None = not known."""
        if metric.since == "container" and key is not None:
            return self.created.get(key)
        return None if metric.since is None else self.since.get(metric.since)

    @property
    def series(self) -> int:
        return sum(len(family.points) for family in self.families)


def evaluate_containers(
    series: Sequence[Series], kept_labels: Sequence[str] = IDENTITY, max_series: int | None = None
) -> Exposition:
    """The container families. Over `max_series`, the last containers of the given order are left out whole."""
    families = [_container_family(metric, series) for metric in CONTAINER_METRICS]
    created = {one.key: one.created for one in series}
    if set(kept_labels) != set(IDENTITY):
        shorten = _shortener(kept_labels)
        families = [_merge(family, shorten) for family in families if family.metric.merged is not None]
        created = _earliest(created, shorten)
    dropped = 0
    if max_series is not None and sum(len(family.points) for family in families) > max_series:
        families, dropped = _cut(families, list(created), max_series)
    return Exposition(tuple(families), {}, created, dropped)


def evaluate_tick(tick: Tick, containers: Exposition) -> Exposition:
    """All families of one tick: the containers' and the node's and agent's own."""
    own = [Family(metric, [(None, *point) for point in metric.values(tick)]) for metric in TICK_METRICS]
    since: dict[Since, float | None] = {"agent": tick.started_at, "boot": tick.booted_at}
    families = tuple(family for family in (*containers.families, *own) if family.points)
    return Exposition(families, since, containers.created, containers.dropped)


def evaluate_live(live: Live, started_at: float) -> Exposition:
    """What is true at this moment."""
    families = [Family(metric, [(None, *point) for point in metric.values(live)]) for metric in LIVE_METRICS]
    return Exposition(tuple(family for family in families if family.points), {"agent": started_at})


def _container_family(metric: Metric[Any], series: Sequence[Series]) -> Family:
    points: list[Point] = []
    if metric.is_counter:
        for one in series:
            points += [(one.key, labels, count) for labels, count in one.totals.get(metric.name, {}).items()]
    else:
        values = metric.values
        points = [(one.key, labels, value) for one in series for labels, value in values(one.report)]
    return Family(metric, points)


def _shortener(kept_labels: Sequence[str]) -> Callable[[Key], Key]:
    keep = tuple(name in kept_labels for name in IDENTITY)

    def shorten(key: Key) -> Key:
        return (key[0] if keep[0] else "", key[1] if keep[1] else "", key[2] if keep[2] else "")

    return shorten


def _merge(family: Family, shorten: Callable[[Key], Key]) -> Family:
    """Add up (or take the largest of) the series that have become one."""
    merged: dict[tuple[Key | None, Labels], Number] = {}
    for key, labels, value in family.points:
        short = None if key is None else shorten(key)
        before = merged.get((short, labels))
        if before is None:
            merged[short, labels] = value
        else:
            merged[short, labels] = before + value if family.metric.merged == "sum" else max(before, value)
    return Family(family.metric, [(key, labels, value) for (key, labels), value in merged.items()])


def _earliest(created: Mapping[Key, float], shorten: Callable[[Key], Key]) -> dict[Key, float]:
    found: dict[Key, float] = {}
    for key, at in created.items():
        short = shorten(key)
        found[short] = min(at, found.get(short, at))
    return found


def _cut(families: Iterable[Family], order: Sequence[Key], max_series: int) -> tuple[list[Family], int]:
    families = list(families)
    counts: dict[Key | None, int] = {}
    for family in families:
        for key, _, _ in family.points:
            counts[key] = counts.get(key, 0) + 1
    kept: set[Key | None] = set()
    room = max_series
    for key in order:
        room -= counts.get(key, 0)
        if room < 0:
            break
        kept.add(key)
    dropped = sum(count for key, count in counts.items() if key not in kept)
    return [
        Family(family.metric, [point for point in family.points if point[0] in kept]) for family in families
    ], dropped
