"""The protocol of a probe, and the facts about one before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from msgspec import Struct

from numaudit.kernel.host import Host
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.probes.loading.loader import LoadedProbe, ProbeRequest

Loss = Literal["map-full", "busy", "cpu-away"]
"""Reasons why an event was not counted. `busy`: another BPF program was running on that CPU. `cpu-away`: a CPU had come
back online and was not watched yet, which counts as one event each time."""

NodePair = tuple[int, int | None]
"""CPU's node and page's node. None = the page's memory block lies on two nodes, or on none that sysfs shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counts of a probe since load. Each kind of probe adds its tables: cgroup id -> key -> count.

    A table holds what the tasks in each cgroup itself did; descendants are not added.
    """

    lost: Mapping[Loss, int] = field(default_factory=dict)
    """Events that were not counted, by the reasons that this probe knows."""
    watched: frozenset[int] | None = None
    """The cgroups whose events it counts; None = all."""
    counted_by: ClassVar[tuple[str, ...]]
    """The fields, besides `lost`, that `events` is made of."""

    @property
    def events(self) -> int | None:
        """Number of times that the programs ran for what is counted here; None = the hook does not show it."""
        raise NotImplementedError

    @property
    def all_lost(self) -> int:
        return sum(self.lost.values())

    def since(self, earlier: Self) -> Self:
        """Changes between two readings. A cgroup without changes is left out of every table."""
        return self._since(earlier, [one.name for one in fields(self) if one.name not in ("lost", "watched")])

    def events_since(self, earlier: Self) -> int | None:
        """The events between two readings; the other tables, which are large, are not compared."""
        return self._since(earlier, self.counted_by).events

    def _since(self, earlier: Self, names: Iterable[str]) -> Self:
        lost = {reason: count - earlier.lost.get(reason, 0) for reason, count in self.lost.items()}
        grown = {name: _growth(getattr(self, name), getattr(earlier, name)) for name in names}
        return replace(self, lost=lost, **grown)


def _growth(now: Any, before: Any) -> Any:  # noqa: ANN401 -- a table, a row, a counter, or no count at all
    if isinstance(now, Mapping):
        return _grown(now, before)
    if type(now) is int:
        return None if before is None else now - before
    return now


def _grown(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> dict[Any, Any]:
    """A counter that is smaller than before was deleted and started again, so all of it is new."""
    result = {}
    for key, value in now.items():
        if type(value) is int:
            earlier = before.get(key, 0)
            more: Any = value - earlier if value >= earlier else value
        else:
            more = _grown(value, before.get(key, _NOTHING))
        if more:
            result[key] = more
    return result


_NOTHING: Mapping[Any, Any] = {}

R = TypeVar("R", bound=Reading)
R_co = TypeVar("R_co", bound=Reading, covariant=True)


class Probe(Protocol[R_co]):
    """A probe that runs. Every method may raise OSError; after `close` none may be called."""

    @property
    def how(self) -> str | None:
        """Its hook, in words for people; None = there is nothing to say."""

    @property
    def is_paused(self) -> bool: ...

    def read(self) -> R_co:
        """All counters since load. May raise ParseError."""

    def pause(self) -> None:
        """Take it off its hooks; what was counted stays."""

    def resume(self) -> None:
        """Put it back. Raises ProbeRefusal."""

    def watch(self, cgroups: frozenset[int] | None) -> None:
        """Count events of these cgroups only; None = of all. A probe that cannot filter early counts all."""

    def cgroups(self) -> set[int]:
        """Those that have counters now."""

    def forget(self, cgroups: Collection[int]) -> int:
        """Delete the counters of these cgroups, so that dead ones do not fill the maps; how many went."""

    def run_time(self) -> RunTime | None:
        """The kernel's account of its programs, while somebody has it keep one; None = it has no programs."""

    def close(self) -> None: ...


class ProbeKind(Struct, Generic[R], frozen=True):
    """One kind of probe. It is the key of its readings, and carries their type."""

    name: str
    request: Callable[[Host, int, int], ProbeRequest]
    """Request for the loader, for this many cgroups with this many pairs of nodes each. Raises ProbeRefusal."""
    start: Callable[[Host, LoadedProbe], Probe[R]]
    """Attach it. Raises ProbeRefusal and OSError."""
    ns_per_event: float
    """The hook's own cost included and rounded up: assumed until a host lets us measure it."""
    in_agent: bool = True
    """Does it run in the agent by default? A one-off report runs all."""
    pause_order: int | None = None
    """Order of pausing when probes cost too much: the smallest number first; None = it never is."""
    can_narrow: bool = False
    """Does it obey the watch list?"""
    without_bpf: Callable[[Host], Probe[R]] | None = None
    """Start it where its programs cannot be loaded or attached. Raises ProbeRefusal and OSError."""
