"""residency: where the memory of every cgroup is, in one walk of a BPF iterator (bpf/residency.bpf.c).

No probe: it counts nothing by itself, and costs nothing but when it is asked. Source: kernel/bpf/cgroup_iter.c.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Collection
from pathlib import Path

from numaudit.errors import Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host
from numaudit.kernel.memory.cgroup_layout import KERNEL_ROWS, WORD
from numaudit.kernel.memory.cgroup_rows import CgroupRows, RowLayout
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.btf import Btf
from numaudit.probes import reasons
from numaudit.probes.loading import loader
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe, ProbeRequest
from numaudit.probes.reasons import ProbeRefusal, Reason

NAME = "residency"
_FUNCTION = "bpf_iter_cgroup"
_PROGRAM = "residency_at_cgroup"
_HEAD, _ROWS = "residency_head", "residency_rows"
MOST_COLUMNS, _MOST_COUNTERS, _MOST_NODES = 16, 128, 128
"""In the head. Before its columns, with 3 words for each, is the number of cgroups and that of failed reads."""


class MoreCgroups(Unavailable):
    """There are more cgroups than rows; the walk has to be loaded again with room for them."""

    def __init__(self, cgroups: int) -> None:
        super().__init__(f"there are {cgroups} cgroups by now, more than were expected")
        self.cgroups = cgroups


def request(types: Btf, layout: RowLayout, cgroups: int) -> ProbeRequest:
    """Request for the loader, with room for this many cgroups. Raises ProbeRefusal."""
    function = types.function(_FUNCTION)
    if function is None:
        raise ProbeRefusal(Reason.UNSUPPORTED, "this kernel has no BPF iterator over cgroups, as Linux 6.1 has")
    if layout.kernel.length > _MOST_COUNTERS or layout.nodes > _MOST_NODES:
        sizes = f"{layout.kernel.length} counters by cgroup and node, and {layout.nodes} nodes"
        raise ProbeRefusal(Reason.UNSUPPORTED, f"this kernel has {sizes}; the walk has room for 128 of each")
    return ProbeRequest(
        NAME,
        (BpfProgram(_PROGRAM, ProgramType.TRACING, btf_id=function.id, is_iterator=True),),
        (_HEAD, _ROWS),
        entries={_ROWS: cgroups},
        value_sizes={_ROWS: layout.width * WORD},
        numbers=_numbers(layout),
    )


def _numbers(layout: RowLayout) -> dict[str, int]:
    kernel, cpuset = layout.kernel, layout.kernel.cpuset
    has_cpuset = cpuset is not None and layout.node_words > 0
    return {
        "RESIDENCY_DIRECTORY": kernel.directory,
        "RESIDENCY_ID": kernel.id,
        "RESIDENCY_FLAGS": kernel.flags,
        "RESIDENCY_VISIBLE": kernel.visible,
        "RESIDENCY_OF_MEMORY": kernel.memory,
        "RESIDENCY_OF_NODES": kernel.nodes,
        "RESIDENCY_NODES": layout.nodes,
        "RESIDENCY_COUNTERS": kernel.counters,
        "RESIDENCY_COUNTERS_BY_POINTER": kernel.counters_is_pointer,
        "RESIDENCY_WORDS": kernel.words,
        "RESIDENCY_COUNTERS_SIZE": kernel.length * WORD,
        "RESIDENCY_COLUMNS": len(kernel.rows),
        "RESIDENCY_COLUMNS_AT": layout.columns_at * WORD,
        "RESIDENCY_FIRST_OF_KERNEL": next(
            (place for place, row in enumerate(kernel.rows) if row in KERNEL_ROWS), len(kernel.rows)
        ),
        "RESIDENCY_HAS_CPUSET": has_cpuset,
        "RESIDENCY_OF_CPUSET": 0 if cpuset is None else cpuset.css,
        "RESIDENCY_ALLOWED_NODES": 0 if cpuset is None else cpuset.nodes.offset,
        "RESIDENCY_ALLOWED_NODES_SIZE": layout.node_words * WORD,
        "RESIDENCY_ALLOWED_CPUS": 0 if cpuset is None else cpuset.cpus.offset,
        "RESIDENCY_ALLOWED_CPUS_BY_POINTER": cpuset is not None and cpuset.cpus.is_pointer,
        "RESIDENCY_ALLOWED_CPUS_AT": layout.cpus_at * WORD,
        "RESIDENCY_ALLOWED_CPUS_SIZE": layout.cpu_words * WORD,
    }


def load(host: Host, types: Btf, layout: RowLayout, cgroups: int, folder: Path) -> ResidencyWalk:
    """Walk over the cgroup of this folder and all below it. Raises ProbeRefusal, and InputError without a text."""
    if not host.is_live:
        raise ProbeRefusal(Reason.NOT_LIVE, f"{host.root} is a captured tree")
    answer = loader.load([request(types, layout, cgroups)])[NAME]
    if isinstance(answer, ProbeRefusal):
        raise answer
    try:
        return ResidencyWalk(answer, layout, cgroups, folder)
    except OSError as error:
        answer.close()
        raise reasons.of_error("the kernel refuses to walk over its cgroups", error) from error


class ResidencyWalk:
    """The loaded program, its rows, and what runs it."""

    def __init__(self, loaded: LoadedProbe, layout: RowLayout, cgroups: int, folder: Path) -> None:
        """Attach it. Raises OSError."""
        self._loaded = loaded
        self.layout = layout
        self._most = cgroups
        self._head = _map(loaded.maps[_HEAD], 2 + 3 * MOST_COLUMNS + _MOST_COUNTERS + _MOST_NODES)
        self._rows = _map(loaded.maps[_ROWS], cgroups * layout.width)
        group = files.open_file(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._link = bpf.open_cgroup_iterator(loaded.programs[_PROGRAM], group)
        finally:
            os.close(group)
        self.seconds = 0.0
        """Upper bound of the time that the newest walk held the kernel's mutex of cgroups."""

    def walk(self, unused: Collection[str] = ()) -> CgroupRows:
        """Every cgroup now; the rows `unused` of memory.numa_stat add nothing to what the program works out.

        Not for several threads. Raises OSError, MoreCgroups; Unavailable for unreadable memory.
        """
        head = self._head
        head[0] = head[1] = 0
        for column, (row, counter) in enumerate(self.layout.kernel.rows.items()):
            at = 2 + 3 * column
            head[at], head[at + 1], head[at + 2] = counter.index, counter.unit, 0 if row in unused else -1
        began = time.perf_counter()
        bpf.iterate(self._link)
        self.seconds = time.perf_counter() - began
        count, failed = head[0], head[1]
        if count > self._most:
            raise MoreCgroups(count)
        if failed or not count:
            raise Unavailable(f"{failed} reads of the kernel's memory failed during a walk over {count} cgroups")
        return CgroupRows(self._rows[: count * self.layout.width].tobytes(), self.layout)

    def close(self) -> None:
        os.close(self._link)
        self._loaded.close()


def _map(descriptor: int, words: int) -> memoryview:
    """The first words of a map's values; it is unmapped with the last reference. Raises OSError."""
    size = -(-words * WORD // mmap.PAGESIZE) * mmap.PAGESIZE
    return memoryview(mmap.mmap(descriptor, size)).cast("q")
