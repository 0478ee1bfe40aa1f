"""Memory that each container used from another node: what scan passes saw, as far as it is still there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.engine.collectors.base import TickInputs
from numaudit.engine.collectors.probes.scan_passes import ScanPasses
from numaudit.errors import ParseError
from numaudit.kernel import tasks
from numaudit.kernel.cgroup import Cgroup
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import Passes
from numaudit.snapshot import BytesByNode, ContainerId, Resident, Snapshot
from numaudit.snapshot.counted import SeenRemote

_charged = attrgetter("anon", "file", "shmem", "hugetlb")
"""Memory types that processes can map."""
_NOTHING: Mapping[int, int] = {}
_MAPS_NOTHING = tasks.ProcessMemory(0, 0, 0)
_ASK_AGAIN = 120.0
"""Seconds. Memory that belongs to other containers may come and go meanwhile, or a process may change its cgroup."""
_CLOCK = 0.001
"""Seconds: two times that differ by less are the same."""
_MUCH = 1 / 64
"""Share of a container's memory: as long as less than this has come or gone, what its processes map is as it was."""


class _Mapped(Struct, frozen=True):
    """Memory of a container's processes when they were asked last."""

    asked_at: float
    """Seconds since the epoch."""
    resident: Resident | None
    """The container's own memory in that tick."""
    size: int
    """Bytes of it that processes can map."""
    memory: list[tasks.ProcessMemory]
    """Of each process that can be read."""

    def holds(self, resident: Resident | None, now: float) -> bool:
        """Is it of the last two minutes, with about as much memory as now? A clock that was set back says nothing."""
        then = self.resident
        if then is None or resident is None or not 0 <= now - self.asked_at < _ASK_AGAIN:
            return False
        if then is resident:
            return True
        return abs(_mappable(resident) - self.size) <= _MUCH * self.size


class OnNodes(Struct, frozen=True):
    """Bytes on each node that the kernel may sample."""

    own: Mapping[int, int]
    """The container's."""
    others: Mapping[int, int]
    """Shared memory that is not the container's own; a node is left out where nobody says."""

    @classmethod
    def of(cls, resident: Resident | None, shmem_on: Mapping[int, int]) -> OnNodes:
        """`shmem_on`: shared memory on each node, of anybody."""
        if resident is None or resident.anon is None:
            return _NOWHERE
        anon, file, shmem = resident.anon, resident.file or _NOTHING, resident.shmem or _NOTHING
        own = {}
        for node in {**anon, **file, **shmem}:  # the kernel samples what processes map, and no huge pages of the pool
            files = file.get(node, 0) + shmem.get(node, 0)
            in_use = files if resident.mapped is None else min(files, resident.mapped.get(node, 0))
            own[node] = anon.get(node, 0) + in_use
        return cls(own, {node: max(0, size - shmem.get(node, 0)) for node, size in shmem_on.items()})

    def most(self, other: OnNodes) -> OnNodes:
        """Of each node the larger number of the two."""
        return OnNodes(_larger(self.own, other.own), _larger(self.others, other.others))


_NOWHERE = OnNodes(_NOTHING, _NOTHING)


class Then(Struct, frozen=True):
    """The most that was on each node while it was seen used remotely.

    From the tick before the pass began, for a reading does not say when since the last one its faults were, until the
    newest of them.
    """

    since: float
    """Seconds since the epoch: the pass began."""
    seen_at: float
    """Seconds since the epoch: the newest faults."""
    on: OnNodes

    def holds(self, since: float, seen_at: float) -> bool:
        """Whether the pass is still this one, and has seen no more."""
        return self.is_of(since) and abs(self.seen_at - seen_at) <= _CLOCK

    def is_of(self, since: float) -> bool:
        return abs(self.since - since) <= _CLOCK


class PagesUsedByContainer(Struct):
    """Remembers scan passes, and what processes map, from tick to tick.

    A container's processes are asked when one of them is new, when much of the container's own memory has come or gone,
    when a pass saw more than they mapped, and every two minutes: else each tick would read thousands of
    files and find the same.
    """

    _passes: ScanPasses = field(default_factory=ScanPasses)
    _mapped: dict[ContainerId, _Mapped] = field(default_factory=dict)
    _then: dict[ContainerId, Then] = field(default_factory=dict)
    _last: dict[ContainerId, OnNodes] = field(default_factory=dict)
    """As of the last tick."""

    def take(self, tick: TickInputs, snapshot: Snapshot, passes: Passes | None) -> dict[ContainerId, SeenRemote]:
        """Pages that the newest scan passes saw used, by container, with `passes` from now on."""
        now, known = time.time(), self._passes
        begun = set[int]() if passes is None else known.take(passes.by_cgroup, tick.machine.page_size, now)
        groups_of = tick.census.groups
        known.keep_cgroups({group.id for groups in groups_of.values() for group in groups})
        scanned, page_size = known.cgroups(), tick.machine.page_size
        before, self._mapped = self._mapped, {}
        then_there, self._then = self._then, {}
        last_there, self._last = self._last, {}
        found: dict[ContainerId, SeenRemote] = {}
        shmem_on = {one.node: size for one in snapshot.nodes for size in (one.resident.shmem or {}).values()}
        for owner, groups in groups_of.items():
            ids, on = [group.id for group in groups], OnNodes.of(snapshot.residency.get(owner), shmem_on)
            self._last[owner] = on
            if scanned.isdisjoint(ids):
                continue
            resident, mapped = snapshot.residency.get(owner), before.get(owner)
            if mapped is None or not mapped.holds(resident, now) or not begun.isdisjoint(ids):
                mapped = self._ask(tick, groups, resident, now)
            self._mapped[owner] = mapped
            used = known.of(ids, page_size, now)
            if used is None:
                continue
            since, seen_at, then = now - used.pass_age, now - used.age, then_there.get(owner)
            if then is None or not then.holds(since, seen_at):
                before_it = then.on if then is not None and then.is_of(since) else last_there.get(owner, on)
                then = Then(since, seen_at, before_it.most(on))
            self._then[owner] = then
            found[owner] = limited(used, resident, mapped.memory, on, then.on)
        return found

    def by_process(self, tick: TickInputs) -> dict[ContainerId, dict[int, SeenRemote]]:
        """Of the containers whose processes are asked for, by what the last `take` found."""
        if not tick.with_processes:
            return {}
        now, page_size = time.time(), tick.machine.page_size
        return {
            owner: self._passes.by_process([group.id for group in groups], page_size, now)
            for owner, groups in tick.census.groups.items()
            if tick.mappings_of is None or owner in tick.mappings_of
        }

    def _ask(self, tick: TickInputs, groups: Sequence[Cgroup], resident: Resident | None, now: float) -> _Mapped:
        """Memory of each process that can be read. Passes of processes that have ended are forgotten."""
        mapped: list[tasks.ProcessMemory] = []
        for group in groups:
            processes = {pid: _memory_of(tick.host, pid) for pid in _processes(tick, group)}
            self._passes.keep_only(group.id, processes)
            mapped += filter(None, processes.values())
        return _Mapped(now, resident, 0 if resident is None else _mappable(resident), mapped)


def _mappable(resident: Resident) -> int:
    """Bytes of it that processes can map; of the page cache those that they do, where the kernel says so."""
    return _total(resident.judged) + _total(resident.file if resident.mapped is None else resident.mapped)


def limited(
    used: SeenRemote,
    resident: Resident | None,
    mapped: Sequence[tasks.ProcessMemory],
    on: OnNodes,
    then: OnNodes = _NOWHERE,
) -> SeenRemote:
    """The same with what the processes map, and no more on a node than they can still have there.

    Memory may have moved since it was seen: the bytes on its node are a limit, and what has left the node since `then`
    may all be of it. Memory of other containers that is sampled is shared memory: the kernel samples no file that is
    only read. `mapped`: of each process that can be read. `on`, `then`: memory on each node now, and when it was seen.
    """
    if resident is None or resident.anon is None:
        return replace(used, mapped=sum(map(sum, mapped))) if mapped else used
    anon, file, shmem, hugetlb = map(_total, _charged(resident))
    sums, most = _of_all(sum, mapped), _of_all(max, mapped)
    of_others = max(0, most.shmem - shmem)
    by_node: dict[int, int] = {}
    for (_, node), size in used.by_pair.items():
        by_node[node] = by_node.get(node, 0) + size
    left: dict[int, int] = {}
    for node, size in by_node.items():
        own, others = on.own.get(node, 0), on.others.get(node, of_others)
        gone = max(0, then.own.get(node, 0) - own)
        if of_others:
            gone += max(0, then.others.get(node, 0) - others)
        left[node] = min(max(0, size - gone), own + min(of_others, others))
    by_pair = {pair: size * left[pair[1]] // by_node[pair[1]] for pair, size in used.by_pair.items()}
    known = used.mapped
    if mapped:
        # Children share their parent's memory, and processes share files: that counts once where the sums say so.
        private = max(most.anon, min(sums.anon, anon))
        known = private + min(sums.file, most.file + file) + min(sums.shmem, most.shmem + shmem) + hugetlb
    return SeenRemote(by_pair, used.age, used.passes_since, known)


def _of_all(combine: Callable[[Iterable[int]], int], processes: Sequence[tasks.ProcessMemory]) -> tasks.ProcessMemory:
    """Their memory of each kind, combined."""
    if len(processes) == 1:  # as in most containers
        return processes[0]
    return tasks.ProcessMemory(*map(combine, zip(*processes, strict=True))) if processes else _MAPS_NOTHING


def _total(by_node: BytesByNode | None) -> int:
    return sum(by_node.values()) if by_node else 0


def _larger(one: Mapping[int, int], other: Mapping[int, int]) -> Mapping[int, int]:
    return {**one, **{node: size for node, size in other.items() if size > one.get(node, -1)}}


def _processes(tick: TickInputs, group: Cgroup) -> tuple[int, ...]:
    try:
        return tick.reader.processes(group.path)
    except OSError:  # it has ended
        return ()


def _memory_of(host: Host, pid: int) -> tasks.ProcessMemory | None:
    try:
        return tasks.read_memory(host, pid)
    except (OSError, ParseError):  # it has ended, or may not be read
        return None
