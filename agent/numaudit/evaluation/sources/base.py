"""Input and output of every source of accesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from numaudit.evaluation.access import Access, Source
from numaudit.evaluation.rates import Window
from numaudit.evaluation.thresholds import Thresholds
from numaudit.snapshot import ContainerId, Snapshot

AccessPair = tuple[int, int | None, bool]
"""The CPU's node, the page's node, and whether the use was remote. None = on another node than the CPU's; the processor
does not say which."""
NO_PAIRS: Mapping[AccessPair, float] = {}
EMPTY: Window[AccessPair] = Window()


class AccessEvidence(Struct, frozen=True):
    """Evidence by which one container is judged."""

    snapshot: Snapshot
    container: ContainerId
    before: Snapshot | None
    """The previous tick; None = all that was counted is of now."""
    thresholds: Thresholds
    ran: Mapping[int, float]
    """CPU seconds by node lately."""


class SourceResult(Struct, frozen=True):
    """Result of a source, with the state that the next tick needs."""

    access: Access | None
    """None = it has nothing to say of this container."""
    window: Window[AccessPair] = EMPTY


class AccessSource(Protocol):
    """One source of accesses."""

    @property
    def name(self) -> Source: ...

    def runs(self, snapshot: Snapshot) -> bool:
        """False: it was not measured in this tick, so it says nothing of any container, and forgets nothing."""
        ...

    def say(self, evidence: AccessEvidence, window: Window[AccessPair]) -> SourceResult:
        """Asked only in a tick in which it runs. `window`: what it remembers from the ticks before."""


def remote_of(pairs: Mapping[AccessPair, float]) -> float:
    """The remote part of a sum."""
    return sum(amount for (_, _, is_remote), amount in pairs.items() if is_remote)
