"""The kernel's own counters of NUMA balancing by container, from memory.stat: some of the files in each tick."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from numaudit.containers.inventory import Census
from numaudit.engine.collectors.base import SkippedItems
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.host import read_bytes
from numaudit.kernel.memory.numa_balancing import parse
from numaudit.snapshot import ContainerId

AT_ONCE = 250
"""Files that a tick reads where ticks follow each other: the kernel takes 20 us to write one."""


class MemoryStats(Struct):
    """Reads those that were not read for longest, and has the last values of the others."""

    _read_in: dict[ContainerId, int] = field(default_factory=dict)
    """Container -> the tick that read it."""
    _values: dict[ContainerId, Mapping[str, int]] = field(default_factory=dict)
    _ticks: int = 0

    def read(
        self, census: Census, hierarchies: Hierarchies, most: int | None, skipped: SkippedItems
    ) -> dict[ContainerId, Mapping[str, int]]:
        """The counters of each whole container that was read by now. `most` None = read all now."""
        self._ticks += 1
        containers = [one.id for one in census.containers if one.whole]
        for id_ in sorted(containers, key=lambda one: self._read_in.get(one, 0))[:most]:
            self._read_in[id_] = self._ticks
            try:
                self._values[id_] = _read(hierarchies, census.folder(id_))
            except (OSError, ValueError) as error:
                self._values.pop(id_, None)
                skipped.count(error)
        here = set(containers)
        self._read_in = {id_: tick for id_, tick in self._read_in.items() if id_ in here}
        self._values = {id_: values for id_, values in self._values.items() if id_ in here}
        return dict(self._values)


def root_is_shown(hierarchies: Hierarchies) -> bool:
    """Has this kernel the counters in memory.stat at all? The root cgroup is the quickest to ask."""
    try:
        return hierarchies.is_v2 and bool(_read(hierarchies, ""))
    except FileNotFoundError:
        return False


def _read(hierarchies: Hierarchies, path: str) -> Mapping[str, int]:
    """Of one cgroup. Raises OSError, ParseError. No descriptor is kept: the files of each tick need those."""
    return parse(read_bytes(f"{hierarchies.memory}{path}/memory.stat").decode("ascii", "replace"))
