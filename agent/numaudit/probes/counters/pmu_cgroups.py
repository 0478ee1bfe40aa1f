"""pmu where no BPF program may run: the kernel itself keeps the counts of cgroups apart (PERF_FLAG_PID_CGROUP).

That takes a descriptor for each cgroup, CPU and event, and makes each switch between cgroups dearer than the BPF
program does. So only some cgroups are watched, and of these only leaves: the events of an inner cgroup count all that
is below it too.
Source: perf_event_open(2); kernel/events/core.c (perf_cgroup_switch).
"""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Collection
from contextlib import suppress

from numaudit.errors import Unavailable
from numaudit.kernel import cgroup, files
from numaudit.kernel.cgroup_tree import CgroupTree
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.pmu.choose import Plan
from numaudit.probes.counters.accesses import AccessCounts, AccessSums
from numaudit.probes.counters.plan_events import PlanEvents, cannot_open, require_counts
from numaudit.probes.reasons import ProbeRefusal, Reason

MOST_CGROUPS = 64
_PART_OF_LIMIT = 2
"""Of the descriptors that this process may have, one in so many is for these."""
_Place = tuple[int, int]
"""A CPU's node and the CPU."""


class PmuOfCgroups:
    """The running probe."""

    def __init__(self, host: Host, plan: Plan) -> None:
        """See that the events count at all, then open them for each cgroup that is watched. Raises ProbeRefusal."""
        self._host, self.plan = host, plan
        self._sums = AccessSums(plan)
        self._opened: dict[int, dict[_Place, PlanEvents]] = {}
        """By cgroup."""
        self._wanted: frozenset[int] | None = None
        self.is_paused = True
        self._try_everywhere()
        self.resume()

    @property
    def how(self) -> str:
        return f"events of each cgroup, without BPF; {self.plan.set.id}"

    def read(self) -> AccessCounts:
        """All accesses since the events were opened. A cgroup that is new is counted from here on."""
        self._take()
        self._follow()
        accesses, times = self._sums.accesses, self._sums.times
        return AccessCounts(plan=self.plan, accesses=accesses, times=times, watched=frozenset(self._opened))

    def cgroups(self) -> set[int]:
        return self._sums.cgroups()

    def forget(self, cgroups: Collection[int]) -> int:
        return self._sums.forget(cgroups)

    def watch(self, cgroups: frozenset[int] | None) -> None:
        """None = all that may be watched. It takes effect at the next reading."""
        self._wanted = cgroups

    def run_time(self) -> None:
        """It has no program."""

    def pause(self) -> None:
        with suppress(OSError):
            self._take()
        self.close()
        self.is_paused = True

    def resume(self) -> None:
        """Open the events again. Raises ProbeRefusal."""
        try:
            self._follow()
        except BaseException:
            self.close()
            raise
        self.is_paused = False

    def close(self) -> None:
        for group in [*self._opened]:
            self._close(group)

    def _take(self) -> None:
        for group, by_place in self._opened.items():
            for place, events in by_place.items():
                self._sums.add(group, place, events.read())

    def _follow(self) -> None:
        """Have events for each watched cgroup on each CPU that is online. Raises ProbeRefusal."""
        places = self._places()
        wanted = self._choose(len(places))
        for group in self._opened.keys() - wanted.keys():
            self._close(group)
        for group, path in wanted.items():
            by_place = self._opened.setdefault(group, {})
            for place in by_place.keys() - places:
                by_place.pop(place).close()
            self._open(path, by_place, places - by_place.keys())

    def _open(self, path: str, by_place: dict[_Place, PlanEvents], places: Collection[_Place]) -> None:
        if not places:
            return
        try:
            folder = files.open_file(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # it has just ended
            return
        except OSError as error:
            raise cannot_open(self.plan, error) from error
        try:
            for place in places:
                try:
                    by_place[place] = PlanEvents.open(self.plan, place[1], folder)
                except OSError as error:
                    if error.errno == errno.ENODEV:  # gone offline this moment
                        continue
                    if error.errno == errno.ENOENT and not files.is_folder(path):  # it has just ended
                        return
                    raise cannot_open(self.plan, error) from error
        finally:
            os.close(folder)

    def _close(self, group: int) -> None:
        for events in self._opened.pop(group).values():
            events.close()
        self._sums.begin_again(group)

    def _choose(self, cpus: int) -> dict[int, str]:
        """Folders of the cgroups to watch, by id. Those that are watched stay. Raises ProbeRefusal."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = min(MOST_CGROUPS, descriptors // _PART_OF_LIMIT // (cpus * len(self.plan.events)))
        if not most:
            needed = _PART_OF_LIMIT * cpus * len(self.plan.events)
            text = (
                f"{cpus * len(self.plan.events)} descriptors are needed for each cgroup: a limit of {needed} at least"
            )
            raise ProbeRefusal(Reason.TOO_MANY_FILES, text)
        leaves = self._leaves()
        candidates = [one for one in leaves if self._wanted is None or one in self._wanted]
        candidates.sort(key=lambda one: one not in self._opened)
        return {one: leaves[one] for one in candidates[:most]}

    def _leaves(self) -> dict[int, str]:
        """Folders of the cgroups of version 2 that have none below them, by id."""
        try:
            hierarchies = cgroup.find_hierarchies(self._host)
        except Unavailable as error:
            raise ProbeRefusal(Reason.NO_CGROUPS, str(error)) from error
        assert hierarchies.unified is not None  # a session without it refuses every probe
        groups = CgroupTree(hierarchies.unified).groups()
        inner = {group.parent for group in groups if group.path != "/"}
        return {one.id: f"{hierarchies.unified}{one.path}" for one in groups if one.path not in {*inner, "/"}}

    def _places(self) -> set[_Place]:
        node_of_cpu = read_machine(self._host).node_of_cpu
        return {(node, cpu) for cpu, node in node_of_cpu.items()}

    def _try_everywhere(self) -> None:
        """Raises ProbeRefusal when the events count nothing on any CPU."""
        opened = []
        try:
            for _, cpu in self._places():
                opened.append(PlanEvents.open(self.plan, cpu))
            require_counts(self.plan, opened)
        except OSError as error:
            raise cannot_open(self.plan, error) from error
        finally:
            for events in opened:
                events.close()
