"""Rows of a walk over cgroups, as the program of bpf/residency.bpf.c makes them of the kernel's counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from numaudit.kernel.memory.cgroup_layout import KERNEL_ROWS
from numaudit.kernel.memory.cgroup_rows import RowLayout

BOTH = 3
"""Memory and a cpuset were found."""


def made_row(
    layout: RowLayout,
    id_: int,
    counters: Mapping[str, Sequence[int]],
    *,
    masks: Sequence[int],
    found: int = BOTH,
    unused: Collection[str] = (),
) -> list[int]:
    """One row. `counters`: row of memory.numa_stat -> the kernel's counter on each node."""
    row = [id_, found, *masks, *[0] * (layout.width - layout.columns_at)]
    assert len(row) == layout.width
    starts, columns = layout.starts(), layout.columns
    for node in range(layout.nodes):
        sizes = {
            name: max(0, counters[name][node]) * of.unit for name, of in layout.kernel.rows.items() if name in counters
        }
        used = {name: size for name, size in sizes.items() if name not in unused}
        plain = max(0, sizes.get("file", 0) - used.get("shmem", 0))
        kernel = sum(size for name, size in used.items() if name in KERNEL_ROWS)
        for column, size in (*sizes.items(), (columns[-2], plain), (columns[-1], kernel)):
            row[starts[column] + node] = size
    return row
