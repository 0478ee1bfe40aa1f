"""Memory of each container by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import ne

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import Collector, SkippedItems, TickInputs
from numaudit.engine.collectors.containers.group_files import Residency, ResidencyCache, ResidentMemory, own
from numaudit.errors import ParseError
from numaudit.kernel.cgroup import Reader
from numaudit.snapshot import ContainerId, NodeMemory, Resident, Snapshot

_AT_ONCE = 128
"""Groups of a block."""


@dataclass(slots=True)
class ResidencyCollector(Collector):
    name = "residency"
    _last: ResidencyCache = field(default_factory=ResidencyCache)
    _same: SameGroups | None = None
    """For the ticks that find the groups of the tick before."""

    def collect(self, tick: TickInputs, snapshot: Snapshot, skipped: SkippedItems) -> Snapshot:
        """Bytes by container, and those of the root cgroup itself. Needs the nodes' huge page sizes."""
        sizes = _huge_page_sizes(snapshot.nodes)
        reader = replace(tick.reader, huge_page_sizes=sizes, is_tiered=tick.machine.is_tiered)
        found = None if self._same is None else self._same.read(tick, reader)
        if found is None:
            residency = Residency(reader, _in_use(snapshot.nodes), self._last)
            found, self._last = residency.collect(tick.census, skipped), residency.now
            self._same = SameGroups.after(tick, reader, found, self._last)
        return replace(
            snapshot, residency=found.resident, unattributed=found.unattributed, not_resident=found.not_resident
        )


class GroupBlock(Struct):
    """Groups that are read at once: enough to be fast, and few enough that their texts take little memory."""

    paths: Sequence[str]
    files: Sequence[str]
    """Of each of the paths."""
    digests: Sequence[int]
    """Of each of the files."""


class SameGroups(Struct):
    """Reads the groups of the tick before once more, many at once, and looks at those alone whose text changed.

    For hosts without huge pages, and as long as every group can be read.
    """

    census: Census
    is_tiered: bool
    found: ResidentMemory
    """Result of the newest tick."""
    cache: ResidencyCache
    blocks: Sequence[GroupBlock]
    owners: Mapping[str, ContainerId]
    """By path."""
    above: Mapping[str, str]
    """The path above each: what a group has is no memory of the group above itself."""

    @classmethod
    def after(cls, tick: TickInputs, reader: Reader, found: ResidentMemory, cache: ResidencyCache) -> SameGroups | None:
        """For the next tick, if it may be read so."""
        if reader.read_all is None or reader.huge_page_sizes or found.not_resident:
            return None
        census = tick.census
        owners = {path: container.id for container, path in census.with_folders()}
        paths = [*owners, ""]
        read = [cache.read[path] for path in paths if path in cache.read]
        digests = [one.digest for one in read]
        if len(digests) < len(paths):
            return None
        above = {child: path for path, children in census.children.items() for child in children}
        files = [one.file for one in read]
        places = [slice(first, first + _AT_ONCE) for first in range(0, len(paths), _AT_ONCE)]
        blocks = [GroupBlock(paths[one], files[one], digests[one]) for one in places]
        return cls(census, reader.is_tiered, found, cache, blocks, owners, above)

    def read(self, tick: TickInputs, reader: Reader) -> ResidentMemory | None:
        """The memory of all containers now; None = each is to be read on its own."""
        is_known = tick.census is self.census and reader.is_tiered is self.is_tiered
        if reader.read_all is None or reader.huge_page_sizes or not is_known:
            return None
        changed: list[str] = []
        try:
            for block in self.blocks:
                changed += self._take_in(block, reader.read_all(block.files), reader)
        except (OSError, ParseError):
            return None
        if changed:
            self.found = self._with(changed)
        return self.found

    def _take_in(self, block: GroupBlock, texts: Sequence[bytes | OSError], reader: Reader) -> list[str]:
        """The paths of groups whose memory changed. Raises OSError, ParseError."""
        digests, changed, read = list(map(hash, texts)), [], self.cache.read
        for place in compress(range(len(digests)), map(ne, digests, block.digests)):
            path, text = block.paths[place], texts[place]
            if isinstance(text, OSError):
                raise text
            last = read[path]
            now = read[path] = reader.resident_in(text, last.file, last.huge_pages, last)
            if now.resident is not last.resident:
                changed.append(path)
        block.digests = digests
        return changed

    def _with(self, changed: Sequence[str]) -> ResidentMemory:
        resident, parents = dict(self.found.resident), set[str]()
        for path in changed:
            name = path or "/"
            if name in self.census.children:
                parents.add(name)
            else:
                resident[self.owners[name]] = self.cache.read[path].resident
            parents.update(filter(None, [self.above.get(name)]))
        return ResidentMemory(resident, self._of_parents(parents, resident), {})

    def _of_parents(self, parents: Collection[str], resident: dict[ContainerId, Resident]) -> Resident | None:
        """Put in what these groups have themselves; what the root has is the result."""
        unattributed = self.found.unattributed
        for name in parents:
            whole = self.cache.read["" if name == "/" else name].resident
            parts = tuple([self.cache.read[child].resident for child in self.census.children[name]])
            found = self.cache.own[name] = own(whole, parts, self.cache.own.get(name))
            if name == "/":
                unattributed = found.left
            else:
                resident[self.owners[name]] = found.left
        return unattributed


def _in_use(nodes: Sequence[NodeMemory]) -> dict[int, int]:
    """All that a node has where it does not say how many are free."""
    return {
        node.node: sum((pages.total - (pages.free or 0)) * pages.page_size for pages in node.huge_pages)
        for node in nodes
    }


def _huge_page_sizes(nodes: Sequence[NodeMemory]) -> tuple[int, ...]:
    """The page sizes in use now; pages can be reserved and given back at any time."""
    return tuple(sorted({pages.page_size for node in nodes for pages in node.huge_pages if pages.total}))
