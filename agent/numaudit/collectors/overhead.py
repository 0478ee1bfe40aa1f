"""What do the probes cost, and what has to rest so that they keep to their budget?

The cost is estimated: events that the probes counted, times nanoseconds for each event. Those of page_alloc are
measured when it is loaded: by the kernel's account of its run time where it may be asked, else by asking for pages
with and without the probe. Those of the others are assumed, not measured here.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from numaudit.containers.inventory import Inventory
from numaudit.evaluation.alignment import MISALIGNED, Judgements
from numaudit.evaluation.budget import Budget, Load, WatchList, choose, next_budget, share_of
from numaudit.kernel import bpf
from numaudit.probes import first_touch, hint_faults, page_alloc
from numaudit.probes.cpu_time import CpuTimeByNode
from numaudit.probes.first_touch import FirstTouchByNode
from numaudit.probes.hint_faults import HintFaultsByNode
from numaudit.probes.migrations import MigrationsByCgroup
from numaudit.probes.page_alloc import AllocationsByNode
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import AnyRead, Session
from numaudit.snapshot import ContainerId, Overhead, OverheadOfProbe, Snapshot

ASSUMED_NS = {"page_alloc": 200.0, "cpu_time": 260.0, "hint_faults": 400.0, "migrations": 400.0, "first_touch": 3000.0}
"""Nanoseconds for each event, the hook's own cost included and rounded up, where nothing better is known."""
_PAGES = 2048
_ROUNDS = 7
_LEAST_RUNS = 1000
WATCHED_AT_MOST = 64
"""Containers on the watch list."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Nanoseconds for each event of page_alloc."""

    timed: float | None
    """Pages asked for with and without the program; None = too noisy to tell, or the probe does not run."""
    by_kernel: float | None
    """The kernel's account of the program's run time, hook not included; None = it may not be asked."""


def calibrate(session: Session) -> Calibration:
    """Ask for pages with and without page_alloc on its hook; takes some 50 ms. Raises OSError."""
    probe = session.page_alloc
    if isinstance(probe, Refusal):
        return Calibration(None, None)
    with _run_time() as is_counted:
        before = probe.read_run_time()
        _best_of_touching()
        after = probe.read_run_time()
    runs = after.run_count - before.run_count
    by_kernel = (after.run_time_ns - before.run_time_ns) / runs if is_counted and runs >= _LEAST_RUNS else None
    loaded = _best_of_touching()
    probe.suspend()
    try:
        bare = _best_of_touching()
    finally:
        probe.resume()
    return Calibration(loaded - bare if loaded > bare else None, by_kernel)


def _run_time() -> AbstractContextManager[bool]:
    """While it is open the kernel counts the run time of BPF programs. False: it needs CAP_SYS_ADMIN."""
    try:
        return bpf.run_time_counted()
    except OSError:
        return nullcontext(False)


def _best_of_touching() -> float:
    """Nanoseconds of CPU time for a fresh page, the best of some rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            pages.madvise(mmap.MADV_NOHUGEPAGE)
            start = ctypes.c_char.from_buffer(pages)
            begin = time.thread_time_ns()
            ctypes.memset(ctypes.addressof(start), 1, len(pages))
            best = min(best, (time.thread_time_ns() - begin) / _PAGES)
            del start  # it keeps the mapping open
    return best


@dataclass(slots=True)
class Keeper:
    """Keeps the probes of one session to a share of all CPUs' time."""

    session: Session
    limit: float
    """Share of the CPU time of all online CPUs, 0.01 = 1 %."""
    calibration: Calibration
    inventory: Inventory
    budget: Budget = field(default_factory=Budget)
    clock: Callable[[], float] = time.monotonic
    _before: Mapping[str, AnyRead] = field(default_factory=dict)
    _looked_at: float | None = None
    _turn: int = 0
    _sums: dict[str, tuple[int, float]] = field(default_factory=dict)

    def after_look(self, snapshot: Snapshot, judgements: Judgements) -> Overhead:
        """What the probes cost since the look before, and what rests from now on.

        Raises OSError, and Refusal when a probe that rested cannot be put back.
        """
        now = self.clock()
        loads, dropped = self._loads(), self._has_dropped()
        share = None
        if self._looked_at is not None:
            share = share_of(loads, now - self._looked_at, len(snapshot.machine.node_of_cpu))
            self.budget = next_budget(self.budget, share, self.limit)
        self._looked_at = now
        self._before = dict(self.session.last_reads)
        self._rest()
        watched = self._narrow(snapshot, judgements, dropped)
        return Overhead(
            share,
            self.limit,
            self.budget.steps,
            self._add(loads),
            None if watched is None else watched.coverage,
        )

    def _loads(self) -> list[Load]:
        """Events since the look before, of each probe that was read in both."""
        loads = []
        for name, read in self.session.last_reads.items():
            earlier = self._before.get(name)
            if earlier is not None and (events := count_between(read, earlier)) is not None:
                loads.append(Load(name, events, self.ns_per_event(name)))
        return loads

    def _add(self, loads: list[Load]) -> tuple[OverheadOfProbe, ...]:
        """The sums since the first look."""
        for load in loads:
            events, seconds = self._sums.get(load.probe, (0, 0.0))
            self._sums[load.probe] = events + load.events, seconds + load.seconds
        return tuple(OverheadOfProbe(probe, events, seconds) for probe, (events, seconds) in self._sums.items())

    def _has_dropped(self) -> bool:
        """Did the map of hint faults become full since the look before?"""
        read, earlier = self.session.last_reads.get(hint_faults.NAME), self._before.get(hint_faults.NAME)
        if not isinstance(read, HintFaultsByNode):
            return False
        return read.dropped > (earlier.dropped if isinstance(earlier, HintFaultsByNode) else 0)

    def ns_per_event(self, probe: str) -> float:
        """What the kernel says, else what was timed (both of page_alloc only), else what is assumed."""
        measured = (self.calibration.by_kernel, self.calibration.timed) if probe == page_alloc.NAME else ()
        return next((one for one in measured if one is not None), ASSUMED_NS[probe])

    def _rest(self) -> None:
        steps = self.budget.steps
        self.session.let_rest(page_alloc.NAME, "page_alloc off" in steps)
        self.session.let_rest(first_touch.NAME, "first_touch off" in steps)
        self.session.let_rest(hint_faults.NAME, "hint_faults off" in steps)

    def _narrow(self, snapshot: Snapshot, judgements: Judgements, has_dropped: bool) -> WatchList | None:
        """Watch some only when that is a step taken, or when the map has no room for all: then the others go first."""
        probe = self.session.hint_faults
        if isinstance(probe, Refusal):
            return None
        if not has_dropped and "watch list" not in self.budget.steps:
            probe.watch(None)
            return None
        chosen = self._choose(snapshot, judgements)
        groups = self.inventory.take().groups
        cgroups = frozenset(group.id for id_ in chosen.watched for group in groups.get(ContainerId(id_), ()))
        probe.watch(cgroups)
        if has_dropped:
            probe.forget_all_but(cgroups)
        return chosen

    def _choose(self, snapshot: Snapshot, judgements: Judgements) -> WatchList:
        intents = {} if snapshot.intent is None else snapshot.intent.by_cgroup
        promised = [one.id for one in snapshot.containers if (found := intents.get(one.id)) and found.promise.memory]
        suspicious = [id_ for id_, verdict in judgements.verdicts.items() if verdict.name in MISALIGNED]
        chosen = choose(promised, suspicious, [one.id for one in snapshot.containers], WATCHED_AT_MOST, self._turn)
        self._turn = chosen.next_turn
        return chosen


def count_between(later: AnyRead, earlier: AnyRead) -> int | None:
    """Events between two reads of one probe; None = it does not tell. Raises TypeError for two probes' reads."""
    match later, earlier:
        case (AllocationsByNode(), AllocationsByNode()):
            return later.since(earlier).events
        case (CpuTimeByNode(), CpuTimeByNode()):
            return later.since(earlier).events
        case (HintFaultsByNode(), HintFaultsByNode()):
            return later.since(earlier).events
        case (MigrationsByCgroup(), MigrationsByCgroup()):
            return later.since(earlier).events
        case (FirstTouchByNode(), FirstTouchByNode()):
            return later.since(earlier).events
    raise TypeError(f"{type(later).__name__} and {type(earlier).__name__} are reads of two probes")
