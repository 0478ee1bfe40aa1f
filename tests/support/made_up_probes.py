"""Probes whose maps tests fill themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, cast

from numaudit.probes.cpu_time import CpuTimeByNode
from numaudit.probes.hint_faults import HintFaultsByNode
from numaudit.probes.migrations import MigrationsByCgroup
from numaudit.probes.page_alloc import AllocationsByNode
from numaudit.probes.reasons import Reason, Refusal
from numaudit.probes.session import Session


@dataclass(slots=True)
class Counters:
    """A probe whose map is this. As in the kernel, what an ended cgroup counted stays until it is deleted."""

    read_as: Callable[[dict[int, dict[Any, int]]], object]
    by_cgroup: dict[int, dict[Any, int]] = field(default_factory=dict)
    watched: frozenset[int] | None = None
    nodes_refused: None = None

    def read(self) -> object:
        return self.read_as({cgroup: dict(row) for cgroup, row in self.by_cgroup.items()})

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        gone = self.by_cgroup.keys() - set(cgroups)
        for cgroup in gone:
            del self.by_cgroup[cgroup]
        return len(gone)

    def close(self) -> None:
        pass


def made_up_session() -> tuple[dict[str, Counters], Session]:
    """Every probe but first_touch, by name, and the session that reads them."""
    probes = {
        "page_alloc": Counters(AllocationsByNode),
        "cpu_time": Counters(CpuTimeByNode),
        "hint_faults": Counters(HintFaultsByNode),
        "migrations": Counters(MigrationsByCgroup),
    }
    off = Refusal(Reason.SWITCHED_OFF, "not asked for")
    return probes, Session(**cast("dict[str, Any]", probes), first_touch=off)
