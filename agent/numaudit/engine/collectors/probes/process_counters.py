"""Memory accesses of single processes during a measurement, where the PMU tells local from remote.

Their events are opened at its beginning and closed at its end, only when processes were asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from msgspec import Struct, field

from numaudit.engine.collectors.base import TickInputs
from numaudit.engine.collectors.probes.counts import basis_of
from numaudit.errors import ParseError, Unavailable, printable
from numaudit.kernel import tasks
from numaudit.kernel.host import Host, explain
from numaudit.pmu.choose import Plan
from numaudit.probes.counters.accesses import accesses_of, times_of
from numaudit.probes.counters.process_events import ProcessEvents, most_threads
from numaudit.probes.pmu import PMU
from numaudit.snapshot.counted import CountedOfProcess, ProcessAccesses


class ProcessCounters(Struct):
    """The open events of one measurement."""

    plan: Plan
    _opened: dict[int, tuple[int, ProcessEvents]] = field(default_factory=dict)
    """By process: its start in clock ticks, and its events."""
    _uncounted: dict[int, str] = field(default_factory=dict)

    @classmethod
    def open(cls, tick: TickInputs, processes: Iterable[int]) -> ProcessCounters | str:
        """Of as many as there is room for, in the order of their ids. The reason where the processor counts none.

        The events are those of the probe that counts containers, which has seen that they do count here.
        """
        try:
            counters = cls(tick.read(PMU).plan)
        except (Unavailable, OSError, ParseError) as error:
            return printable(explain(error))
        room = most_threads(counters.plan)
        try:
            for pid in sorted(processes):
                room -= counters._add(tick.host, pid, room)
        except BaseException:
            counters.close()
            raise
        return counters

    def _add(self, host: Host, pid: int, room: int) -> int:
        """Number of threads that count from now on."""
        try:
            started = tasks.read_main_task(host, pid).started
            events = ProcessEvents.open(host, self.plan, pid, room)
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            return 0
        except (Unavailable, OSError, ParseError) as error:
            self._uncounted[pid] = printable(explain(error))
            return 0
        self._opened[pid] = started, events
        return len(events.by_thread)

    def take(self, host: Host, processes: Collection[int]) -> ProcessAccesses:
        """Accesses of those of these processes that were counted from the beginning; all events are closed."""
        counted, uncounted = {}, {}
        try:
            for pid in processes:
                try:
                    counted[pid] = self._read(host, pid)
                except (Unavailable, OSError, ParseError) as error:
                    uncounted[pid] = printable(explain(error))
        finally:
            self.close()
        return ProcessAccesses(basis_of(self.plan), counted, uncounted)

    def _read(self, host: Host, pid: int) -> CountedOfProcess:
        """Raises Unavailable with the reason, OSError, ParseError."""
        if pid in self._uncounted:
            raise Unavailable(self._uncounted[pid])
        started, events = self._opened.get(pid, (None, None))
        if events is None or tasks.read_main_task(host, pid).started != started:
            raise Unavailable("it began after the measurement did")
        words = events.read()
        found = accesses_of(self.plan, words)
        local, remote = (0, 0) if found is None else found
        return CountedOfProcess(round(local), round(remote), *times_of(words))

    def close(self) -> None:
        for _, events in self._opened.values():
            with suppress(OSError):
                events.close()
        self._opened.clear()
