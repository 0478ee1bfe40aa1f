"""CPUs that the static CPU Manager takes, packed: whole nodes and sockets first, then cores, then single CPUs.

Source: pkg/kubelet/cm/cpumanager/cpu_assignment.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from numaudit.containermanager.cpu.topology import CPUTopology, Group
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.topology.nodeset import CpuSet


def take_packed(
    topology: CPUTopology,
    available: CpuSet,
    count: int,
    *,
    across_cores: bool = False,
    by_uncore: bool = False,
    version: KubernetesVersion = LATEST,
) -> CpuSet:
    """Take `count` of the available CPUs, from the fullest parts of the machine first.

    `across_cores` and `by_uncore` are the options distribute-cpus-across-cores and
    prefer-align-cpus-by-uncorecache. On a machine whose cores differ in threads the result may hold
    CPUs that are not available: the kubelet calls a core whole when it has the average number of
    free threads, and takes all its threads. Raises AdmissionError with the kubelet's text.
    """
    work = Accumulator(topology, available, count)
    if work.done:
        return CpuSet()
    work.check_enough(available, version)
    largest_first = (Group.NODE, Group.SOCKET) if work.nodes_first else (Group.SOCKET, Group.NODE)
    steps: list[Callable[[], None]] = [partial(work.take_whole, group) for group in largest_first]
    if by_uncore:
        steps.append(partial(work.take_by_uncore, rounds_up=version >= (1, 34)))
    if not across_cores:
        steps.append(partial(work.take_whole, Group.CORE))
    steps.append(partial(work.take_single, Group.SOCKET if across_cores else Group.CORE))
    for step in steps:
        step()
        if work.done:
            return work.result
    raise AdmissionError("failed to allocate cpus")


class Accumulator:
    """CPUs taken so far, of one request."""

    def __init__(self, topology: CPUTopology, available: CpuSet, count: int) -> None:
        self.topology = topology
        self.free = available & topology.cpus
        self.need = count
        self.result = CpuSet()
        self.nodes_first = topology.num_sockets >= topology.num_numa_nodes

    @property
    def done(self) -> bool:
        return self.need < 1

    def check_enough(self, available: CpuSet, version: KubernetesVersion) -> None:
        """Raise AdmissionError when fewer CPUs are free than needed."""
        if self.need <= len(self.free):
            return
        text = "not enough cpus available to satisfy request"
        if version >= (1, 32):
            text += f": requested={self.need}, available={len(available)}"
        raise AdmissionError(text)

    def take(self, cpus: CpuSet) -> None:
        """Take these. They count as often as they are taken, and also when they were not free."""
        self.result |= cpus
        self.free -= cpus
        self.need -= len(cpus)

    def free_in(self, group: Group, one: int) -> CpuSet:
        return CpuSet(self.free.mask & self.topology.masks[group][one])

    def ordered(self, group: Group) -> list[int]:
        """The ids that have a free CPU, in the order they are tried.

        An id that lies in two parents (a socket in two nodes) appears twice.
        """
        if group is Group.UNCORE:
            return self._below(Group.NODE, Group.UNCORE)
        order = (Group.NODE, Group.SOCKET, Group.CORE) if self.nodes_first else (Group.SOCKET, Group.NODE, Group.CORE)
        position = order.index(group)
        if position == 0:
            return self._sort(group, self.topology.masks[group])
        return self._below(order[position - 1], group)

    def whole(self, group: Group) -> list[int]:
        """Those of `ordered` that the kubelet calls free: none of their CPUs is taken.

        Sockets and cores are compared with the machine's average, nodes and uncore caches with their own size.
        """
        masks = self.topology.masks[group]
        average = {Group.SOCKET: self.topology.cpus_per_socket, Group.CORE: self.topology.cpus_per_core}.get(group)
        return [
            one
            for one in self.ordered(group)
            if len(self.free_in(group, one)) == (masks[one].bit_count() if average is None else average)
        ]

    def take_whole(self, group: Group) -> None:
        for one in self.whole(group):
            cpus = CpuSet(self.topology.masks[group][one])
            if self.need >= len(cpus):
                self.take(cpus)

    def take_by_uncore(self, *, rounds_up: bool) -> None:
        """`rounds_up`: a request that is no whole number of cores may take one core in part; before 1.34 it may not."""
        for uncore in self.ordered(Group.UNCORE):
            if self.need >= self.topology.cpus_per_uncore:
                self.take_whole(Group.UNCORE)
            if self.done:
                return
            self._take_part_of(uncore, rounds_up=rounds_up)
            if self.done:
                return

    def _take_part_of(self, uncore: int, *, rounds_up: bool) -> None:
        """Take all that is needed from the lowest cores of one uncore cache, or nothing."""
        per_core = self.topology.cpus_per_core
        cores_needed = -(-self.need // per_core) if rounds_up else self.need // per_core
        cores = sorted(self.topology.groups_of(Group.CORE, self.free_in(Group.UNCORE, uncore)))[:cores_needed]
        cpus = self.free & self.topology.cpus_in(Group.CORE, cores)
        if self.need % 2 and per_core > 1 and len(cpus) > self.need:
            cpus = CpuSet.from_ids(list(cpus)[:-1])
        if len(cpus) == self.need:
            self.take(cpus)

    def take_single(self, by: Group) -> None:
        """Take one CPU after the other: core by core, or socket by socket without regard to cores."""
        for cpu in [cpu for one in self.ordered(by) for cpu in self.free_in(by, one)]:
            self.take(CpuSet.of(cpu))
            if self.done:
                return

    def _below(self, outer: Group, inner: Group) -> list[int]:
        inside = self.topology.inside[outer, inner]
        return [
            one
            for parent in self.ordered(outer)
            for one in self._sort(inner, inside[parent], within=self.free_in(outer, parent))
        ]

    def _sort(self, group: Group, ids: Iterable[int], within: CpuSet | None = None) -> list[int]:
        """The ids that have a free CPU (within another group), fewest free CPUs first, then by id."""
        masks, free = self.topology.masks[group], self.free.mask
        present = free if within is None else within.mask
        return sorted(
            (one for one in ids if masks[one] & present), key=lambda one: ((masks[one] & free).bit_count(), one)
        )
