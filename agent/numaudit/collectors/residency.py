"""Where does each container's memory live?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numaudit.collectors.base import Skipped
from numaudit.containers.inventory import Census
from numaudit.errors import ParseError
from numaudit.kernel.cgroup import Reader
from numaudit.snapshot import RESIDENT_TYPES, BytesByNode, ContainerId, Resident


@dataclass(frozen=True, slots=True)
class Residency:
    """Reads memory.numa_stat and hugetlb.*.numa_stat of every container, each byte once."""

    reader: Reader

    def collect(self, census: Census, skipped: Skipped) -> tuple[dict[ContainerId, Resident], Resident | None]:
        """Bytes by container, and the unattributed ones: those of the root cgroup itself.

        The root's figure is the memory controller's own account of it, so it stays independent
        of the nodes' meminfo. None when the kernel does not show it.
        """
        by_path = self._read_all(census, skipped)
        own: dict[ContainerId, Resident] = {}
        for container in census.containers:
            if container.path in by_path:
                children = census.children.get(container.path, ())
                own[container.id] = self._own(by_path, container.path, children)
        return own, self._unattributed(by_path, census, skipped)

    def _read_all(self, census: Census, skipped: Skipped) -> dict[str, Resident]:
        """By path. cgroup v1 gives a group's own figure directly, v2 only with all its descendants."""
        v1 = not self.reader.hierarchies.is_v2
        found: dict[str, Resident] = {}
        for container in census.containers:
            try:
                found[container.path] = self.reader.resident(container.path, own=v1 and not container.whole)
            except (OSError, ParseError) as error:
                skipped.count(error)
        return found

    def _own(self, by_path: dict[str, Resident], path: str, children: Sequence[str]) -> Resident:
        whole = by_path[path]
        if not children or not self.reader.hierarchies.is_v2:
            return whole
        return _without(whole, [by_path[child] for child in children if child in by_path])

    def _unattributed(self, by_path: dict[str, Resident], census: Census, skipped: Skipped) -> Resident | None:
        try:
            root = self.reader.resident("", own=True)
        except (OSError, ParseError) as error:
            skipped.count(error)
            return None
        if not self.reader.hierarchies.is_v2:
            return root
        # Charged huge pages of the root itself are shown nowhere in cgroup v2.
        children = [by_path[child] for child in census.children.get("/", ()) if child in by_path]
        return _without(root, children)


def _without(whole: Resident, parts: Sequence[Resident]) -> Resident:
    """What the parts do not hold. Counters are read one after the other, so a difference may dip below 0."""
    return Resident(
        **{kind: _less(getattr(whole, kind), [getattr(part, kind) for part in parts]) for kind in RESIDENT_TYPES}
    )


def _less(whole: BytesByNode | None, parts: Sequence[BytesByNode | None]) -> BytesByNode | None:
    if whole is None:
        return None
    return {
        node: max(0, size - sum(part.get(node, 0) for part in parts if part is not None))
        for node, size in whole.items()
    }
