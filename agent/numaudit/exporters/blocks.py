"""The points of all containers, family by family. What is as it was in the last tick is not worked out again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, NamedTuple

from msgspec import Struct

from numaudit.exporters.catalogue import CONTAINER_METRICS
from numaudit.exporters.metric import NO_VALUES, Columns, Metric, Number
from numaudit.exporters.series import ContainerName, Labels, Series

_READ = tuple(sorted({name for row in CONTAINER_METRICS for name in row.reads}))
_read = attrgetter(*_READ)
_Change = tuple[tuple[int, ...], tuple[str, ...]]
"""A changed value of a series: the places in `_READ` of the fields that are another value now, and the counters whose
counts are. Many series have the same change."""


class SeriesBlock(Struct, frozen=True, gc=False):
    """The points of one container in one family; without a container (key None), all of the family."""

    key: ContainerName | None
    labels: tuple[Labels, ...]
    numbers: tuple[Number, ...]


class Column(Struct, frozen=True):
    """The blocks of one family."""

    places: Sequence[SeriesBlock | None] = ()
    """That of each series; None = it has no points there."""
    blocks: tuple[SeriesBlock, ...] = ()
    """The same without None."""
    points: int = 0
    """The points of all."""

    @classmethod
    def of(cls, places: Sequence[SeriesBlock | None]) -> Column:
        blocks = tuple(filter(None, places))
        return cls(places, blocks, sum([len(block.numbers) for block in blocks]))


class Evaluated(NamedTuple):
    """The container families of one tick."""

    series: Mapping[ContainerName, Series]
    """In the order in which they are exported."""
    columns: tuple[Column, ...]
    """Of each family of the catalogue."""
    created: Mapping[ContainerName, float]
    """Since when the counters of each count, in seconds since the epoch."""


NOTHING = Evaluated({}, (Column(),) * len(CONTAINER_METRICS), {})


def evaluate(series: Sequence[Series], last: Evaluated = NOTHING) -> Evaluated:
    """All blocks. Who was there in the last tick keeps its place, and what did not change stays the very same value."""
    known = last.series
    before = set(map(id, known.values()))
    changed = {one.key: one for one in series if id(one) not in before}
    if not changed and len(series) == len(known):
        return last
    columns = last.columns
    if len(series) == len(known) and changed.keys() <= known.keys():
        now = {**known, **changed}
        created = last.created
        if any(one.created != created[key] for key, one in changed.items()):
            created = {**created, **{key: one.created for key, one in changed.items()}}
    else:
        now = {one.key: one for one in series}
        created = {one.key: one.created for one in series}
        places = {key: place for place, key in enumerate(last.series)}
        now = {
            key: now[key]
            for key in (*[key for key in places if key in now], *[key for key in now if key not in places])
        }
        come = [None] * len(now.keys() - places.keys())
        stay = [places[key] for key in now if key in places]
        columns = tuple([Column.of([*[column.places[place] for place in stay], *come]) for column in columns])
    stale: dict[int, list[tuple[int, Series]]] = {}
    for change, which in _changes(now, changed, known).items():
        for row in _rows(change):
            stale.setdefault(row, []).extend(which)
    return Evaluated(
        now,
        tuple(
            [
                _column(row, column, stale[place]) if place in stale else column
                for place, (row, column) in enumerate(zip(CONTAINER_METRICS, columns, strict=True))
            ]
        ),
        created,
    )


def _changes(
    now: Iterable[ContainerName], changed: Mapping[ContainerName, Series], before: Mapping[ContainerName, Series]
) -> dict[_Change, list[tuple[int, Series]]]:
    """The series that changed, with their places."""
    found: dict[_Change, list[tuple[int, Series]]] = {}
    for place, key in enumerate(now) if changed else ():
        one = changed.get(key)
        if one is not None:
            found.setdefault(_change(one, before.get(key)), []).append((place, one))
    return found


def _column(row: Metric[Any], column: Column, stale: Sequence[tuple[int, Series]]) -> Column:
    """With the blocks of those that changed; the same value when they turn out to be as they were."""
    name, values = row.name, row.values
    if row.is_counter:
        now = [one.totals.get(name, NO_VALUES) for _, one in stale]
    else:
        # Most are columns already; a call for each block of each tick would take longer than to look.
        now = [found if isinstance(found := values(one.report), Columns) else Columns.of(found) for _, one in stale]
    places: list[SeriesBlock | None] | None = None
    points = column.points
    for (place, one), found in zip(stale, now, strict=True):
        labels, numbers = found.labels, found.numbers
        last = column.places[place]
        if last is not None and last.labels == labels:
            if last.numbers == numbers:
                continue
            labels = last.labels
        elif last is None and not numbers:
            continue
        places = [*column.places] if places is None else places
        places[place] = SeriesBlock(one.key, labels, numbers) if numbers else None
        points += len(numbers) - (0 if last is None else len(last.numbers))
    return column if places is None else Column(places, tuple(filter(None, places)), points)


def _change(now: Series, before: Series | None) -> _Change:
    if before is None:
        return tuple(range(len(_READ))), tuple(now.totals)
    counted = before.totals
    counters = [name for name, counts in now.totals.items() if counts is not counted.get(name)]
    counters += counted.keys() - now.totals.keys()
    differs = map(is_not, _read(now.report), _read(before.report))
    return tuple(compress(range(len(_READ)), differs)), tuple(counters)


@lru_cache(maxsize=1024)
def _rows(change: _Change) -> tuple[int, ...]:
    """Places in the catalogue: of gauges that read a field that is another value now, or any field; of counters."""
    fields, counters = change
    changed = {_READ[field] for field in fields}
    return tuple(
        place
        for place, row in enumerate(CONTAINER_METRICS)
        if (row.name in counters if row.is_counter else not row.reads or not changed.isdisjoint(row.reads))
    )
