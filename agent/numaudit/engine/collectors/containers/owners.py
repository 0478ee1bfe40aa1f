"""Owners of the counters of cgroups. The last counts of an ended cgroup still belong to its container.

A BPF map keeps the counters of a cgroup that is gone until they are deleted. So each cgroup is read once more in the
tick after its end. If its container lives on, what it counted stays a part of the container's sums: they never fall.
What no container here has is added up for the whole host: by containers that have ended (`ENDED`), and by cgroups that
came and went between two ticks (`UNSEEN`). So the sums of all are what was counted outside the root cgroup.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from numaudit.containers.inventory import Census
from numaudit.kernel.cgroup import ROOT_ID
from numaudit.snapshot import ENDED, UNSEEN, ContainerId

Key = TypeVar("Key", bound=Hashable)
Sums = dict[ContainerId, dict[Key, int]]


class _Kept(Struct):
    """One counter of cgroups that are gone."""

    sums: Sums[Any] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    """Cgroups that are part of the sums, and that the map still had at the newest tick."""


class Owners(Struct):
    """Remembers, from tick to tick, which cgroups have gone and what they had counted."""

    _now: Mapping[int, ContainerId] = field(default_factory=dict)
    """cgroup id -> its container."""
    _gone: Mapping[int, ContainerId] = field(default_factory=dict)
    """The same of those that ended since the previous tick, and `ENDED` or `UNSEEN` of others that are no more."""
    _seen: set[int] = field(default_factory=set)
    """Those that a tick has seen, and whose counters are still there."""
    _departed: set[ContainerId] = field(default_factory=set)
    """Containers that ended since the previous tick."""
    _counted: set[str] = field(default_factory=set)
    """Counters that were added up in this tick."""
    _kept: dict[str, _Kept] = field(default_factory=dict)
    """By the counter's name."""

    def follow(self, census: Census, counted: Collection[int] = ()) -> None:
        """Begin a tick. `counted`: cgroups that had counters before the census, so one that is not in it has ended."""
        now = census.owner_of()
        had = set(counted)
        self._seen = (self._seen | self._now.keys()) & had
        ended = {cgroup: ENDED if cgroup in self._seen else UNSEEN for cgroup in had - now.keys() - {ROOT_ID}}
        gone = {cgroup: owner for cgroup, owner in self._now.items() if cgroup not in now}
        self._departed = {*gone.values()} - census.groups.keys()
        self._now, self._gone = now, ended | gone
        self._counted.clear()
        lasting = {*census.groups, *self._departed, ENDED, UNSEEN}
        for kept in self._kept.values():
            kept.settled &= had
            for owner in kept.sums.keys() - lasting:
                _add(kept.sums.setdefault(ENDED, {}), kept.sums.pop(owner))

    def ended(self) -> Collection[int]:
        """Cgroups that are no more. Once they are added up, nobody needs their counters."""
        return self._gone.keys()

    def add_up(self, counter: str, by_cgroup: Mapping[int, Mapping[Key, int]]) -> Sums[Key]:
        """Each container's counters over all its cgroups, the ended ones included; ended containers for the last time.

        Those of `ENDED` and `UNSEEN` stand beside the containers'. Left out is what the root cgroup counted, and what
        came too late for this tick's census. A counter is added up once in a tick, and not in one whose census failed.
        """
        if counter in self._counted:
            return {}
        self._counted.add(counter)
        kept = self._kept.setdefault(counter, _Kept())
        for cgroup in (by_cgroup.keys() & self._gone.keys()) - kept.settled:
            _add(kept.sums.setdefault(self._gone[cgroup], {}), by_cgroup[cgroup])
            kept.settled.add(cgroup)
        sums: Sums[Key] = {owner: dict(row) for owner, row in kept.sums.items()}
        for owner in self._departed & kept.sums.keys():
            _add(kept.sums.setdefault(ENDED, {}), kept.sums.pop(owner))
        if ENDED in kept.sums:
            sums[ENDED] = dict(kept.sums[ENDED])
        for cgroup, counters in by_cgroup.items():
            owner_now = self._now.get(cgroup)
            if owner_now is None:
                continue
            row = sums.get(owner_now)
            if row is None:
                sums[owner_now] = dict(counters)
            else:
                _add(row, counters)
        return sums


def _add(row: dict[Key, int], counters: Mapping[Key, int]) -> None:
    for key, value in counters.items():
        row[key] = row.get(key, 0) + value
