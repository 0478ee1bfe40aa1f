"""What grew between the two readings of a capture: counters of the host, and CPU time by container and node.

CPU time is sampled: the kernel says how long a thread ran, and only of its last moment on which CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from msgspec.structs import replace

from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.mappings import processes_of
from numaudit.engine.collectors.containers.processes import ProcessReader
from numaudit.engine.collectors.containers.thread_groups import ThreadGroups
from numaudit.errors import ParseError, Unavailable
from numaudit.evaluation.rates import increase
from numaudit.kernel import earlier, tasks
from numaudit.kernel.earlier import Earlier
from numaudit.kernel.memory.numa_balancing import read_vmstat
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Rates
from numaudit.snapshot.processes import SampledTime


@dataclass(slots=True)
class TwoReadingsCollector(Collector):
    name = "two readings"
    _found: tuple[Rates, Mapping[ContainerId, SampledTime]] | None = None
    """A capture does not change."""

    def is_due(self, tick: TickInputs) -> bool:
        return earlier.is_there(tick.host)

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Raises OSError and ParseError for files that are missing or damaged, Unavailable for times that are none."""
        if self._found is None:
            first = earlier.read(tick.host)
            self._found = _rates(tick, snapshot, first), _sampled(tick, first, skipped)
        rates, sampled = self._found
        return replace(snapshot, rates=rates, sampled_time=sampled)


def _rates(tick: TickInputs, snapshot: Snapshot, first: Earlier) -> Rates:
    seconds = earlier.uptime(tick.host) - first.uptime
    if seconds <= 0:
        raise Unavailable(f"the second reading is of {seconds:g} s after the first; capture again")

    def per_second(now: Mapping[str, int], before: Mapping[str, int], unit: int = 1) -> dict[str, float]:
        both = {name: value for name, value in now.items() if name in before}
        return {name: grown * unit / seconds for name, grown in increase(both, before).items()}

    return Rates(
        seconds,
        None if first.vmstat is None else per_second(read_vmstat(tick.host), first.vmstat),
        {
            node.node: per_second(node.numastat, {k: v * tick.machine.page_size for k, v in before.items()})
            for node in snapshot.nodes
            if node.numastat is not None and (before := first.numastat.get(node.node)) is not None
        },
    )


def _sampled(tick: TickInputs, first: Earlier, skipped: SkippedItems) -> dict[ContainerId, SampledTime]:
    processes = {id_: processes_of(tick.reader, groups, skipped) for id_, groups in tick.census.groups.items()}
    before = first.times(pid for pids in processes.values() for pid in pids)
    reader = ProcessReader(tick.host, tick.machine, float("inf"), before, begun=first.ticks)
    found = {}
    for id_, pids in processes.items():
        groups, overlooked = ThreadGroups(tick.machine), 0
        for pid in filter(None, pids):
            try:
                overlooked += _add(pid, reader, groups)
            except (OSError, ParseError) as error:
                skipped.count(error)
        if overlooked:
            skipped.lose(overlooked, "threads had no CPU time in the first reading")
        found[id_] = SampledTime(groups.seconds, groups.time_source)
    return found


def _add(pid: int, reader: ProcessReader, groups: ThreadGroups) -> int:
    """One process; the number of threads whose CPU time is not known. Raises OSError, ParseError."""
    overlooked = 0
    main = tasks.read_main(reader.host, pid)
    try:
        others = [one for one in tasks.thread_ids(reader.host, pid) if one != pid]
    except FileNotFoundError:  # it has one
        others = []
    for thread in chain((main,), tasks.read_threads(reader.host, pid, others)):
        ticks = reader.since(thread)
        overlooked += ticks is None
        groups.add(thread, None, ticks or 0)
    return overlooked
