"""Kinds of mapping and memory policies that each container uses.

Reading numa_maps walks page tables, so only one-off answers ask, and only within a time budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.mapped import Mapped, ProcessWalk
from numaudit.errors import ParseError, printable
from numaudit.kernel.cgroup import Cgroup, Reader
from numaudit.kernel.host import Host, explain
from numaudit.kernel.memory import numa_maps
from numaudit.snapshot import BytesByNode, ContainerId, Mappings, NodeMemory, Snapshot

HIDDEN = (
    "processes are in another PID namespace; run in the host's (docker run --pid=host; hostPID: true in Kubernetes)"
)


class NumaMapsCollector(Collector):
    name = "numa_maps"

    def is_due(self, tick: TickInputs) -> bool:
        return tick.mappings_budget is not None

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Mappings of every container whose bytes are known, the largest container first; or of those asked for, with
        processes also where no memory controller is on."""
        judged = {id_: sum(bytes_.judged.values()) for id_, bytes_ in snapshot.residency.items()}
        if tick.mappings_of is not None:
            asked = tick.census.groups.keys() if tick.with_processes else judged.keys()
            judged = {id_: judged.get(id_, 0) for id_ in tick.mappings_of & asked}
        order = sorted(judged, key=lambda id_: judged[id_], reverse=True)
        found, weights = _of(tick).collect(tick.census, order, skipped), numa_maps.read_weights(tick.host)
        return replace(snapshot, numa_maps=found, interleave_weights=weights)


class RootNumaMapsCollector(Collector):
    name = "numa_maps of the root cgroup"

    def is_due(self, tick: TickInputs) -> bool:
        return tick.mappings_budget is not None

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Huge pages of the root cgroup's processes, where no hugetlb file shows them."""
        unattributed = snapshot.unattributed
        if unattributed is None or unattributed.hugetlb is not None:
            return snapshot
        hugetlb = {} if _no_huge_page_is_used(snapshot.nodes) else _of(tick).unattributed_hugetlb(skipped)
        return replace(snapshot, unattributed=msgspec.structs.replace(unattributed, hugetlb=hugetlb))


def _no_huge_page_is_used(nodes: Sequence[NodeMemory]) -> bool:
    """By the nodes' own counters; False where one of them does not say."""
    used = [one.resident.hugetlb for one in nodes]
    return bool(used) and all(one is not None and not any(one.values()) for one in used)


def _of(tick: TickInputs) -> NumaMapsWalk:
    assert tick.mappings_budget is not None
    return NumaMapsWalk(tick.host, tick.reader, tick.mappings_budget, tick.with_processes)


class NumaMapsWalk(Struct, frozen=True):
    """Reads /proc/PID/numa_maps of every container's processes, the largest container first."""

    host: Host
    reader: Reader
    budget: float
    """Seconds of wall-clock time; what was not reached by then stays out, and the count says so."""
    keeps_processes: bool = False
    """Keep what each process maps?"""

    def collect(
        self, census: Census, order: Sequence[ContainerId], skipped: SkippedItems
    ) -> dict[ContainerId, Mappings]:
        deadline = monotonic() + self.budget
        walk = ProcessWalk(self.host, self.reader.page_size, census.owner_of(), self.keeps_processes)
        found: dict[ContainerId, Mappings] = {}
        for container in order:
            processes = processes_of(self.reader, census.groups[container], skipped)
            mapped = Mapped(walk)
            read, alive = self._read(processes, deadline, skipped, mapped.add, mapped.unread)
            found[container] = mapped.mappings(read, alive)
        return found

    def unattributed_hugetlb(self, skipped: SkippedItems) -> BytesByNode | None:
        """Huge pages of the processes in the root cgroup, which no hugetlb file of cgroup v2 shows.

        None when not all of them could be read in time. Shared mappings count for each process.
        """
        sums = numa_maps.MappingSums()
        processes = self.reader.all_processes("")
        read, alive = self._read(processes, monotonic() + self.budget, skipped, lambda _, mapped: sums.add(mapped))
        return sums.by_kind.get("hugetlb", {}) if read == alive else None

    def _read(
        self,
        processes: Sequence[int],
        deadline: float,
        skipped: SkippedItems,
        use: Callable[[int, tuple[numa_maps.Mapping, ...]], None],
        unread: dict[int, str] | None = None,
    ) -> tuple[int, int]:
        """Numbers of processes that were read and given to `use`, and that live. `unread` gets those that live and
        were not read, with the reason."""
        unread = {} if unread is None else unread
        done = gone = 0
        for position, pid in enumerate(processes):
            if monotonic() > deadline:
                reason = f"the time budget of {self.budget:g} s ran out"
                skipped.lose(len(processes) - position, reason)
                unread.update(dict.fromkeys(processes[position:], reason))
                break
            if not pid:
                skipped.lose(1, HIDDEN)
                continue
            try:
                mappings = numa_maps.read(self.host, pid)
            except (FileNotFoundError, ProcessLookupError) as error:
                skipped.count(error)
                gone += 1
            except (OSError, ParseError) as error:
                skipped.count(error)
                unread[pid] = printable(explain(error))
            else:
                use(pid, mappings)
                done += 1
        return done, len(processes) - gone


def processes_of(reader: Reader, groups: Sequence[Cgroup], skipped: SkippedItems) -> list[int]:
    """Ids of all processes of a container; 0 for one in another PID namespace."""
    pids: list[int] = []
    for group in groups:
        try:
            pids.extend(reader.all_processes(group.path))
        except OSError as error:
            skipped.count(error)
    return pids
