"""The points of all containers, family by family. What is as it was in the last tick is not worked out again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, NamedTuple

from numaudit.exporters.catalogue import CONTAINER_METRICS
from numaudit.exporters.metric import Columns, Metric, Number
from numaudit.exporters.series import Key, Labels, Series

_READ = tuple(sorted({name for row in CONTAINER_METRICS for name in row.reads}))
_read = attrgetter(*_READ)
_Points = tuple[tuple[Labels, ...], tuple[Number, ...]]


class SeriesBlock(NamedTuple):
    """The points of one container in one family; without a container (key None), all of the family."""

    key: Key | None
    labels: tuple[Labels, ...]
    numbers: tuple[Number, ...]


class _Change(NamedTuple):
    """A changed value of one series. Many series have the same change."""

    differs: tuple[bool, ...]
    """For each of the fields that gauges read, True when it differs."""
    counters: tuple[str, ...]
    """Those that it has or had."""


class Evaluated(NamedTuple):
    """The container families of one tick."""

    series: Mapping[Key, Series]
    """In the order in which they are exported."""
    columns: tuple[Sequence[SeriesBlock | None], ...]
    """For each family of the catalogue the block of each series; None = it has no points there."""


NOTHING = Evaluated({}, ((),) * len(CONTAINER_METRICS))


def evaluate(series: Sequence[Series], last: Evaluated = NOTHING) -> Evaluated:
    """All blocks. Who was there in the last tick keeps its place, and what did not change stays the very same value."""
    now = {one.key: one for one in series}
    columns = last.columns
    if now.keys() != last.series.keys():
        places = {key: place for place, key in enumerate(last.series)}
        now = {
            key: now[key]
            for key in (*[key for key in places if key in now], *[key for key in now if key not in places])
        }
        come = [None] * len(now.keys() - places.keys())
        stay = [places[key] for key in now if key in places]
        columns = tuple([[*[column[place] for place in stay], *come] for column in columns])
    else:
        now = {key: now[key] for key in last.series}
    changed: dict[_Change, list[tuple[int, Series]]] = {}
    for place, (key, one) in enumerate(now.items()):
        before = last.series.get(key)
        if one is not before:
            changed.setdefault(_change(one, before), []).append((place, one))
    for change, which in changed.items():
        rows = _rows(change)
        columns = tuple(
            [
                _column(row, column, which) if place in rows else column
                for place, (row, column) in enumerate(zip(CONTAINER_METRICS, columns, strict=True))
            ]
        )
    return Evaluated(now, columns)


def _column(
    row: Metric[Any], column: Sequence[SeriesBlock | None], stale: Sequence[tuple[int, Series]]
) -> Sequence[SeriesBlock | None]:
    """With the blocks of those that changed; the same value when they turn out to be as they were."""
    points = _of_counter(row.name) if row.is_counter else _of_gauge(row)
    found: list[SeriesBlock | None] | None = None
    for place, one in stale:
        labels, numbers = points(one)
        last = column[place]
        if last is not None and last.labels == labels:
            if last.numbers == numbers:
                continue
            labels = last.labels
        elif last is None and not numbers:
            continue
        found = [*column] if found is None else found
        found[place] = SeriesBlock(one.key, labels, numbers) if numbers else None
    return column if found is None else found


def _of_counter(name: str) -> Callable[[Series], _Points]:
    def points(one: Series) -> _Points:
        counts = one.totals.get(name, {})
        return tuple(counts), tuple(counts.values())

    return points


def _of_gauge(row: Metric[Any]) -> Callable[[Series], _Points]:
    values = row.values

    def points(one: Series) -> _Points:
        found = values(one.report)
        return (found.labels, found.numbers) if isinstance(found, Columns) else _columns(found)

    return points


def _columns(found: Iterable[tuple[Labels, Number]]) -> _Points:
    labels, numbers = tuple(zip(*found, strict=True)) or ((), ())
    return labels, numbers


def _change(now: Series, before: Series | None) -> _Change:
    if before is None:
        return _Change((True,) * len(_READ), tuple(now.totals))
    differs = tuple(map(is_not, _read(now.report), _read(before.report)))
    return _Change(differs, (*now.totals, *[name for name in before.totals if name not in now.totals]))


@lru_cache(maxsize=1024)
def _rows(change: _Change) -> frozenset[int]:
    """Places in the catalogue: of gauges that read a field that is another value now, or any field; of counters."""
    changed = set(compress(_READ, change.differs))
    return frozenset(
        place
        for place, row in enumerate(CONTAINER_METRICS)
        if (row.name in change.counters if row.is_counter else not row.reads or not changed.isdisjoint(row.reads))
    )
