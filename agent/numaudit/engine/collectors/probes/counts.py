"""Counts of the probes by container: pages given, CPU time, accesses as the processor counts them, migrations; and the
events that the probes did not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.probes.calibration import read_penalty
from numaudit.kernel.host import Host, read_text
from numaudit.pmu.choose import Plan
from numaudit.pmu.stall import Penalty
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.migrations import MIGRATIONS
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.pmu import PMU
from numaudit.probes.session import ProbeReadings
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses, Migrated, MigratedPages, ProbeAccount

_PREFETCH = "prefetch"
Key = TypeVar("Key")


class PageAllocCollector(Collector):
    name = "page_alloc"
    probe = PAGE_ALLOC

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """(CPU's node, page's node) -> bytes since the probe was loaded. Raises Unavailable when it does not run."""
        reading = tick.read(PAGE_ALLOC)
        skipped.not_counted(reading.all_lost, "allocations")
        return replace(snapshot, page_alloc=tick.owners.add_up("page_alloc", reading.by_node))


class CpuTimeCollector(Collector):
    name = "cpu_time"
    probe = CPU_TIME

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Seconds by node since the probe was loaded. Raises Unavailable when it does not run."""
        reading = tick.read(CPU_TIME)
        if dropped := reading.lost.get("map-full"):
            skipped.lose(dropped, "intervals were not counted, since the map of the probe was full")
        sums = tick.owners.add_up("cpu_time", reading.by_node)
        seconds = {owner: {node: ns / 1e9 for node, ns in row.items()} for owner, row in sums.items()}
        return replace(snapshot, cpu_time=seconds)


@dataclass(slots=True)
class PmuCollector(Collector):
    name = "pmu"
    probe = PMU
    _penalty: Penalty | None = None
    """Found once, when it is first needed: a calibration made later counts from the next start on."""

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Accesses since the probe was loaded. Raises Unavailable when it does not run."""
        reading = tick.read(PMU)
        skipped.not_counted(reading.all_lost, "intervals")
        accesses = tick.owners.add_up("pmu", reading.accesses)
        times = tick.owners.add_up("pmu times", reading.times)
        basis, unwatched = basis_of(reading.plan), tick.unwatched(reading.watched)
        counted = {
            owner: CountedAccesses(
                basis,
                accesses.get(owner, {}),
                enabled_ns=times.get(owner, {}).get("enabled", 0),
                running_ns=times.get(owner, {}).get("running", 0),
                is_watched=owner not in unwatched,
            )
            for owner in times.keys() | unwatched
        }
        if self._penalty is None:
            self._penalty = read_penalty(tick.host, tick.machine)
        return replace(snapshot, pmu=counted, penalty=self._penalty)


def basis_of(plan: Plan) -> CountBasis:
    """Basis of one count of a plan."""
    includes, may_include = plan.set.includes, plan.set.may_include
    maybe = None if _PREFETCH in may_include else False
    return CountBasis(plan.set.id, plan.set.unit, includes_prefetch=True if _PREFETCH in includes else maybe)


class MigrationsCollector(Collector):
    name = "migrations"
    probe = MIGRATIONS

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Migrations that each container's tasks carried out. Raises Unavailable when the probe does not run."""
        reading = tick.read(MIGRATIONS)
        skipped.not_counted(reading.all_lost, "migrations")
        add_up = tick.owners.add_up
        succeeded = add_up("migrations succeeded", reading.succeeded)
        failed = add_up("migrations failed", reading.failed)
        tasks = add_up("task moves", reading.tasks)
        moved = add_up("migrations between nodes succeeded", reading.succeeded_between)
        stayed = add_up("migrations between nodes failed", reading.failed_between)
        refused = reading.nodes_refused
        if refused is not None:
            skipped.note(f"without the nodes that pages were moved between: {refused.text}")
        migrated = {
            owner: Migrated(
                _pages(succeeded.get(owner, {}), failed.get(owner, {})),
                tasks.get(owner, {}),
                _pages(moved.get(owner, {}), stayed.get(owner, {})) if refused is None else None,
            )
            for owner in (succeeded | tasks)
        }
        return replace(snapshot, migrations=migrated)


def _pages(succeeded: Mapping[Key, int], failed: Mapping[Key, int]) -> dict[Key, MigratedPages]:
    """Both have every key: a program writes both values at once."""
    return {key: MigratedPages(done, failed.get(key, 0)) for key, done in succeeded.items()}


class ProbeAccountsCollector(Collector):
    name = "bpf account"

    def is_due(self, tick: TickInputs) -> bool:
        return tick.readings is not None

    def collect(self, tick: TickInputs, snapshot: Snapshot, _: SkippedItems) -> Snapshot:
        """By the probe's name, of those that were read in this tick. Raises OSError."""
        assert tick.readings is not None
        return replace(snapshot, probes=accounts(tick.host, tick.readings))


def accounts(host: Host, readings: ProbeReadings) -> dict[str, ProbeAccount]:
    """By the probe's name, of those that were read. Raises OSError."""
    running = readings.session.running()
    counted = _runs_are_counted(host)
    found = {}
    for name, reading in readings.taken.items():
        spent = running[name].run_time() if counted else None
        runs, seconds = (None, None) if spent is None else (spent.runs, spent.nanoseconds / 1e9)
        found[name] = ProbeAccount(name, dict[str, int](reading.lost.items()), runs, seconds)
    return found


def _runs_are_counted(host: Host) -> bool:
    """kernel.bpf_stats_enabled; a kernel without it has no statistics."""
    try:
        return read_text(host.proc / "sys/kernel/bpf_stats_enabled").strip() == "1"
    except FileNotFoundError:
        return False
