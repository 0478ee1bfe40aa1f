"""All sources of accesses, the best first, and what they say of one container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from numaudit.evaluation.access import Access, Source
from numaudit.evaluation.rates import Window
from numaudit.evaluation.sources.base import EMPTY, AccessEvidence, AccessPair, AccessSource
from numaudit.evaluation.sources.expected import Expected
from numaudit.evaluation.sources.hint_faults import HintFaults
from numaudit.evaluation.sources.pmu import Pmu
from numaudit.snapshot import Snapshot

SOURCES: Sequence[AccessSource] = (Pmu(), HintFaults(), Expected())
"""A new source is its module and an entry here."""

Windows = Mapping[Source, Window[AccessPair]]
"""State of each source."""


class EvaluatedSources(Struct, frozen=True):
    """Results about a container's accesses, with the state that the next tick needs."""

    accesses: tuple[Access, ...]
    """In the order of the sources."""
    windows: Windows


def running_sources(snapshot: Snapshot) -> tuple[AccessSource, ...]:
    """Those that were measured in this tick, the best first."""
    return tuple(source for source in SOURCES if source.runs(snapshot))


def evaluate_sources(sources: Sequence[AccessSource], evidence: AccessEvidence, past: Windows) -> EvaluatedSources:
    """Results of each source about a container."""
    found: list[Access] = []
    windows = past
    for source in sources:
        name = source.name
        known = past.get(name, EMPTY)
        said = source.say(evidence, known)
        if said.access is not None:
            found.append(said.access)
        if said.window is not known:
            windows = {other: window for other, window in windows.items() if other != name}
            if said.window.amounts:
                windows[name] = said.window
    return EvaluatedSources(tuple(found), windows)
