"""Memory of each container by node, from the files of every group."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import Struct, field, structs

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.errors import ParseError
from numaudit.kernel.cgroup import Reader, ReadResident
from numaudit.snapshot import BytesByNode, ContainerId, NodeMemory, Resident, Snapshot

_IMPOSSIBLE = (
    "the kernel shows more on a node than is in use there: it miscounts huge pages that were migrated (a newer kernel "
    "may not), or they were allocated while this was read"
)


@dataclass(slots=True)
class ResidencyCollector(Collector):
    name = "residency"
    _last: Mapping[str, ReadResident] = dataclasses.field(default_factory=dict)

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Bytes by container, and those of the root cgroup itself. Needs the nodes' huge page sizes."""
        sizes = _huge_page_sizes(snapshot.nodes)
        reader = structs.replace(tick.reader, huge_page_sizes=sizes, is_tiered=tick.machine.is_tiered)
        residency = Residency(reader, _in_use(snapshot.nodes), self._last)
        found, self._last = residency.collect(tick.census, skipped), residency.now
        return structs.replace(
            snapshot, residency=found.resident, unattributed=found.unattributed, not_resident=found.not_resident
        )


class ResidentMemory(NamedTuple):
    """Bytes by node."""

    resident: dict[ContainerId, Resident]
    unattributed: Resident | None
    """Of the root cgroup itself: the memory controller's own account of it, so it stays independent of the nodes'
    meminfo. None = the kernel does not show it."""
    not_resident: dict[ContainerId, tuple[tuple[str, str], ...]]
    """Unknown figures of a container with their reasons, where these are its own."""


class Residency(Struct, frozen=True):
    """Reads memory.numa_stat and hugetlb.*.numa_stat of every container, each byte once."""

    reader: Reader
    in_use: BytesByNode | None = None
    """Bytes of the huge pages that each node has given out; None = not known."""
    last: Mapping[str, ReadResident] = {}
    """By path, of the previous tick."""
    now: dict[str, ReadResident] = field(default_factory=dict)

    def collect(self, census: Census, skipped: SkippedItems) -> ResidentMemory:
        """Bytes by container, and the unattributed ones."""
        unknown: dict[ContainerId, tuple[tuple[str, str], ...]] = {}
        by_path = self._read_all(census, skipped, unknown)
        doubtful = {census.folder(id_) for id_, ((what, _),) in unknown.items() if what == "hugetlb"}
        own: dict[ContainerId, Resident] = {}
        for container, path in census.with_folders():
            whole = by_path.get(path)
            if whole is not None:
                own[container.id] = whole if container.whole else self._own(by_path, census, path)
            if not container.whole and not doubtful.isdisjoint(census.children.get(path, ())):
                unknown[container.id] = (("hugetlb", _IMPOSSIBLE),)
                own[container.id] = structs.replace(own[container.id], hugetlb=None, huge_pages=None)
        return ResidentMemory(own, self._unattributed(by_path, census, skipped), unknown)

    def _read_all(
        self, census: Census, skipped: SkippedItems, unknown: dict[ContainerId, tuple[tuple[str, str], ...]]
    ) -> dict[str, Resident]:
        """By path, descendants included."""
        found: dict[str, Resident] = {}
        for container, path in census.with_folders():
            try:
                resident = self._resident(path)
            except (OSError, ParseError) as error:
                why = self.reader.why_not_counted(path) if isinstance(error, FileNotFoundError) else None
                if why is None:
                    skipped.count(error)
                else:  # no byte is missing: the group above has them
                    unknown[container.id] = (("resident", why),)
                continue
            if resident.hugetlb and not self._is_possible(resident.hugetlb):
                unknown[container.id] = (("hugetlb", _IMPOSSIBLE),)
                resident = structs.replace(resident, hugetlb=None, huge_pages=None)
            found[path] = resident
        return found

    def _resident(self, path: str) -> Resident:
        """Raises OSError, ParseError."""
        found = self.now[path] = self.reader.read_resident(path, self.last.get(path))
        return found.resident

    def _is_possible(self, hugetlb: BytesByNode) -> bool:
        in_use = self.in_use
        if in_use is None:
            return True
        return all(size <= in_use.get(node, 0) for node, size in hugetlb.items())

    def _own(self, by_path: dict[str, Resident], census: Census, path: str) -> Resident:
        """Memory of the group itself, and memory that removed children left behind."""
        return without(by_path[path], [by_path[child] for child in census.children.get(path, ()) if child in by_path])

    def _unattributed(self, by_path: dict[str, Resident], census: Census, skipped: SkippedItems) -> Resident | None:
        try:
            by_path = {**by_path, "/": self._resident("")}
        except (OSError, ParseError) as error:
            skipped.count(error)
            return None
        return self._own(by_path, census, "/")


def without(whole: Resident, parts: Sequence[Resident]) -> Resident:
    """Memory of the whole without its parts. Counters are read one after the other, so a difference may dip below 0."""
    own = Resident(
        _less(whole.anon, [part.anon for part in parts]),
        _less(whole.shmem, [part.shmem for part in parts]),
        _less(whole.file, [part.file for part in parts]),
        _less(whole.hugetlb, [part.hugetlb for part in parts]),
        _less(whole.kernel, [part.kernel for part in parts]),
        _less(whole.unevictable, [part.unevictable for part in parts]),
    )
    if not whole.huge_pages:
        return own
    below = [part.huge_pages or {} for part in parts]
    return structs.replace(
        own,
        huge_pages={
            size: _less(by_node, [one.get(size) for one in below]) or {} for size, by_node in whole.huge_pages.items()
        },
    )


def _less(whole: BytesByNode | None, parts: Sequence[BytesByNode | None]) -> BytesByNode | None:
    if not whole or not any(whole.values()):
        return whole
    left = dict(whole)
    for part in parts:
        for node, size in part.items() if part else ():
            if size and node in left:
                left[node] -= size
    return {node: max(0, size) for node, size in left.items()} if min(left.values()) < 0 else left


def _in_use(nodes: Sequence[NodeMemory]) -> dict[int, int]:
    """All that a node has where it does not say how many are free."""
    return {
        node.node: sum((pages.total - (pages.free or 0)) * pages.page_size for pages in node.huge_pages)
        for node in nodes
    }


def _huge_page_sizes(nodes: Sequence[NodeMemory]) -> tuple[int, ...]:
    """The page sizes in use now; pages can be reserved and given back at any time."""
    return tuple(sorted({pages.page_size for node in nodes for pages in node.huge_pages if pages.total}))
