"""Memory that a container used, and from which node, by the kernel's scan passes.

In one pass through a process's memory each page that is used faults once, so the faults of a pass are bytes. What the
newest passes said is kept from tick to tick; samples of different passes are never added up.

What makes this less than simple:
- A pass may leave memory out: mappings that the scanning thread has not used lately (on 6.12, not on 6.1), and huge
  pages whose fault comes in the next pass. So two passes count together: of each side (the page's node, and
  whether it was used from there) the one that saw more. And a pass that saw less than half of what is known is passed
  over, unless four saw as little; one that saw less than a tenth always is.
- With threads on several nodes some pages fault twice in one pass and never in the next, since the scan and the work
  overlap. For pages that were used from their own node the pass counts that saw fewer; those that were used from
  another node are limited by the bytes on their node (pages_used.py).
- Memory that moved between two passes was seen in both, on two nodes. So memory that only the older one saw used from
  another node counts as far as the process maps more than the newer one saw.
- A pass through a large process takes minutes or hours: 256 MiB each second or minute. While one goes on for long, the
  part of the pass before it that was behind the scan's position is added to it: together one pass's length.
Source: kernel/sched/fair.c (task_numa_work), mm/memory.c (do_numa_page).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from numaudit.counted import HintFault, PagesUsed
from numaudit.engine.collectors.probes.pass_pages import (
    NO_PAGES,
    Pages,
    brought_home,
    bytes_by_side,
    most_of_both,
    most_of_each,
    no_more_than,
    shared_of,
    sum_of,
    together,
    total_of,
    without,
)
from numaudit.kernel.process_status import ProcessMemory
from numaudit.probes.hint_faults import PassUse, ScanPass

_SAW_THE_MEMORY = 0.5
"""A pass that saw no more than this share of what is known was not a pass through the memory."""
_SAW_NOTHING = 0.1
"""A pass that saw no more than this share of what is known says nothing, however many of them come in a row."""
_MOST_PASSED_OVER = 4
"""So many passes in a row are passed over that saw little; then they are right."""
_LONG = 120.0
"""Seconds after which a pass that goes on is joined with the end of the one before it."""
_OLDEST = 3600.0
"""Seconds after which a pass says nothing any more."""
_MOST_POSITIONS = 64
"""Of a pass that goes on: how many positions of the scan are remembered with what had been used by then."""


class _Position(Struct, frozen=True):
    """Progress of a pass, and the memory that had been used by then."""

    scanned_to: int
    pages: Pages


class _Process(Struct):
    """Scan passes of one process."""

    newest: Pages = field(default_factory=dict)
    """The newest pass that saw the memory."""
    known: Pages = field(default_factory=dict)
    """It, together with the one before it that did."""
    sizes: tuple[int, int] = (0, 0)
    """Pages of `known`: all, and those that are shared."""
    passed_over: int = 0
    """Passes since then that did not."""
    seen_at: float = 0.0
    """Seconds since the epoch: when the newest pass was through, as far as the ticks know."""
    home: int = 0
    """Pages that later passes brought home."""
    number: int | None = None
    """The pass that goes on."""
    current: Pages = field(default_factory=dict)
    since: float = 0.0
    """Seconds since the epoch: when the pass that goes on was first seen."""
    scanned_to: int = 0
    positions: list[_Position] = field(default_factory=list)
    last: Pages = field(default_factory=dict)
    """The pass before the one that goes on, whether or not it saw the memory."""
    last_positions: list[_Position] = field(default_factory=list)
    mapped: int | None = None
    """Pages that it maps; None = not known."""
    shareable: int | None = None
    """Those of files and of shared memory."""

    def take(self, passes: Mapping[int, PassUse], now: float) -> bool:
        """The process's passes that are in the map, by number. True: one has begun, so the one before it is through."""
        before = self.number
        for number in sorted(passes):
            if self.number is None or number > self.number:
                self._begin(number, now)
            if number == self.number:
                self._go_on(passes[number])
        return self.number != before

    def _begin(self, number: int, now: float) -> None:
        """A new pass: the one before it is through."""
        if self.current:
            seen, known = total_of(self.current), self._known()[1]
            is_little, is_nothing = seen <= _SAW_THE_MEMORY * known, seen <= _SAW_NOTHING * known
            if is_nothing or (is_little and self.passed_over < _MOST_PASSED_OVER):
                self.passed_over += not is_nothing
                self.home += brought_home(self.current)
            else:
                self.known = together(self.current, NO_PAGES if is_little else self.newest)
                self.sizes = total_of(self.known), total_of(shared_of(self.known))
                self.newest, self.seen_at = self.current, now
                self.passed_over = self.home = 0
        self.last, self.last_positions = self.current, self.positions
        self.number, self.since, self.current, self.positions = number, now, {}, []

    def _go_on(self, use: PassUse) -> None:
        """Counts of a pass rise; where the probe had to make room in its map, they begin at 0 once more."""
        if use.pages != self.current:
            before = self.current
            has_fallen = before and any(count > use.pages.get(kind, 0) for kind, count in before.items())
            self.current = most_of_both(use.pages, before) if has_fallen else use.pages
            self.positions.append(_Position(use.scanned_to, self.current))
            if len(self.positions) > _MOST_POSITIONS:
                del self.positions[1::2]
        self.scanned_to = use.scanned_to

    def used(self, now: float) -> tuple[Pages, float, bool]:
        """Pages by kind, when they were seen, and whether all of a pass is in it."""
        (known, size), current = self._known(), total_of(self.current)
        if current >= size:  # also where no pass is through yet
            return self.current, now, False
        if now - self.since > _LONG and self.scanned_to and current:
            return self._limited(sum_of(self.current, self._rest()), self.current), now, False
        return without(known, self.home + brought_home(self.current)), self.seen_at, True

    @property
    def saw_too_much(self) -> bool:
        """More, or more that is shared, than the process mapped when it was asked last."""
        total, shared = self.sizes
        return (self.mapped is not None and total > self.mapped) or (
            self.shareable is not None and shared > self.shareable
        )

    def _known(self) -> tuple[Pages, int]:
        """As far as there is room for it, and how many pages these are."""
        if not self.saw_too_much:
            return self.known, self.sizes[0]
        limited = self._limited(self.known, self.newest)
        return limited, total_of(limited)

    def _limited(self, pages: Pages, newer: Pages) -> Pages:
        """Two passes joined, of which the newer one counts in full."""
        shared = shared_of(pages)
        if self.shareable is not None and total_of(shared) > self.shareable:
            pages = {**pages, **no_more_than(self.shareable, shared, shared_of(newer))}
        if self.mapped is not None and total_of(pages) > self.mapped:
            pages = no_more_than(self.mapped, pages, newer)
        return pages

    def _rest(self) -> Pages:
        """Pages that the last pass used behind the position of the current one."""
        for position in self.last_positions:
            if position.scanned_to >= self.scanned_to:
                return {kind: count - position.pages.get(kind, 0) for kind, count in self.last.items()}
        return NO_PAGES


_NONE: Mapping[int, _Process] = {}


def _of_all(processes: Iterable[Pages]) -> Pages:
    """Private pages of each, and shared ones as the process saw them that used most of them."""
    private: dict[HintFault, int] = {}
    shared: list[Pages] = []
    for pages in processes:
        for fault, count in pages.items():
            if not fault.is_shared:
                private[fault] = private.get(fault, 0) + count
        shared.append(shared_of(pages))
    return sum_of(private, most_of_each(shared))


class Begun(NamedTuple):
    """Cgroups in which something has begun since the reading before."""

    passes: set[int]
    """A scan pass of some process, so that the one before it is through."""
    processes: set[int]
    """A process that was not known."""


class ScanPasses(Struct):
    """Remembers the passes of all processes from tick to tick."""

    _processes: dict[int, dict[int, _Process]] = field(default_factory=dict)
    """By cgroup id, then by process id."""

    def take(self, by_cgroup: Mapping[int, Mapping[ScanPass, PassUse]], now: float) -> Begun:
        """Take over the passes in a reading. `now`: seconds since the epoch."""
        begun = Begun(set(), set())
        for cgroup, passes in by_cgroup.items():
            by_process: dict[int, dict[int, PassUse]] = {}
            for (process, number), use in passes.items():
                own = by_process.get(process)
                if own is None:
                    by_process[process] = {number: use}
                else:
                    own[number] = use
            processes = self._processes.get(cgroup)
            if processes is None:
                processes = self._processes[cgroup] = {}
            for process, own in by_process.items():
                known = processes.get(process)
                # Fewer passes than before: it executed another program, or is another process of this id.
                if known is None or (known.number is not None and max(own) < known.number):
                    known = processes[process] = _Process()
                    begun.processes.add(cgroup)
                if known.take(own, now):
                    begun.passes.add(cgroup)
        return begun

    def saw_too_much(self, cgroups: Iterable[int]) -> bool:
        """Did a pass of one of their processes see more than the process mapped when it was asked last?"""
        return any(one.saw_too_much for id_ in cgroups for one in self._processes.get(id_, _NONE).values())

    def cgroups(self) -> set[int]:
        """Those of which something is known."""
        return {cgroup for cgroup, processes in self._processes.items() if processes}

    def keep_only(self, cgroup: int, processes: Mapping[int, ProcessMemory | None], page_size: int) -> None:
        """Forget processes of a cgroup that have ended. `processes`: what each that lives maps, if that is known."""
        known = self._processes.get(cgroup, {})
        for process in known.keys() - processes.keys():
            del known[process]
        for process, one in known.items():
            maps = processes[process]
            one.mapped = None if maps is None else sum(maps) // page_size
            one.shareable = None if maps is None else (maps.file + maps.shmem) // page_size

    def keep_cgroups(self, cgroups: Collection[int]) -> None:
        """Forget cgroups that are no more."""
        for cgroup in self._processes.keys() - set(cgroups):
            del self._processes[cgroup]

    def of(self, cgroups: Iterable[int], page_size: int, now: float) -> PagesUsed | None:
        """Pages that the processes in these cgroups used; None = no pass of theirs is known.

        Memory that several processes share is used by each of them, and counts once: as the process saw it that used
        most of it. Where only some of the memory is shared by some of them, that is less than all.
        """
        found: list[Pages] = []
        oldest, is_whole = now, True
        for cgroup in cgroups:
            for process in self._processes.get(cgroup, _NONE).values():
                pages, seen_at, whole = process.used(now)
                if not pages or now - seen_at > _OLDEST:
                    continue
                found.append(pages)
                oldest, is_whole = min(oldest, seen_at), is_whole and whole
        if not found:
            return None
        remote, local, home = bytes_by_side(found[0] if len(found) == 1 else _of_all(found), page_size)
        return PagesUsed(remote, local, home, max(0.0, now - oldest), is_whole)

    def by_process(self, cgroups: Iterable[int], page_size: int, now: float) -> dict[int, PagesUsed]:
        """The same of each process that a pass is known of. Memory that several share counts for each of them."""
        found: dict[int, PagesUsed] = {}
        for number, process in (one for cgroup in cgroups for one in self._processes.get(cgroup, {}).items()):
            pages, seen_at, whole = process.used(now)
            if pages and now - seen_at <= _OLDEST:
                remote, local, home = bytes_by_side(pages, page_size)
                found[number] = PagesUsed(remote, local, home, max(0.0, now - seen_at), whole)
        return found
