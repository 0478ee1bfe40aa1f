"""The events of a plan, opened on the threads of one process: they count it apart, wherever it runs.

Threads that begin later count with the one that started them. What a thread counted stays when it ends.
"""

from __future__ import annotations

import errno
import resource

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel import tasks
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event
from numaudit.pmu.choose import Plan
from numaudit.probes.counters.accesses import Words
from numaudit.probes.counters.plan_events import PlanEvents, cannot_open

MOST_THREADS = 4096
_PART_OF_LIMIT = 4
"""Of the descriptors that this process may have, one in so many is for these."""
_TRIES = 3


class ProcessEvents(Struct, frozen=True):
    """Descriptors of one process's events, switched on. The caller closes them."""

    by_thread: tuple[PlanEvents, ...]
    """Of each thread that lived."""

    @classmethod
    def open(cls, host: Host, plan: Plan, pid: int, room: int) -> ProcessEvents:
        """Of all its threads, if they are no more than `room`.

        Raises Unavailable with the reason, and FileNotFoundError when it has ended.
        """
        for _ in range(_TRIES):
            ids = tasks.thread_ids(host, pid)
            if len(ids) > room:
                text = f"it has {len(ids)} threads, and {room} more can be counted, of {most_threads(plan)} in all"
                raise Unavailable(text)
            opened = cls(tuple(_open_each(plan, ids)))
            try:
                if {*tasks.thread_ids(host, pid)} <= {*ids}:
                    return opened
            except OSError:
                opened.close()
                raise
            # A thread that began meanwhile may be counted with the one that started it, or not.
            opened.close()
        raise Unavailable("it started threads while its events were opened")

    def read(self) -> Words:
        """Sums of its threads' counts and times since the events were opened. Raises OSError."""
        rows = [
            [word for one in events.descriptors for word in perf_event.read_scalable(one)] for events in self.by_thread
        ]
        return tuple(map(sum, zip(*rows, strict=True)))

    def close(self) -> None:
        for events in self.by_thread:
            events.close()


def most_threads(plan: Plan) -> int:
    """Number of threads whose events can be open at a time."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(MOST_THREADS, descriptors // _PART_OF_LIMIT // len(plan.events))


def _open_each(plan: Plan, ids: list[int]) -> list[PlanEvents]:
    """The events of each of these threads that still lives. Raises Unavailable."""
    opened: list[PlanEvents] = []
    try:
        for thread in ids:
            try:
                opened.append(PlanEvents.of_thread(plan, thread))
            except ProcessLookupError:
                continue
    except OSError as error:
        for one in opened:
            one.close()
        if error.errno == errno.EINVAL:  # of a plan whose events could be opened on a CPU
            raise Unavailable("this kernel cannot count the threads of a process; Linux 5.13 or newer can") from error
        raise cannot_open(plan, error) from error
    return opened
