"""Which container owns the counters of a cgroup? What an ended cgroup counted last still belongs to its container.

A BPF map keeps the counters of a cgroup that is gone until they are deleted. So each cgroup is read once more in the
tick after its end. If its container lives on, what it counted stays a part of the container's sums: they never fall.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from numaudit.containers.inventory import Census
from numaudit.snapshot import ContainerId

Key = TypeVar("Key", bound=Hashable)
Sums = dict[ContainerId, dict[Key, int]]


@dataclass(slots=True)
class Owners:
    """Remembers, from tick to tick, which cgroups have gone and what they had counted."""

    _now: Mapping[int, ContainerId] = field(default_factory=dict)
    """cgroup id -> its container."""
    _gone: Mapping[int, ContainerId] = field(default_factory=dict)
    """The same of those that ended since the previous tick."""
    _counted: set[str] = field(default_factory=set)
    """Counters that were added up in this tick."""
    _kept: dict[str, Sums[Any]] = field(default_factory=dict)
    """Counter -> what those that had gone before had counted."""

    def follow(self, census: Census) -> None:
        """Begin a tick."""
        now = census.owner_of()
        self._gone = {cgroup: owner for cgroup, owner in self._now.items() if cgroup not in now}
        self._now = now
        self._counted.clear()
        known = {*census.groups, *self._gone.values()}
        for name, sums in self._kept.items():
            self._kept[name] = {owner: row for owner, row in sums.items() if owner in known}

    def cgroups(self) -> set[int]:
        """Those whose counters are still to be read in this tick."""
        return {*self._now, *self._gone}

    def add_up(self, counter: str, by_cgroup: Mapping[int, Mapping[Key, int]]) -> Sums[Key]:
        """Each container's counters over all its cgroups, the ended ones included; ended containers for the last time.

        Cgroups of no container are left out. A counter is added up once in a tick, and not in one whose census failed.
        """
        if counter in self._counted:
            return {}
        self._counted.add(counter)
        kept: Sums[Key] = self._kept.setdefault(counter, {})
        sums = {owner: dict(row) for owner, row in kept.items()}
        for cgroup, counters in by_cgroup.items():
            owner = self._now.get(cgroup)
            if owner is None:
                owner = self._gone.get(cgroup)
                if owner is None:
                    continue
                _add(kept.setdefault(owner, {}), counters)
            _add(sums.setdefault(owner, {}), counters)
        return sums


def _add(row: dict[Key, int], counters: Mapping[Key, int]) -> None:
    for key, value in counters.items():
        row[key] = row.get(key, 0) + value
