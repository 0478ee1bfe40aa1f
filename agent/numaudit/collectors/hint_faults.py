"""From which node did each container use its memory? By the samples that NUMA balancing takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from numaudit.collectors.base import Skipped, require_v2
from numaudit.collectors.owners import Owners
from numaudit.collectors.sanity_check import Witness
from numaudit.containers.inventory import Census
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Cgroup, Reader
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.numa_balancing import read_mode, read_vmstat
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId, Sampled
from numaudit.topology.machine import Machine


@dataclass(frozen=True, slots=True)
class HintFaults:
    """Reads the probe's faults and adds up each container's cgroups."""

    host: Host
    machine: Machine
    session: Session
    reader: Reader
    owners: Owners
    witness: Witness = field(default_factory=Witness)

    def collect(self, census: Census, skipped: Skipped) -> dict[ContainerId, Sampled]:
        """Faults since the probe was loaded.

        Raises Unavailable when it does not run or counts nothing, or when the kernel takes no samples.

        A container without samples that the kernel does scan, and that is watched, is left out.
        """
        require_v2(self.reader.hierarchies)
        require_sampling(self.host, self.machine)
        read = self.session.read_hint_faults()
        self.witness.hear(self._kernel_count(), read if self._counts_all() else None)
        lost = read.dropped + read.missed
        if lost:
            skipped.lose(lost, "hint faults were not counted: the map was full, or another BPF program was running")
        faults = self.owners.add_up("hint_faults", read.faults)
        unscanned = {owner for owner, groups in census.groups.items() if any(one.id in read.skipped for one in groups)}
        unwatched = self._unwatched(census)
        proc = str(self.host.proc)
        return {
            owner: Sampled(
                faults.get(owner, {}),
                self._has_single_thread(census.groups.get(owner, ()), proc) if owner in faults else None,
                is_scanned=owner not in unscanned,
                is_watched=owner not in unwatched,
            )
            for owner in (*faults, *(unscanned | unwatched) - faults.keys())
        }

    def _kernel_count(self) -> int | None:
        try:
            return read_vmstat(self.host).get("numa_hint_faults")
        except Unavailable:  # then there is no witness
            return None

    def _counts_all(self) -> bool:
        probe = self.session.hint_faults
        return not isinstance(probe, Refusal) and probe.watched is None

    def _unwatched(self, census: Census) -> set[ContainerId]:
        probe = self.session.hint_faults
        watched = None if isinstance(probe, Refusal) else probe.watched
        if watched is None:
            return set()
        return {owner for owner, groups in census.groups.items() if watched.isdisjoint(group.id for group in groups)}

    def _has_single_thread(self, groups: tuple[Cgroup, ...], proc: str) -> bool | None:
        """Has one of the processes only one thread? None when none of them could be read."""
        counts = []
        for group in groups:
            try:
                processes = self.reader.processes(group.path)
            except OSError:
                continue
            for pid in processes:
                count = _count_threads(f"{proc}/{pid}/stat")
                if count is not None:
                    counts.append(count)
        return 1 in counts if counts else None


def _count_threads(stat: str) -> int | None:
    """Field 20 of /proc/PID/stat; None for a process that has ended. Its name may hold any character."""
    try:
        return int(read_bytes(stat).rpartition(b")")[2].split(None, 18)[17])
    except (OSError, IndexError, ValueError):
        return None


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
