"""Probes whose maps tests fill themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, cast

from made_up.plans import faults_and_time
from numaudit.probes.counters.accesses import AccessCounts, OfNode, Times
from numaudit.probes.cpu_time import CpuTimes
from numaudit.probes.hint_faults import HintFaultCounts, Passes, PassUse, ScanPass
from numaudit.probes.migrations import MigrationCounts
from numaudit.probes.page_alloc import Allocations
from numaudit.probes.probe import Reading
from numaudit.probes.session import Session


@dataclass(slots=True)
class Counters:
    """A probe whose map is this. As in the kernel, what an ended cgroup counted stays until it is deleted."""

    read_as: Callable[[dict[int, dict[Any, int]]], Reading]
    by_cgroup: dict[int, dict[Any, int]] = field(default_factory=dict)
    passes: dict[int, dict[ScanPass, PassUse]] = field(default_factory=dict)
    """Of hint faults: the newest scan passes."""
    how: str | None = None
    is_paused: bool = False

    def read(self) -> Reading:
        found = self.read_as({cgroup: dict(row) for cgroup, row in self.by_cgroup.items()})
        if self.passes and isinstance(found, HintFaultCounts):
            return replace(found, passes=Passes({cgroup: dict(row) for cgroup, row in self.passes.items()}))
        return found

    def cgroups(self) -> set[int]:
        return {*self.by_cgroup}

    def forget(self, cgroups: Collection[int]) -> int:
        gone = self.by_cgroup.keys() & set(cgroups)
        for cgroup in gone:
            del self.by_cgroup[cgroup]
            self.passes.pop(cgroup, None)
        return len(gone)

    def watch(self, cgroups: frozenset[int] | None) -> None:
        """It counts all."""

    def run_time(self) -> None:
        """It has no program."""

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        pass


def made_up_session() -> tuple[dict[str, Counters], Session]:
    """Every probe, by name, and the session that reads them."""
    probes = {
        "page_alloc": Counters(Allocations),
        "cpu_time": Counters(CpuTimes),
        "pmu": Counters(_access_counts),
        "hint_faults": Counters(lambda pages: HintFaultCounts(faults=pages, pages=pages)),
        "migrations": Counters(MigrationCounts),
    }
    return probes, Session(cast("Any", probes))


def _access_counts(by_cgroup: dict[int, dict[OfNode, int]]) -> AccessCounts:
    """The counters ran all the time."""
    times: dict[int, Times] = {cgroup: {"enabled": 1, "running": 1} for cgroup in by_cgroup}
    return AccessCounts(plan=faults_and_time(), accesses=by_cgroup, times=times)
