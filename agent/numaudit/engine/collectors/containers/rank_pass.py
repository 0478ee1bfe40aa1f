"""One pass over the processes of one container, in as many ticks as the budget makes of it.

First the command line, the environment and the parent of each process are read, and its memory policy if that is asked
for. If one of them declares a placement, is a numbered rank or is bound by its policy, the memory, the threads and the
devices of all of them are read after that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from math import isinf

from msgspec import Struct, field

from numaudit.encoding.value import Timestamp
from numaudit.engine.collectors.base import SkippedItems, TickInputs
from numaudit.engine.collectors.containers.declared import DeclarationReader
from numaudit.engine.collectors.containers.mapped import Mapped, ProcessWalk
from numaudit.engine.collectors.containers.mappings import HIDDEN, processes_of
from numaudit.engine.collectors.containers.processes import ProcessReader
from numaudit.errors import ParseError, printable
from numaudit.kernel import tasks
from numaudit.kernel.devices.descriptors import HeldDevices
from numaudit.kernel.host import explain
from numaudit.kernel.memory import numa_maps
from numaudit.ranks.declaration import Placeable, ProcessTold, Told
from numaudit.ranks.policy import BINDING, understood
from numaudit.ranks.table import declarations
from numaudit.snapshot import Container, Mappings
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement, WatchedProcesses
from numaudit.topology.quantity import in_units

_MOST_PROCESSES = 4096
"""Processes of one container that are looked at."""
_SECONDS_PER_BYTE = 0.037 / (1 << 30)
"""To walk pages of 4 KiB, until walks on this host have shown it. Larger pages take less."""
_LEAST_WALK = 16 << 20
"""Bytes of a process whose walk shows how long others take."""
_WALKS = 32


class WatchBudget(Struct):
    """The rest of one tick."""

    clock: Callable[[], float]
    """CPU time of this thread."""
    end: float
    """By that clock."""
    whole: float
    """Seconds of the tick's budget; infinite = no process is too large for it."""
    processes: int
    is_whole: bool = True
    """Was nothing of it used yet?"""

    @property
    def is_left(self) -> bool:
        return self.processes > 0 and self.clock() < self.end

    @property
    def is_over(self) -> bool:
        return self.clock() > self.end

    def spend(self, count: int = 1) -> None:
        self.processes -= count
        self.is_whole = False

    def has_time_for(self, seconds: float) -> bool:
        """Is there as much left? Work for which a whole tick suffices may always begin one."""
        return seconds <= self.whole if self.is_whole else self.clock() + seconds <= self.end


class WalkTime(Struct):
    """CPU time that the kernel needs for numa_maps, by the slowest of the newest walks."""

    _newest: deque[float] = field(default_factory=lambda: deque(maxlen=_WALKS))

    def of(self, size: int) -> float:
        """Seconds for a process of this size in bytes."""
        return size * max(self._newest, default=_SECONDS_PER_BYTE)

    def learn(self, size: int, seconds: float) -> None:
        if size >= _LEAST_WALK:
            self._newest.append(seconds / size)


class RankPass(Struct):
    """A container, and what is known of its processes so far."""

    container: Container
    here: Placeable
    declared: DeclarationReader
    as_a_whole: Told
    walk_time: WalkTime
    _to_ask: deque[int]
    """Processes whose command lines have still to be read."""
    _hidden: int
    """Processes in another PID namespace."""
    _left_out: int
    with_policies: bool = False
    """Is a process that nothing declares, but that its memory policy binds, looked for, too?"""
    _is_bound: bool = False
    """Is there one?"""
    _to_read: deque[int] | None = None
    """Processes that have still to be read; None = it is not known yet if one of them declares anything."""
    _parents: dict[int, int | None] = field(default_factory=dict)
    _started: dict[int, int] = field(default_factory=dict)
    _told: dict[int, ProcessTold] = field(default_factory=dict)
    _placed: list[ProcessPlacement] = field(default_factory=list)
    _refused: dict[int, str] = field(default_factory=dict)
    """Processes of which something could not be read, and why."""
    _unread: dict[int, str] = field(default_factory=dict)
    """Of these, the ones of which nothing could be read."""

    @classmethod
    def of(
        cls,
        container: Container,
        here: Placeable,
        tick: TickInputs,
        budget: WatchBudget,
        walk_time: WalkTime,
        *,
        with_policies: bool = False,
    ) -> RankPass:
        """Read the ids of its processes, which costs a process for each of its cgroups."""
        groups = tick.census.groups[container.id]
        budget.spend(len(groups))
        pids = processes_of(tick.reader, groups, SkippedItems())
        seen = sorted(pid for pid in pids if pid)
        reader = DeclarationReader(tick.host, float("inf"), HeldDevices(tick.host), SkippedItems())
        return cls(
            container,
            here,
            reader,
            reader.as_a_whole(container) if seen else Told(),
            walk_time,
            deque(seen[:_MOST_PROCESSES]),
            len(pids) - len(seen),
            max(0, len(seen) - _MOST_PROCESSES),
            with_policies,
        )

    @property
    def processes(self) -> int:
        """Those that live, as far as that is known now."""
        asked = len(self._parents) + len(self._unread.keys() - self._parents)
        return asked + len(self._to_ask) + self._hidden + self._left_out

    def goes_on(self, tick: TickInputs, budget: WatchBudget) -> bool:
        """Work as long as the budget lasts; is there more to do?"""
        while self._to_ask and budget.is_left:
            self._ask(tick, self._to_ask.popleft(), budget)
        if self._to_ask:
            return True
        if self._to_read is None:
            self._to_read = deque(self._parents) if self._is_bound or self._declares() else deque()
        if not self._to_read:
            return False
        reader = ProcessReader(tick.host, tick.machine, budget.end, None, budget.clock)
        walk = ProcessWalk(tick.host, tick.reader.page_size, {}, keeps_processes=True)
        while self._to_read and budget.is_left:
            if not self._read(self._to_read[0], reader, walk, budget):
                return True
            self._to_read.popleft()
        return bool(self._to_read)

    def _ask(self, tick: TickInputs, pid: int, budget: WatchBudget) -> None:
        budget.spend()
        try:
            task = tasks.read_main_task(tick.host, pid)
            why = self.declared.read(pid)
        except (FileNotFoundError, ProcessLookupError):
            return
        except (OSError, ParseError) as error:
            self._refused[pid] = self._unread[pid] = printable(explain(error))
            return
        if why is not None:
            self._refused[pid] = why
        self._parents[pid], self._started[pid] = task.parent or None, task.started
        if self.with_policies and not self._is_bound:
            self._is_bound = self._has_binding_policy(tick, pid)

    def _has_binding_policy(self, tick: TickInputs, pid: int) -> bool:
        """Of its main thread."""
        try:
            text = numa_maps.policy_of(tick.host, pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        except (OSError, ParseError) as error:
            self._refused.setdefault(pid, printable(explain(error)))
            return False
        found = None if text is None else understood(text)
        return found is not None and found.kind in BINDING

    def _declares(self) -> bool:
        """Does any of its processes declare a placement, or is one of them a numbered rank?"""
        for pid in self._parents:
            told = self.declared.told(pid, self._parents, self.as_a_whole)
            if told.rank is not None or declarations(told, self.here):
                return True
        return False

    def _read(self, pid: int, reader: ProcessReader, walk: ProcessWalk, budget: WatchBudget) -> bool:
        """False = there is not enough time left in this tick."""
        try:
            mapped = self._mapped(pid, walk, budget)
            if mapped is None:
                return False
            had_all_of_it = budget.is_whole
            budget.spend()
            if tasks.read_main_task(reader.host, pid).started != self._started[pid]:
                return True
            placement = reader.process(pid, mapped)
            if budget.is_over and not had_all_of_it:
                return False  # some of its threads may be missing
            told = self.declared.process(pid, self._parents, self.as_a_whole, self.here)
        except (FileNotFoundError, ProcessLookupError):
            return True
        except (OSError, ParseError) as error:
            self._refused[pid] = self._unread[pid] = printable(explain(error))
            return True
        if placement is not None:
            self._told[pid] = told
            self._placed.append(placement)
            if placement.unread:
                self._refused.setdefault(pid, placement.unread[0].reason)
        return True

    def _mapped(self, pid: int, walk: ProcessWalk, budget: WatchBudget) -> Mappings | None:
        """Its memory, or why it is not read. None = later. Raises OSError when it has ended."""
        one = Mapped(walk)
        try:
            size = 0 if isinf(budget.whole) else sum(tasks.read_memory(walk.host, pid))
            expected = self.walk_time.of(size)
            if expected > budget.whole:
                one.unread[pid] = (
                    f"to read where its {in_units(size)} are would take about {expected:.2g} s of CPU time, more than "
                    f"ranks.max_cpu_time ({budget.whole:g} s)"
                )
            elif not budget.has_time_for(expected):
                return None
            else:
                begun = budget.clock()
                mappings = numa_maps.read(walk.host, pid)
                self.walk_time.learn(size, budget.clock() - begun)
                one.add(pid, mappings)
        except (FileNotFoundError, ProcessLookupError):
            raise
        except (OSError, ParseError) as error:
            one.unread[pid] = printable(explain(error))
        return Mappings({}, {}, {}, len(one.read), 1, read=one.read, unread=one.unread)

    def watched(self) -> WatchedProcesses | None:
        """All that was read; None = nothing in it declares a placement."""
        if not self._placed:
            return None
        missing = self._hidden + self._left_out + len(self._unread)
        processes = ContainerProcesses(
            tuple(self._placed), len(self._placed) + missing, self._why_missing() if missing else None, "start"
        )
        return WatchedProcesses(processes, self._told, Timestamp(time.time()))

    def unread(self) -> tuple[int, str | None]:
        """Processes that were not read, or not as they must be, and the reason for the first; None = there is none."""
        missing = self._hidden + self._left_out + len(self._refused)
        return missing, self._why_missing() if missing else None

    def _why_missing(self) -> str:
        if self._hidden:
            return HIDDEN
        if self._unread or (self._refused and not self._left_out):
            return next(iter(self._unread.values() or self._refused.values()))
        return f"only {_MOST_PROCESSES} processes of a container are read"
