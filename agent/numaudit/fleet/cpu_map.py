"""A node's CPUs, rebuilt from how many of each NUMA node its agent exports. Pure.

Which CPUs of a node share a core or a socket is not exported. While the CPU Manager takes CPUs of one NUMA node, or all
that are free, their number alone decides, and the library's own admission needs no more. `is_settled` says whether that
is so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from numaudit.containermanager.cpu.hints import CPUPolicy, cpu_pod
from numaudit.containermanager.cpu.options import STRICT
from numaudit.containermanager.cpu.state import CPUState
from numaudit.containermanager.cpu.topology import Group
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.policy import NONE, POD_SCOPE
from numaudit.memorymanager.admission import Admission
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.topology.machine import Cpu
from numaudit.topology.nodeset import CpuSet, NodeSet

FREE, EXCLUSIVE, RESERVED = "free", "exclusive", "system_reserved"
"""States of `numaudit_cpu_manager_cpus`."""


class CpusThere(Struct, frozen=True):
    """CPUs of made-up numbers, a core and a socket of a node each."""

    cpus: tuple[Cpu, ...]
    free: CpuSet
    reserved: CpuSet

    def of_node(self, node: int) -> CpuSet:
        return CpuSet.from_ids(cpu.id for cpu in self.cpus if cpu.node == node)

    @property
    def state(self) -> CPUState:
        return CPUState(self.free | self.reserved)


def cpus_there(counts: Mapping[int, Mapping[str, int]]) -> CpusThere:
    """`counts`: NUMA node -> state -> CPUs."""
    cpus: list[Cpu] = []
    by_state: defaultdict[str, list[int]] = defaultdict(list)
    for node, states in sorted(counts.items()):
        for state in (RESERVED, EXCLUSIVE, FREE):
            for _ in range(states.get(state, 0)):
                by_state[state].append(len(cpus))
                cpus.append(Cpu(len(cpus), node, node, siblings=CpuSet.from_ids((len(cpus),))))
    return CpusThere(tuple(cpus), CpuSet.from_ids(by_state[FREE]), CpuSet.from_ids(by_state[RESERVED]))


def undecided(options: Iterable[str]) -> str | None:
    """Reason why numbers of CPUs are not enough with these options of the CPU Manager; None = they are."""
    others = sorted(set(options) - {STRICT})
    return f"its CPU Manager has {', '.join(others)}, and agents do not export cores" if others else None


def wants_cpus(pod: Pod, kubelet: Kubelet) -> bool:
    """True if a container of it gets CPUs of its own where the CPU Manager is static."""
    return any(one.exclusive for one in cpu_pod(pod, kubelet.features).containers)


def is_settled(kubelet: Kubelet, before: CPUState | None, admission: Admission) -> tuple[bool, bool]:
    """True where the numbers of CPUs decide about this admission; and the same of the next one.

    Under the Topology Manager's policy none nobody asks which NUMA node has them.
    """
    policy = kubelet.cpu
    if policy is None or before is None or kubelet.topology.policy == NONE:
        return True, True
    free, is_known, decided = policy.available(before), True, True
    for placement in admission.placements:
        if placement.cpus is None:
            continue
        if not is_known and kubelet.topology.scope != POD_SCOPE:
            decided = False
        is_known = is_known and _is_known(policy, free, placement.cpus, placement.hint.affinity)
        free -= placement.cpus
    asks_later = not is_known and not admission.admitted and kubelet.topology.scope != POD_SCOPE
    return decided and not asks_later, is_known


def _is_known(policy: CPUPolicy, free: CpuSet, taken: CpuSet, affinity: NodeSet | None) -> bool:
    """True if on any machine with as many free CPUs these are as many of each NUMA node."""
    pool = free | taken
    if affinity is not None and taken <= (near := policy.topology.cpus_in(Group.NODE, affinity)):
        pool &= near
    return taken == pool or len(policy.topology.groups_of(Group.NODE, pool)) == 1
