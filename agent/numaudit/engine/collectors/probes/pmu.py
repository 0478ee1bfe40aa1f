"""Accesses of each container to local and remote memory, as the processor counts them."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.probes.calibration import read_penalty
from numaudit.pmu.choose import Plan
from numaudit.pmu.stall import Penalty
from numaudit.probes.pmu import PMU
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses

_PREFETCH = "prefetch"


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
