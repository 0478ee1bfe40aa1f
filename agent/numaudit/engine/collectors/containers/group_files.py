"""Memory of each container by node, from the files of every group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field, structs

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import SkippedItems
from numaudit.errors import ParseError
from numaudit.kernel.cgroup import Reader, ReadResident
from numaudit.snapshot import BytesByNode, ContainerId, Resident

_IMPOSSIBLE = (
    "the kernel shows more on a node than is in use there: it miscounts huge pages that were migrated (a newer kernel "
    "may not), or they were allocated while this was read"
)


class OwnMemory(NamedTuple):
    """Memory of a group itself, and memory that removed children left behind."""

    whole: Resident
    parts: tuple[Resident, ...]
    """Of the whole, what its children have."""
    left: Resident


class ResidencyCache(Struct, frozen=True):
    """Values that a tick read and computed, by path. The next tick takes them again where nothing changed."""

    read: dict[str, ReadResident] = field(default_factory=dict)
    own: dict[str, OwnMemory] = field(default_factory=dict)
    """Of groups above others."""


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
    last: ResidencyCache = field(default_factory=ResidencyCache)
    """Of the previous tick."""
    now: ResidencyCache = field(default_factory=ResidencyCache)

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
        found = self.now.read[path] = self.reader.read_resident(path, self.last.read.get(path))
        return found.resident

    def _is_possible(self, hugetlb: BytesByNode) -> bool:
        in_use = self.in_use
        if in_use is None:
            return True
        return all(size <= in_use.get(node, 0) for node, size in hugetlb.items())

    def _own(self, by_path: dict[str, Resident], census: Census, path: str) -> Resident:
        """Memory of the group itself, and memory that removed children left behind."""
        parts = tuple([by_path[child] for child in census.children.get(path, ()) if child in by_path])
        found = self.now.own[path] = own(by_path[path], parts, self.last.own.get(path))
        return found.left

    def _unattributed(self, by_path: dict[str, Resident], census: Census, skipped: SkippedItems) -> Resident | None:
        try:
            by_path = {**by_path, "/": self._resident("")}
        except (OSError, ParseError) as error:
            skipped.count(error)
            return None
        return self._own(by_path, census, "/")


def own(whole: Resident, parts: tuple[Resident, ...], last: OwnMemory | None) -> OwnMemory:
    """Bytes of the whole without its parts; the very value of the last if nothing changed."""
    if last is not None and (last.whole, last.parts) == (whole, parts):
        return last
    left = _without(whole, parts)
    return OwnMemory(whole, parts, last.left if last is not None and last.left == left else left)


def _without(whole: Resident, parts: Sequence[Resident]) -> Resident:
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
