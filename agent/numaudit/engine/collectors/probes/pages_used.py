"""Memory that each container used, by the node of its use: the newest scan passes beside what its processes map."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from numaudit.counted import PagesUsed
from numaudit.engine.collectors.base import TickInputs
from numaudit.engine.collectors.probes.scan_passes import ScanPasses
from numaudit.errors import ParseError
from numaudit.kernel import process_status
from numaudit.kernel.cgroup import Cgroup
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import Passes
from numaudit.snapshot import ContainerId, Resident, Snapshot

_CHARGED = ("anon", "file", "shmem", "hugetlb")
"""Memory types that processes can map."""
_NOT_KNOWN: Mapping[int, int] = {}


def pages_used(
    known: ScanPasses, tick: TickInputs, snapshot: Snapshot, passes: Passes | None
) -> dict[ContainerId, PagesUsed]:
    """Pages that the newest scan passes saw used, by container. `known` are those of ticks before,
    to which `passes` is added.
    """
    now = time.time()
    if passes is not None:
        known.take(passes.by_cgroup, now)
    groups_of = tick.census.groups
    known.keep_cgroups({group.id for groups in groups_of.values() for group in groups})
    scanned = known.cgroups()
    found: dict[ContainerId, PagesUsed] = {}
    shmem_on = {one.node: size for one in snapshot.nodes for size in (one.resident.shmem or {}).values()}
    for owner, groups in groups_of.items():
        if scanned.isdisjoint(group.id for group in groups):
            continue
        mapped: list[process_status.ProcessMemory] = []
        for group in groups:
            processes = {pid: _mapped(tick.host, pid) for pid in _processes(tick, group)}
            known.keep_only(group.id, processes, tick.machine.page_size)
            mapped += [one for one in processes.values() if one is not None]
        used = known.of((group.id for group in groups), tick.machine.page_size, now)
        if used is not None:
            found[owner] = limited(used, snapshot.residency.get(owner), mapped, shmem_on)
    return found


def limited(
    used: PagesUsed,
    resident: Resident | None,
    mapped: Sequence[process_status.ProcessMemory],
    shmem_on: Mapping[int, int] = _NOT_KNOWN,
) -> PagesUsed:
    """The same with what the processes map, and no more on a node than they can have there.

    A page that faults twice in a pass would count twice, and memory may have moved since the pass: the bytes on its
    node are a limit. Memory of other containers that is sampled is shared memory: the kernel samples no file that is
    only read. `mapped`: of each process that can be read. `shmem_on`: shared memory on each node, of anybody.
    """
    if resident is None or resident.anon is None:
        return replace(used, mapped=sum(map(sum, mapped))) if mapped else used
    charged = {kind: sum((getattr(resident, kind) or {}).values()) for kind in _CHARGED}
    most = [max((one[place] for one in mapped), default=0) for place in range(3)]
    of_others = max(0, most[2] - charged["shmem"])
    own_shmem, limits = resident.shmem or {}, _sampled_at_most(resident)
    for node in {node for _, node in used.remote}:
        there = of_others if node not in shmem_on else max(0, shmem_on[node] - own_shmem.get(node, 0))
        limits[node] = limits.get(node, 0) + min(of_others, there)
    used = replace(used, remote=_within(used.remote, limits))
    if not mapped:
        return used
    # Children share their parent's memory, and processes share files: that counts once where the sums say so.
    private = max(most[0], min(sum(one.anon for one in mapped), charged["anon"]))
    files = min(sum(one.file for one in mapped), most[1] + charged["file"])
    shmem = min(sum(one.shmem for one in mapped), most[2] + charged["shmem"])
    return replace(used, mapped=private + files + shmem + charged["hugetlb"])


def _sampled_at_most(resident: Resident) -> dict[int, int]:
    """Bytes by node: the kernel samples what processes map, and no huge pages of the pool."""
    limits, files = dict(resident.anon or {}), resident.sum_of(("file", "shmem"))
    for node, size in files.items():
        in_use = size if resident.mapped is None else min(size, resident.mapped.get(node, 0))
        limits[node] = limits.get(node, 0) + in_use
    return limits


def _within(remote: Mapping[tuple[int, int], int], limits: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """No more on each node than its limit."""
    sums: dict[int, int] = {}
    for (_, node), size in remote.items():
        sums[node] = sums.get(node, 0) + size
    return {pair: size * min(sums[pair[1]], limits[pair[1]]) // sums[pair[1]] for pair, size in remote.items() if size}


def _processes(tick: TickInputs, group: Cgroup) -> tuple[int, ...]:
    try:
        return tick.reader.processes(group.path)
    except OSError:  # it has ended
        return ()


def _mapped(host: Host, pid: int) -> process_status.ProcessMemory | None:
    try:
        return process_status.read(host, pid)
    except (OSError, ParseError):  # it has ended, or may not be read
        return None
