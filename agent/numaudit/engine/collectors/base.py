"""Common parts of collectors: their input, and a result that is caught once and becomes a CollectorOutcome."""

from __future__ import annotations

import errno
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from msgspec import Struct, field

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.containers.owners import Owners
from numaudit.errors import Absent, NumauditError, Unavailable, printable
from numaudit.kernel.cgroup import Hierarchies, Reader
from numaudit.kernel.host import Host, explain
from numaudit.snapshot import CollectorOutcome, ContainerId, Snapshot
from numaudit.topology.machine import Machine

if TYPE_CHECKING:
    from numaudit.probes.probe import ProbeKind, Reading
    from numaudit.probes.session import ProbeReadings

Value = TypeVar("Value")
R = TypeVar("R", bound="Reading")
_log = logging.getLogger(__name__)


class SkippedItems(Struct):
    """Counts items that vanished or could not be read, and remembers why the first unreadable one was not."""

    gone: int = 0
    failed: int = 0
    reason: str | None = None

    def count(self, error: Exception) -> None:
        """A group or process that has just ended is normal; anything else is a reason to show."""
        if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENODEV, errno.ESRCH):
            self.gone += 1
            return
        self.lose(1, explain(error))

    def note(self, reason: str) -> None:
        """Nothing promised is missing, but a reader should know why there is no more."""
        self.reason = self.reason or reason

    def lose(self, items: int, reason: str) -> None:
        """So many items are missing from the answer for this reason; the first reason is shown."""
        self.failed += items
        self.reason = self.reason or reason

    def not_counted(self, events: int, what: str) -> None:
        """A probe left out so many events, of which there may be none."""
        if events:
            self.lose(events, f"{what} were not counted: a map was full, or another BPF program was running")


class CollectorRun(Struct):
    """Runs collectors and keeps their outcomes, so that a failing one does not stop the others."""

    outcomes: list[CollectorOutcome] = field(default_factory=list)

    def __call__(self, source: str, collect: Callable[[SkippedItems], Value], default: Value) -> Value:
        skipped = SkippedItems()
        start = perf_counter()
        value, problem = default, None
        try:
            value = collect(skipped)
        except Absent as error:
            problem = CollectorOutcome(source, "absent", printable(str(error)))
        except Unavailable as error:
            problem = CollectorOutcome(source, "unavailable", printable(str(error)))
        except (NumauditError, OSError, ValueError) as error:
            problem = CollectorOutcome(source, "failed", printable(explain(error)))
        except Exception as error:
            # A bug in one collector is no reason to lose what the others found.
            problem = CollectorOutcome(source, "failed", printable(f"internal error: {type(error).__name__}: {error}"))
            _log.exception("internal error in the collector %s", source)
        seconds = perf_counter() - start
        self.outcomes.append(problem or _outcome(source, skipped, seconds))
        return value


def _outcome(source: str, skipped: SkippedItems, seconds: float) -> CollectorOutcome:
    return CollectorOutcome(
        source,
        "partial" if skipped.failed else "ok",
        None if skipped.reason is None else printable(skipped.reason),
        seconds,
        skipped.gone + skipped.failed,
    )


class DeviceRequest(NamedTuple):
    """Request for the PCI devices of containers."""

    seconds: float
    of: frozenset[ContainerId] | None = None
    """None = all to which something was promised."""


class TickInputs(Struct, frozen=True):
    """Input of the collectors in one tick."""

    host: Host
    machine: Machine
    reader: Reader
    census: Census
    owners: Owners
    readings: ProbeReadings | None = None
    """None = there are no probes."""
    mappings_budget: float | None = None
    """Seconds for numa_maps; None = it is not read."""
    mappings_of: frozenset[ContainerId] | None = None
    """The containers of which it is read; None = all of them."""
    devices: DeviceRequest | None = None
    """None = none are read."""
    with_processes: bool = False
    """Is it asked where each process of these containers runs, and what places it?"""

    def read(self, kind: ProbeKind[R]) -> R:
        """A probe's reading. Raises Unavailable when the probe does not run, or its cgroups are not containers'."""
        require_v2(self.reader.hierarchies)
        assert self.readings is not None
        return self.readings.of(kind)

    def unwatched(self, watched: frozenset[int] | None) -> set[ContainerId]:
        """Containers none of whose cgroups are among those that a probe watches; None = it watches all."""
        if watched is None:
            return set()
        groups_of = self.census.groups
        return {owner for owner, groups in groups_of.items() if watched.isdisjoint(group.id for group in groups)}


class Collector(ABC):
    """One question about the host. What it remembers from tick to tick it keeps itself."""

    name: ClassVar[str]
    """As outcomes show it."""
    probe: ClassVar[ProbeKind[Any] | None] = None
    """The probe that the answer comes from; None = another source."""

    def is_due(self, tick: TickInputs) -> bool:
        """Is the question asked in this tick? That of a probe is, where the probe was asked for."""
        return self.probe is None or (tick.readings is not None and self.probe.name in tick.readings.session.probes)

    @abstractmethod
    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """The snapshot so far with the answer; when this raises, the snapshot stays as it is."""


def require_v2(hierarchies: Hierarchies) -> None:
    """BPF programs know a task by its cgroup of version 2. Raises Unavailable where memory is counted by another."""
    if not hierarchies.is_v2:
        raise Unavailable(
            f"cgroup {hierarchies.mode}: BPF programs see only cgroups of version 2, which do not count memory here; "
            "boot with systemd.unified_cgroup_hierarchy=1"
        )
