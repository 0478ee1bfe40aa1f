"""No more container series than `max_series`: whole containers are left out, and as few come and go as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

_ROOM_FOR_NEW = 0.98
"""Share of the limit up to which containers are let in that were left out: else those at the edge come and go."""

Name = tuple[str, str, str]


class Omitted(NamedTuple):
    """Series missing in one tick."""

    series: int = 0
    containers: int = 0


class SeriesLimit(Struct):
    """Chooses the containers that are exported. Who was chosen stays, as long as there is room."""

    most: int
    _chosen: set[Name] = field(default_factory=set)

    def choose_all(self, order: Sequence[Name]) -> Omitted:
        """There is room for all of these."""
        self._chosen = set(order)
        return Omitted()

    def choose(self, order: Sequence[Name], counts: Mapping[Name, int]) -> tuple[set[Name], Omitted]:
        """The containers to export, of those in this order of importance with so many series each."""
        if sum(counts.values()) <= self.most:
            return set(order), self.choose_all(order)
        stay = self._fill((name for name in order if name in self._chosen), counts, self.most)
        room = int(self.most * _ROOM_FOR_NEW) - sum(counts.get(name, 0) for name in stay)
        come = self._fill((name for name in order if name not in self._chosen), counts, room)
        self._chosen = stay | come
        left_out = [name for name in order if name not in self._chosen]
        return self._chosen, Omitted(sum(counts.get(name, 0) for name in left_out), len(left_out))

    def _fill(self, order: Iterable[Name], counts: Mapping[Name, int], room: int) -> set[Name]:
        """The first ones that fit."""
        chosen = set()
        for name in order:
            room -= counts.get(name, 0)
            if room < 0:
                break
            chosen.add(name)
        return chosen
