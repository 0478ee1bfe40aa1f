"""Processes of the containers that were asked for: what places them, and where they ran.

Threads are read, so only one-off answers ask, and only within a time budget.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from numaudit.encoding.value import Timestamp
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.mappings import HIDDEN, processes_of
from numaudit.engine.collectors.containers.thread_groups import ThreadGroups
from numaudit.errors import ParseError, printable
from numaudit.kernel import earlier, tasks
from numaudit.kernel.host import Host, explain
from numaudit.kernel.memory import numa_maps
from numaudit.kernel.tasks import Thread
from numaudit.snapshot import Mappings, Snapshot
from numaudit.snapshot.counted import ProcessAccesses
from numaudit.snapshot.processes import ContainerProcesses, ProcessMappings, ProcessPlacement, UnreadPart
from numaudit.topology.machine import Machine
from numaudit.topology.quantity import plural

if TYPE_CHECKING:
    from numaudit.engine.collectors.probes.process_counters import ProcessCounters

_MOST_THREADS = 4096
"""Threads of one process that are read."""
_POLICY_SECONDS = 0.1
"""Time for the policies of one process's threads: each may walk the pages of a large mapping."""
_ENDED = "Z", "X"
_SECCOMP: dict[int, Literal["disabled", "strict", "filter"]] = {0: "disabled", 1: "strict", 2: "filter"}
_STARTED_SINCE = "it started while the others were read"
_NOT_ASKED = "the memory of its container is not known by node, as without a memory controller, so none were asked for"

ThreadKey = tuple[int, int]
"""Id and start in clock ticks."""


@dataclass(slots=True)
class ProcessesCollector(Collector):
    name = "processes"
    _times: dict[ThreadKey, int] | None = None
    """Clock ticks of CPU time of each thread in the last tick that asked; None = none has asked."""
    _counters: ProcessCounters | str | None = None
    """Of the measurement that goes on, or the reason why there are none; None = none goes on."""

    def is_due(self, tick: TickInputs) -> bool:
        return tick.with_processes

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Every process of the containers asked for. Without a budget only CPU times are read, for the next tick.

        With probes CPU times are those since the last tick that asked, as the probes' are; of a capture with two
        readings since the first; else since threads began.
        """
        wanted = [id_ for id_ in tick.census.groups if tick.mappings_of is None or id_ in tick.mappings_of]
        processes = {id_: processes_of(tick.reader, tick.census.groups[id_], skipped) for id_ in wanted}
        if tick.mappings_budget is None:
            alive = [pid for pids in processes.values() for pid in pids if pid]
            self._times = _times(tick.host, alive)
            self._counters = _counters(tick, alive, self._counters)
            return snapshot
        before, begun = (None if tick.readings is None else self._times), 0.0
        if earlier.is_there(tick.host):
            first = earlier.read(tick.host)
            before, begun = first.times(pid for pids in processes.values() for pid in pids), first.ticks
        walk = ProcessReader(tick.host, tick.machine, monotonic() + tick.mappings_budget, before, begun=begun)
        found = {
            id_: walk.container(pids, snapshot.numa_maps.get(id_), tick.mappings_budget)
            for id_, pids in processes.items()
        }
        self._times = walk.times
        counters, self._counters = self._counters, None
        for one in found.values():
            if one.unread is not None:
                skipped.lose(one.alive - len(one.processes), one.unread)
        read = [process.pid for one in found.values() for process in one.processes]
        return replace(snapshot, processes=found, process_accesses=_accesses(tick.host, counters, read))


def _counters(
    tick: TickInputs, processes: Sequence[int], before: ProcessCounters | str | None
) -> ProcessCounters | str | None:
    """Events of these processes, in the place of those that are open."""
    if tick.readings is None:
        return None
    from numaudit.engine.collectors.probes.process_counters import ProcessCounters  # noqa: PLC0415 (takes long)

    if isinstance(before, ProcessCounters):
        before.close()
    return ProcessCounters.open(tick, processes)


def _accesses(host: Host, counters: ProcessCounters | str | None, processes: Sequence[int]) -> ProcessAccesses | None:
    """None = none were to be counted."""
    if counters is None:
        return None
    if isinstance(counters, str):
        return ProcessAccesses(None, {}, {}, counters)
    return counters.take(host, processes)


def _times(host: Host, processes: Sequence[int]) -> dict[ThreadKey, int]:
    """CPU time of each thread, of those that could be read."""
    found: dict[ThreadKey, int] = {}
    for pid in processes:
        try:
            for thread in tasks.thread_ids(host, pid)[:_MOST_THREADS]:
                task = tasks.read_task(host, pid, thread)
                found[thread, task.started] = task.ticks
        except (OSError, ParseError):  # it has ended, or a thread of it; or it may not be read, as the next tick says
            continue
    return found


@dataclass(slots=True)
class ProcessReader:
    """Reads processes until a deadline."""

    host: Host
    machine: Machine
    deadline: float
    before: Mapping[ThreadKey, int] | None
    """CPU times at the beginning; None = each thread's start."""
    clock: Callable[[], float] = monotonic
    """The clock of the deadline."""
    begun: float = 0.0
    """The beginning in clock ticks since boot. The CPU time of an older thread that is not in `before` is unknown."""
    times: dict[ThreadKey, int] = field(default_factory=dict)
    """CPU times now."""
    _booted_at: float | None = field(init=False)

    def __post_init__(self) -> None:
        self._booted_at = tasks.booted_at(self.host)

    def container(self, pids: Sequence[int], mapped: Mappings | None, budget: float) -> ContainerProcesses:
        """Those that live. A process that ends meanwhile is none of them."""
        found: list[ProcessPlacement] = []
        unread, missing = None, 0
        for position, pid in enumerate(sorted(pids)):
            if self.clock() > self.deadline:
                missing += len(pids) - position
                unread = unread or f"the time budget of {budget:g} s ran out"
                break
            if not pid:
                missing, unread = missing + 1, HIDDEN
                continue
            try:
                placement = self.process(pid, mapped)
            except (FileNotFoundError, ProcessLookupError):
                continue
            except (OSError, ParseError) as error:
                missing, unread = missing + 1, printable(explain(error))
                continue
            if placement is not None:
                found.append(placement)
        since: Literal["start", "measurement"] = "start" if self.before is None else "measurement"
        return ContainerProcesses(tuple(found), len(found) + missing, unread, since)

    def process(self, pid: int, mapped: Mappings | None) -> ProcessPlacement | None:
        """One process, and its threads until the deadline. Raises OSError, ParseError; None = it has ended."""
        try:
            main = tasks.read_main(self.host, pid)
        except FileNotFoundError:
            if self.host.is_live or mapped is None or pid not in mapped.read:
                raise
            return _only_mapped(pid, mapped.read[pid])
        if main.task.state in _ENDED:
            return None
        started_at = None
        if self._booted_at is not None:
            started_at = Timestamp(self._booted_at + main.task.started / os.sysconf("SC_CLK_TCK"))
        memory, unread = _memory(pid, started_at, mapped)
        groups = ThreadGroups(self.machine)
        unread += self._threads(pid, main, None if memory is None else memory.policy, groups)
        placing = main.placing
        return ProcessPlacement(
            pid=pid,
            process=printable(main.task.name.decode("utf-8", "surrogateescape")),
            parent=main.task.parent or None,
            started_at=started_at,
            pid_in_namespace=placing.ids[-1] if len(placing.ids) > 1 else None,
            threads=placing.threads,
            thread_groups=groups.values(),
            mappings=None if memory is None else memory.memory,
            cpu_time_source=groups.time_source,
            seccomp=None if placing.seccomp is None else _SECCOMP.get(placing.seccomp),
            sys_nice=placing.sys_nice,
            unread=tuple(unread),
        )

    def _threads(self, pid: int, main: Thread, policy: str | None, groups: ThreadGroups) -> list[UnreadPart]:
        """Adds the threads to the groups; the parts that could not be read."""
        try:
            ids = tasks.thread_ids(self.host, pid)
        except FileNotFoundError:
            if self.host.is_live:
                raise
            ids = []
        reader = _Policies(self.host, pid, policy, self.clock, min(self.clock() + _POLICY_SECONDS, self.deadline))
        if not ids:  # a capture without threads
            groups.add(main, reader.of(pid), self.since(main) or 0)
            more = (main.placing.threads or 1) - 1
            return [UnreadPart("threads", f"the capture has none but the main thread, and {more} others lived")] * (
                more > 0
            )
        read = unknown = 0
        others = tasks.read_threads(self.host, pid, [one for one in ids[:_MOST_THREADS] if one != pid])
        for thread in chain((main,), others):
            ticks = self.since(thread)
            groups.add(thread, reader.of(thread.id), ticks or 0)
            unknown += ticks is None
            read += 1
            if self.clock() > self.deadline:
                break
        overlooked = UnreadPart("threads", f"{plural(unknown, 'thread')} had no CPU time in the first reading")
        return [*self._not_all(ids, read), *[overlooked] * (unknown > 0), *reader.unread()]

    def _not_all(self, ids: Sequence[int], read: int) -> Iterator[UnreadPart]:
        if len(ids) > _MOST_THREADS:
            yield UnreadPart("threads", f"{len(ids) - read} of {len(ids)} threads were left out")
        elif self.clock() > self.deadline and read < len(ids):
            yield UnreadPart("threads", f"time ran out after {read} of {len(ids)} threads")

    def since(self, thread: Thread) -> int | None:
        """Clock ticks since the beginning; a thread that is newer began meanwhile. None = not known."""
        key = (thread.id, thread.task.started)
        self.times[key] = thread.task.ticks
        if self.before is None:
            return thread.task.ticks
        before = self.before.get(key, 0 if thread.task.started >= int(self.begun) else None)
        return None if before is None else thread.task.ticks - before


def _only_mapped(pid: int, memory: ProcessMappings) -> ProcessPlacement:
    """A process of which a capture has nothing else."""
    return ProcessPlacement(
        pid=pid,
        process=None,
        parent=None,
        started_at=None,
        pid_in_namespace=None,
        threads=None,
        thread_groups=(),
        mappings=memory.memory,
        cpu_time_source=None,
        seccomp=None,
        sys_nice=None,
        unread=(UnreadPart("status", "the capture has neither its `stat` nor its `status`"),),
    )


def _memory(
    pid: int, started_at: Timestamp | None, mapped: Mappings | None
) -> tuple[ProcessMappings | None, list[UnreadPart]]:
    """Memory of this very process, or why it was not read."""
    found = None if mapped is None else mapped.read.get(pid)
    if found is not None and found.started_at == started_at:
        return found, []
    reason = _NOT_ASKED if mapped is None else mapped.unread.get(pid, _STARTED_SINCE)
    return None, [UnreadPart("mappings", reason)]


class _Policies(Struct):
    """Memory policies of one process's threads."""

    host: Host
    pid: int
    main: str | None
    """The main thread's, where its numa_maps was read; None = it was not."""
    clock: Callable[[], float]
    until: float
    _left_out: int = 0
    _reason: str | None = None

    def of(self, thread: int) -> str | None:
        """None = not read."""
        if thread == self.pid and self.main is not None:
            return self.main
        if self._reason is not None:
            self._left_out += 1
            return None
        if self.clock() > self.until:
            self._reason = "the time for them ran out"
            self._left_out = 1
            return None
        try:
            return numa_maps.read_policy(self.host, self.pid, thread)
        except (FileNotFoundError, ProcessLookupError) as error:
            if self.host.is_live:  # it has just ended
                return None
            self._refuse(error)
        except (OSError, ParseError) as error:
            self._refuse(error)
        return None

    def _refuse(self, error: Exception) -> None:
        self._reason, self._left_out = printable(explain(error)), 1

    def unread(self) -> list[UnreadPart]:
        if self._reason is None:
            return []
        return [UnreadPart("policy", f"memory policies of {self._left_out} threads: {self._reason}")]
