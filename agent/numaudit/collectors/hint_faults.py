"""From which node did each container use its memory? By the samples that NUMA balancing takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from numaudit.collectors.base import Skipped, Tick, require_v2
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Cgroup
from numaudit.kernel.host import Host
from numaudit.kernel.numa_balancing import read_mode, read_vmstat
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.snapshot import Sampled, Snapshot
from numaudit.topology.machine import Machine


def collect(tick: Tick, snapshot: Snapshot, skipped: Skipped) -> Snapshot:
    """Faults since the probe was loaded.

    Raises Unavailable when it does not run or counts nothing, or when the kernel takes no samples.

    A container without samples that the kernel does scan, and that is watched, is left out.
    """
    require_v2(tick.reader.hierarchies)
    require_sampling(tick.host, tick.machine)
    reading = tick.read(HINT_FAULTS)
    tick.sanity_check.compare(_kernel_count(tick.host), reading if reading.watched is None else None)
    if reading.all_lost:
        text = "hint faults were not counted: the map was full, or another BPF program was running"
        skipped.lose(reading.all_lost, text)
    groups_of = tick.census.groups
    tick.process_times.begin_tick()
    faults = tick.owners.add_up("hint_faults", reading.faults)
    unscanned = {owner for owner, groups in groups_of.items() if any(one.id in reading.skipped for one in groups)}
    unwatched = tick.unwatched(reading.watched)
    sampled = {
        owner: Sampled(
            faults.get(owner, {}),
            _is_single_threaded(tick, groups_of.get(owner, ())) if owner in faults else None,
            is_scanned=owner not in unscanned,
            is_watched=owner not in unwatched,
        )
        for owner in (*faults, *(unscanned | unwatched) - faults.keys())
    }
    return replace(snapshot, hint_faults=sampled)


def _kernel_count(host: Host) -> int | None:
    try:
        return read_vmstat(host).get("numa_hint_faults")
    except Unavailable:  # then there is nothing to compare with
        return None


def _is_single_threaded(tick: Tick, groups: tuple[Cgroup, ...]) -> bool | None:
    """Do processes with one thread use its CPU time? None when none of them could be read."""
    return tick.process_times.is_single_threaded(tick.host, _processes(tick, groups))


def _processes(tick: Tick, groups: tuple[Cgroup, ...]) -> Iterator[int]:
    for group in groups:
        with suppress(OSError):  # it has ended
            yield from tick.reader.processes(group.path)


def require_sampling(host: Host, machine: Machine) -> None:
    """Raises Unavailable, saying why, when this kernel takes no samples of memory accesses now."""
    mode = read_mode(host)
    if mode is None:
        raise Unavailable("this kernel has no NUMA balancing (CONFIG_NUMA_BALANCING), so it takes no samples")
    if len(machine.nodes) < 2:
        raise Unavailable("with one node there are no remote accesses, so the kernel takes no samples")
    if mode.is_tiering_only:
        raise Unavailable("kernel.numa_balancing is 2: only slow memory is sampled; 1 or 3 samples all nodes")
    if not mode.samples_accesses:
        raise Unavailable("kernel.numa_balancing is 0, so the kernel takes no samples; 1 switches it on")
