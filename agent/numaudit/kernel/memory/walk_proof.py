"""Does a walk over all cgroups say what memory.numa_stat says? Pure.

The place of a counter is derived, and a distribution's kernel may count something more in between. So no column is used
before it has been seen to be right, and all are dropped with the first that is not:

- A cell (a row of a cgroup on a node) is compared with the file read before the walk and, where they differ, with the
  file read after it. It contradicts the file when it is neither between the two nor within what the kernel itself may
  be late by.
- A column is proven by a cell that is not 0, is between the two, and these are close to each other.
- A column that is not proven yet counts as 0 where the root's file has it as 0 on all nodes, for the root has the
  sums of all cgroups. Where it is not 0, the walk is not used until the column is proven.

Source: mm/memcontrol.c (flush_memcg_stats_dwork, memcg_vmstats_needs_flush: what is not added up yet is at most 64
pages for each CPU, or 2 seconds old).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from numaudit.errors import Unavailable

LATE_PAGES = 64
"""For each CPU: what the kernel may leave out (MEMCG_CHARGE_BATCH)."""
_CLOSE = 8
"""Two readings are close when they differ by an eighth at most."""

Rows = Mapping[str, Mapping[int, int]]
"""Row -> node -> bytes."""


class Contradiction(Unavailable):
    """A column is not what its file says."""


class WalkProof(Struct):
    """Compares, and remembers which columns are proven."""

    late: int
    """Bytes that the kernel may be late by."""
    proven: set[str] = field(default_factory=set)

    def is_equal(self, file: Rows, walked: Rows) -> bool:
        """Are all cells the same? Then no second reading of the file is needed, and what is not 0 is proven."""
        if any(walked[row] != file[row] for row in walked):
            return False
        self.compare("", file, walked, file)
        return True

    def compare(self, path: str, before: Rows, walked: Rows, after: Rows) -> None:
        """One cgroup. Raises Contradiction."""
        proven = set()
        for row, cells in walked.items():
            for node, value in cells.items():
                low, high = sorted((before[row][node], after[row][node]))
                if low <= value <= high:
                    if value and high - low <= value // _CLOSE:
                        proven.add(row)
                elif not low - self.late <= value <= high + self.late:
                    raise Contradiction(
                        f"the walk found {value} bytes in the row {row} of node {node} of {path or '/'}, and the file "
                        f"memory.numa_stat has {low if low == high else f'{low} to {high}'}; the kernel is late by "
                        f"{self.late} at most"
                    )
        self.proven |= proven

    def zeros(self, root: Rows) -> frozenset[str]:
        """Columns that are not proven, and are 0 everywhere by the root's file."""
        return frozenset(row for row in self.unproven(root) if not any(root[row].values()))

    def unproven(self, rows: Collection[str]) -> list[str]:
        return [row for row in rows if row not in self.proven]
