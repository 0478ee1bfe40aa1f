"""Ways in which bytes came to the wrong nodes, judged tick by tick while they come; and memory that the kernel moves of
its own accord: demoted to slower tiers, whatever was promised, and pages that NUMA balancing could not bring home.

A node that was full when they were allocated may have room again at the tick, because kswapd has freed some of it. So
what counts is what happened since the previous tick: allocations that were meant for a node and went to another
(`numa_foreign`), and pages that the container's own tasks moved away. For bytes that were there before, it is unknown.

The kernel counts by cgroup and node what it demotes (pgdemote_*, pgpromote_success), since the cgroup was made, so
nobody need have watched. It counts page cache too, and what was freed since; so it explains at most the judged bytes
that are on slower nodes now, and none that page cache there explains.

Source: Documentation/admin-guide/numastat.rst, mm/page_alloc.c (zone_statistics), mm/migrate.c.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Literal, NamedTuple, TypeVar, get_args

from msgspec import Struct

from numaudit.evaluation.causes.placement import bytes_outside
from numaudit.evaluation.rates import increase
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Migrated, MigratedPages, Sampled
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

Key = TypeVar("Key", bound=Hashable)
Passing = Literal["a full node", "a migration by its own tasks"]
"""Events without a trace: they show only to an agent that watches while bytes come."""
PASSING = _FULL, _MIGRATION = get_args(Passing)
NUMA_BALANCING = "numa_misplaced"
_OTHERS = ("syscall_or_cpuset", "mempolicy_mbind", "demotion", "damon")
"""Of the kernel's other reasons to migrate pages (enum migrate_reason) those that change the node."""
_HUGE_PAGE = 2 << 20
_NOTHING: Mapping[int, int] = {}


class Arrival(Struct, frozen=True):
    """Bytes of one container that came to other nodes than the wanted ones, by the way they came. All in bytes."""

    wanted: NodeSet
    outside: int
    """On other nodes now."""
    full: Mapping[int, int] = {}
    """Wanted node -> what came while it was full: allocations for it went to other nodes."""
    moved: Mapping[str, int] = {}
    """The kernel's reason -> what the container's tasks moved away from the wanted nodes."""
    unwatched: Mapping[Passing, int] = {}
    """Events that were not measured, or gave no answer -> bytes that came meanwhile."""

    def missed(self, limit: int) -> tuple[Passing, ...]:
        """Events that were not watched while more than this number of bytes came."""
        return tuple([what for what in PASSING if self.unwatched.get(what, 0) > limit])

    def shrunk_to(self, outside: int) -> Arrival:
        """The same when some of the bytes have gone. Which of them is unknown, so those not watched may all be left."""
        part = outside / self.outside
        full = {node: round(size * part) for node, size in self.full.items()}
        moved = {reason: round(size * part) for reason, size in self.moved.items()}
        unwatched = {what: min(size, outside) for what, size in self.unwatched.items()}
        return Arrival(self.wanted, outside, full, moved, unwatched)


def arrival(
    container: ContainerId,
    wanted: NodeSet,
    outside: int,
    now: Snapshot,
    before: Snapshot | None,
    earlier: Arrival | None,
    turned_away: ForeignAllocations | None = None,
) -> Arrival:
    """Arrivals known after this tick. `before` is the previous snapshot, `earlier` what was known then.

    `turned_away` is that of these snapshots, for whoever asks for many containers; None = it is worked out.
    """
    known = Arrival(wanted, 0) if before is None else _known(container, wanted, before, earlier)
    came = outside - known.outside
    if came < 0:
        return known.shrunk_to(outside)
    if turned_away is None:
        turned_away = ForeignAllocations.between(before, now)
    full = _meant_for(wanted, turned_away, now.machine.page_size, came)
    moved, is_whole = _moved_away(container, wanted, now, before, came)
    unwatched = dict(known.unwatched)
    if full is None:
        unwatched[_FULL] = unwatched.get(_FULL, 0) + came
    if not is_whole:
        unwatched[_MIGRATION] = unwatched.get(_MIGRATION, 0) + max(0, came - sum(moved.values()))
    while_full = {node: min(size, came) for node, size in full.items()} if full else _NOTHING
    return Arrival(
        wanted, outside, _sums(known.full, while_full, outside), _sums(known.moved, moved, outside), unwatched
    )


def _known(container: ContainerId, wanted: NodeSet, before: Snapshot, earlier: Arrival | None) -> Arrival:
    """Return the arrival as it was at the previous tick."""
    if earlier is not None and earlier.wanted == wanted:
        return earlier
    resident = before.residency.get(container)
    outside = 0 if resident is None else bytes_outside(resident.judged, wanted)
    return Arrival(wanted, outside, unwatched={_FULL: outside, _MIGRATION: outside})


class ForeignAllocations(NamedTuple):
    """Allocations that were meant for a node and went to another since the previous tick."""

    by_node: Mapping[int, int]
    """Of the nodes that were read in both ticks."""
    is_counted: bool
    """False: no counter of any node grew, so the kernel does not count."""

    @classmethod
    def between(cls, before: Snapshot | None, now: Snapshot) -> ForeignAllocations:
        earlier = {} if before is None else {one.node: one.numastat for one in before.nodes}
        grown = {one.node: increase(one.numastat or {}, earlier.get(one.node)) for one in now.nodes}
        known = [(node, row) for node, row in grown.items() if earlier.get(node) and "numa_foreign" in row]
        return cls({node: row["numa_foreign"] for node, row in known}, any(any(row.values()) for row in grown.values()))


def _meant_for(wanted: NodeSet, turned_away: ForeignAllocations, page_size: int, came: int) -> dict[int, int] | None:
    """Wanted node -> allocations that were meant for it and went elsewhere; empty where they do not explain what came.

    The kernel counts each allocation once, however large it is, and the agent takes each for one page. None = not
    measured (with vm.numa_stat = 0 no counter grows), or they may explain it if some of them were huge pages.
    """
    if not came:
        return {}
    by_node = turned_away.by_node
    if not turned_away.is_counted or not all(node in by_node for node in wanted):
        return None
    meant = {node: size for node in wanted if (size := by_node[node])}
    if _explains(sum(meant.values()), came):
        return meant
    return None if _explains(sum(meant.values()) // page_size * _HUGE_PAGE, came) else {}


def _explains(size: int, came: int) -> bool:
    """Counters of the whole host or of other pages, too, explain what came where they are half of it or more."""
    return 0 < came <= 2 * size


def _moved_away(
    container: ContainerId, wanted: NodeSet, now: Snapshot, before: Snapshot | None, came: int
) -> tuple[dict[str, int], bool]:
    """Reason -> bytes that its tasks moved away from the wanted nodes, and whether these are all of them.

    Of NUMA balancing the probe says which way. Of other reasons it does not: they explain what came meanwhile.
    """
    if now.migrations is None or (before is not None and before.migrations is None):
        return {}, False
    latest = now.migrations.get(container)
    earlier = None if before is None or before.migrations is None else before.migrations.get(container)
    if latest is None:
        return {}, before is not None
    size = now.machine.page_size
    pages = increase(_counts(latest.pages), None if earlier is None else _counts(earlier.pages))
    others = {reason: count * size for reason in _OTHERS if (count := pages.get(reason, 0))}
    is_known = before is not None and (not others or _explains(sum(others.values()), came))
    found = others if is_known else {}
    if pages.get(NUMA_BALANCING):
        away = _balanced_away(container, wanted, now, latest, earlier)
        if away:
            found[NUMA_BALANCING] = away * size
        is_known = is_known and away is not None
    return found, is_known


def _balanced_away(
    container: ContainerId, wanted: NodeSet, now: Snapshot, latest: Migrated, earlier: Migrated | None
) -> int | None:
    """Pages that NUMA balancing moved away from the wanted nodes. None = not known.

    It brings pages to the CPU that uses them. So where its CPUs are on wanted nodes alone, it brought them home.
    """
    if latest.between is not None and (earlier is None or earlier.between is not None):
        then = None if earlier is None or earlier.between is None else _counts(earlier.between)
        grown = increase(_counts(latest.between), then)
        left = [(source, pages) for (source, target), pages in grown.items() if pages and target not in wanted]
        if all(source is not None for source, _ in left):
            return sum(pages for source, pages in left if source is not None and source in wanted)
    allowed = now.allowed.get(container)
    if allowed is None or allowed.cpus is None:
        return None
    nodes = now.machine.nodes_of_cpus(allowed.cpus)
    return 0 if nodes is not None and nodes <= wanted else None


def _counts(pages: Mapping[Key, MigratedPages]) -> dict[Key, int]:
    return {key: one.succeeded for key, one in pages.items()}


def _sums(known: Mapping[Key, int], more: Mapping[Key, int], most: int) -> Mapping[Key, int]:
    if not known and not more:
        return known
    return {key: min(most, known.get(key, 0) + more.get(key, 0)) for key in {**known, **more}}


class Demotion(NamedTuple):
    """Of one container, seen from the nodes where its memory should be. In bytes."""

    nodes: NodeSet
    """Slower nodes that its memory may have been demoted to from those, and that it should not be on."""
    there: int
    """Judged bytes on them now."""
    demoted: int | None
    """Bytes that left the wanted nodes since the cgroup was made; None = this kernel does not count by cgroup."""
    promoted: int | None
    """Bytes that came back to them."""
    cache: int = 0
    """Page cache on the slower nodes, which may be what was demoted."""

    @property
    def explained(self) -> int:
        """Bytes of those there that demotion explains, at most: what its page cache there does not."""
        return min(self.there, max(0, (self.demoted or 0) - (self.promoted or 0) - self.cache))

    @property
    def counters(self) -> str:
        """In words."""
        if self.demoted is None:
            return "this kernel does not count by cgroup what it demotes"
        back = in_units(self.promoted or 0) if self.promoted else "nothing"
        return f"by its counters {in_units(self.demoted)} were demoted from there and {back} came back"


def slower_nodes(wanted: NodeSet, snapshot: Snapshot) -> NodeSet:
    """Nodes of slower tiers than some of the wanted ones, without those; empty where there is a single tier."""
    tiers = snapshot.machine.tiers
    return NodeSet() if tiers is None else tiers.below(wanted) - wanted


def demotion(container: ContainerId, wanted: NodeSet, snapshot: Snapshot) -> Demotion | None:
    """None = nothing can be demoted from the wanted nodes, or its memory is not known."""
    if snapshot.machine.tiers is None:
        return None
    resident, nodes = snapshot.residency.get(container), slower_nodes(wanted, snapshot)
    if resident is None or not nodes:
        return None
    there = bytes_outside(resident.judged, snapshot.machine.online - nodes)
    moved = [
        None if by_node is None else sum(size for node, size in by_node.items() if node in wanted)
        for by_node in (resident.demoted, resident.promoted)
    ]
    cache = sum(size for node, size in (resident.file or {}).items() if node in nodes)
    return Demotion(nodes, there, moved[0], moved[1], cache)


_NO_SAMPLES = Sampled({})


def failed_moves(snapshot: Snapshot, container: ContainerId, before: Snapshot | None = None) -> tuple[int, int] | None:
    """Pages that NUMA balancing wanted to bring to the CPU's node: those it could not, and those it did.

    By hint faults, else by the migrations themselves; None when neither is measured.
    """
    if snapshot.hint_faults is None and snapshot.migrations is None:
        return None
    sampled = _sampled(snapshot, container)
    earlier = None if before is None else _sampled(before, container)
    if sampled is not None and sampled.is_watched and (before is None or earlier is not None):
        # Few kinds of faults are any of these.
        kinds = {fault: count for fault, count in sampled.faults.items() if fault.could_not_move or fault.has_moved}
        faults = increase(kinds, None if earlier is None else earlier.faults)
        failed = sum([count for fault, count in faults.items() if fault.could_not_move])
        return failed, sum([count for fault, count in faults.items() if fault.has_moved])
    if snapshot.migrations is None or (before is not None and before.migrations is None):
        return None
    moved = increase(_misplaced(snapshot, container), _misplaced(before, container))
    return moved["failed"], moved["succeeded"]


def _sampled(snapshot: Snapshot, container: ContainerId) -> Sampled | None:
    """A container that the running probe saw nothing of had no samples; None = the probe does not run."""
    return None if snapshot.hint_faults is None else snapshot.hint_faults.get(container, _NO_SAMPLES)


def _misplaced(snapshot: Snapshot | None, container: ContainerId) -> dict[str, int]:
    migrated = None if snapshot is None or snapshot.migrations is None else snapshot.migrations.get(container)
    pages = None if migrated is None else migrated.pages.get(NUMA_BALANCING)
    return {"failed": 0, "succeeded": 0} if pages is None else {"failed": pages.failed, "succeeded": pages.succeeded}
