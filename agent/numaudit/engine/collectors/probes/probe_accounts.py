"""Events that the probes did not count, and how often their programs ran."""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.kernel.host import Host, read_text
from numaudit.probes.session import ProbeReadings
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import ProbeAccount


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
