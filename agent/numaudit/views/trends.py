"""The last ticks of the page's numbers: those of the host, and of each container its bytes outside and remote share.

Bounded in number and size. A tick replaces values as a whole, so other threads may read them meanwhile.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

from numaudit.report.values import ContainerReport, Report

KEPT = 60
"""Ticks."""
MOST = 4096
"""Containers, in the report's order: the worst first."""
_UNKNOWN_AMOUNT, _UNKNOWN_SHARE = (1 << 32) - 1, 255
_Key = int | tuple[str | None, str | None]


class _Tick(NamedTuple):
    """The containers of one tick, each at its place: amounts in KiB, in four bytes each, and shares in one."""

    amounts: Sequence[int]
    shares: bytes


class _Place(NamedTuple):
    """A container's own place in the ticks."""

    at: int
    since: int
    """Number of its first tick: what is older was another container's."""


class _Kept(NamedTuple):
    """The newest tick has the number `newest`."""

    newest: int = 0
    ticks: tuple[_Tick, ...] = ()
    places: Mapping[_Key, _Place] = {}

    def of(self, one: ContainerReport) -> list[tuple[int, int]]:
        """Amount and share of each tick that has the container."""
        place = self.places.get(_key(one))
        if place is None:
            return []
        return [(tick.amounts[place.at], tick.shares[place.at]) for tick in self.ticks[place.since - self.newest - 1 :]]


class Trends:
    """Sequences with the newest tick last; None = not known at that tick."""

    def __init__(self) -> None:
        self._host: tuple[tuple[int, int, int], ...] = ()
        self._kept = _Kept()
        self._rows: Mapping[int, ContainerReport] = {}
        """Of the newest tick, by the `id` of each: what did not change is the very same row."""

    def add(self, report: Report) -> None:
        """One tick. Containers that are gone are forgotten."""
        summary = report.summary
        self._host = (*self._host[1 - KEPT :], (summary.aligned, summary.misaligned, summary.refused_pods))
        rows = {id(one): one for one in report.containers[:MOST]}
        kept, newest = self._kept, self._kept.newest + 1
        changed = {_key(one): one for place, one in rows.items() if place not in self._rows}
        places = kept.places
        if len(rows) != len(places) or not places.keys() >= changed.keys():
            places = _placed([_key(one) for one in rows.values()], places, newest)
        tick = kept.ticks[-1] if kept.ticks else _Tick((), b"")
        if changed:
            amounts, shares = array("I", tick.amounts), bytearray(tick.shares)
            room = len(places) - len(amounts)
            amounts.extend([_UNKNOWN_AMOUNT] * room)
            shares.extend([_UNKNOWN_SHARE] * room)
            for key, one in changed.items():
                at = places[key].at
                amounts[at], shares[at] = _amount(one), _share(one)
            tick = _Tick(amounts, bytes(shares))
        self._kept, self._rows = _Kept(newest, (*kept.ticks[1 - KEPT :], tick), places), rows

    @property
    def aligned(self) -> Sequence[int]:
        """Containers, as misaligned ones; refused are pods."""
        return [one[0] for one in self._host]

    @property
    def misaligned(self) -> Sequence[int]:
        return [one[1] for one in self._host]

    @property
    def refused(self) -> Sequence[int]:
        return [one[2] for one in self._host]

    def outside(self, one: ContainerReport) -> Sequence[int | None]:
        """Judged bytes outside its promise; without a promise, on nodes that have none of its CPUs."""
        return [None if amount == _UNKNOWN_AMOUNT else amount << 10 for amount, _ in self._kept.of(one)]

    def remote_share(self, one: ContainerReport) -> Sequence[int | None]:
        """Measured remote share in per cent."""
        return [None if share == _UNKNOWN_SHARE else share for _, share in self._kept.of(one)]


def _placed(keys: Sequence[_Key], places: Mapping[_Key, _Place], newest: int) -> dict[_Key, _Place]:
    """Places of these containers: who had one keeps it, and others get the first ones that are free."""
    found = {key: places[key] for key in keys if key in places}
    used = {place.at for place in found.values()}
    free = (at for at in count() if at not in used)
    return found | {key: _Place(next(free), newest) for key in keys if key not in found}


def _key(one: ContainerReport) -> _Key:
    return (one.pod_uid, one.container) if one.id is None else one.id


def _amount(one: ContainerReport) -> int:
    """In KiB; a little is not nothing."""
    amount = one.remote_bytes if one.misplaced_bytes is None else one.misplaced_bytes
    return _UNKNOWN_AMOUNT if amount is None else min(-(-max(amount, 0) >> 10), _UNKNOWN_AMOUNT - 1)


def _share(one: ContainerReport) -> int:
    if one.measured is None:
        return _UNKNOWN_SHARE
    share = one.measured.lower
    return min(100, max(round(100 * share), 1 if share else 0))
