"""From which node did each container use its memory? By the samples that NUMA balancing takes; and does the probe count
at all, by the kernel's own count of the whole machine?
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs, require_v2
from numaudit.engine.collectors.probes.pages_used import PagesUsedByContainer
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.memory.numa_balancing import read_mode, read_vmstat
from numaudit.probes.hint_faults import HINT_FAULTS, HintFaultCounts
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import Sampled
from numaudit.topology.machine import Machine

LEAST_UNSEEN = 1000
"""This many of the kernel's samples without one of the probe's are no coincidence."""


class SanityCheck(Struct):
    """Remembers from tick to tick what the kernel counted while the probe counted nothing."""

    _kernel: int | None = None
    _read: HintFaultCounts | None = None
    _unseen: int = 0

    def compare(self, kernel: int | None, read: HintFaultCounts | None) -> None:
        """One tick: the kernel's count since boot, and what the probe read. None = not known, or not all is counted.

        Raises Unavailable, at each tick until the probe counts again.
        """
        before, self._kernel = self._kernel, kernel
        earlier, self._read = self._read, read
        if kernel is None or before is None or read is None or earlier is None or _work(read) != _work(earlier):
            self._unseen = 0
            return
        self._unseen += kernel - before
        if self._unseen >= LEAST_UNSEEN:
            raise Unavailable(
                f"the probe counts nothing: the kernel took {self._unseen} samples since it last counted one; "
                "restart numaudit, and report this with the output of `numaudit doctor` if it persists"
            )


def _work(read: HintFaultCounts) -> object:
    """What another value of shows that the program was run."""
    return read.faults, read.lost, read.forgotten


@dataclass(slots=True)
class HintFaultsCollector(Collector):
    name = "hint_faults"
    probe = HINT_FAULTS
    _check: SanityCheck = field(default_factory=SanityCheck)
    _used: PagesUsedByContainer = field(default_factory=PagesUsedByContainer)

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Faults since the probe was loaded.

        Raises Unavailable when it does not run or counts nothing, or when the kernel takes no samples.

        A container without samples that the kernel does scan, and that is watched, is left out.
        """
        require_v2(tick.reader.hierarchies)
        require_sampling(tick.host, tick.machine)
        reading = tick.read(HINT_FAULTS)
        self._check.compare(_kernel_count(tick.host), reading if reading.watched is None else None)
        skipped.not_counted(reading.all_lost, "hint faults")
        groups_of = tick.census.groups
        faults = tick.owners.add_up("hint_faults", reading.pages)
        skips = reading.skipped
        unscanned = {owner for owner, groups in groups_of.items() if skips and any(one.id in skips for one in groups)}
        unwatched = tick.unwatched(reading.watched)
        used = self._used.take(tick, snapshot, reading.passes)
        by_process = self._used.by_process(tick)
        knows_passes = reading.passes is not None
        sampled = {
            owner: Sampled(
                faults.get(owner, {}),
                used.get(owner),
                knows_passes=knows_passes,
                is_scanned=owner not in unscanned,
                is_watched=owner not in unwatched,
                by_process=by_process.get(owner),
            )
            for owner in {*faults, *used, *unscanned, *unwatched, *by_process}
        }
        return replace(snapshot, hint_faults=sampled)


def _kernel_count(host: Host) -> int | None:
    try:
        return read_vmstat(host).get("numa_hint_faults")
    except Unavailable:  # then there is nothing to compare with
        return None


def require_sampling(host: Host, machine: Machine) -> None:
    """Raises Unavailable, saying why, when this kernel takes no samples of memory accesses now."""
    mode = read_mode(host)
    if mode is None:
        raise Unavailable("this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING), so it takes no samples")
    if len(machine.nodes) < 2:
        raise Unavailable("with one node there are no remote accesses, so the kernel takes no samples")
    if not mode.flags:
        raise Unavailable(
            "kernel.numa_balancing is 0, so the kernel takes no samples; `sysctl "
            "kernel.numa_balancing=1` switches it on"
        )
    if not mode.samples_accesses:
        raise Unavailable(
            f"kernel.numa_balancing is {mode.flags}: the kernel samples only memory of slow tiers, none on nodes with "
            "CPUs; 1 or 3 samples all nodes"
        )
