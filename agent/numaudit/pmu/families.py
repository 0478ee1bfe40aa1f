"""The table of CPU families: which events tell local from remote memory on each.

The rows are in data/families.yaml, with their sources; the file says what its fields mean. It is read once, when the
table is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from msgspec import Struct, field

from numaudit.pmu.identity import CpuIdentity

Unit = Literal["lines", "loads"]
FarCluster = Literal["remote", "socket_minus_local"]


class Encoding(Struct, frozen=True):
    """One event, in the words of struct perf_event_attr."""

    name: str
    config: int
    config1: int = 0
    errata: str = ""


class EventSet(Struct, frozen=True, forbid_unknown_fields=True):
    """A pair on one basis, so that remote / (local + remote) is a share of something. Each side's events are added."""

    id: str
    rank: int
    """1 = the best of its family."""
    unit: Unit
    includes: tuple[str, ...]
    """Kinds of access that are counted for certain: demand_loads, prefetch, stores, code."""
    says: str
    source: str
    local: tuple[Encoding, ...]
    remote: tuple[Encoding, ...]
    may_include: tuple[str, ...] = ()
    """Kinds of access that some implementations count."""
    far_cluster: FarCluster | None = None
    """Events for memory of the socket's other nodes, on sockets with several nodes; None = it is not."""
    local_is_total: bool = False
    """`local` counts local and remote accesses together."""
    requires: tuple[str, ...] = ()
    """Names that the PMU's own folder `events` must have."""
    facets: Mapping[str, tuple[Encoding, ...]] = field(default_factory=dict)
    """Further events on the same basis, by what they count."""


class Match(Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions on a CPU; it has to meet all that are given. Ranges include both ends."""

    arch: str
    vendor: str | None = None
    family: int | None = None
    models: tuple[tuple[int, int], ...] = ()
    steppings: tuple[int, int] | None = None
    implementer: int | None = None
    parts: tuple[int, ...] = ()
    pvr: int | None = None

    def fits(self, cpu: CpuIdentity) -> bool:
        names = (cpu.arch, cpu.vendor, cpu.family, cpu.implementer, cpu.pvr)
        if names != (self.arch, self.vendor, self.family, self.implementer, self.pvr):
            return False
        if self.models and not _within(cpu.model, self.models):
            return False
        if self.steppings is not None and not _within(cpu.stepping, (self.steppings,)):
            return False
        return not self.parts or cpu.part in self.parts


def _within(value: int | None, ranges: Iterable[tuple[int, int]]) -> bool:
    return value is not None and any(first <= value <= last for first, last in ranges)


class PublishedLatency(Struct, frozen=True, forbid_unknown_fields=True):
    """A load's published latency, by where its data came from."""

    unit: Literal["ns", "cycles"]
    local: float
    remote: float
    remote_cache: float
    source: str


class CpuFamily(Struct, frozen=True):
    """One kind of CPU as far as its memory events go."""

    id: str
    title: str
    match: tuple[Match, ...]
    sets: tuple[EventSet, ...]
    """The best first. Empty = its core events cannot tell local from remote."""
    latency: PublishedLatency | None = None


@cache
def families() -> tuple[CpuFamily, ...]:
    """The whole table."""
    import yaml  # noqa: PLC0415 (only for those who ask for the table)

    text = resources.files("numaudit.pmu").joinpath("data", "families.yaml").read_text(encoding="utf-8")
    document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe)
    return msgspec.convert(document["families"], tuple[CpuFamily, ...])


def family_of(cpu: CpuIdentity) -> CpuFamily | None:
    """The one family that a CPU belongs to; None = it is not in the table."""
    return next((family for family in families() if any(match.fits(cpu) for match in family.match)), None)
