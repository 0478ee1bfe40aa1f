"""Two cgroups of our own whose processes do known work: one on near memory, one on the farthest.

Where the machine has one node only, or its cgroups of version 2 cannot be pinned, they differ in the amount alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies, find_hierarchies
from numaudit.kernel.cgroup_writer import OwnCgroup, available_controllers, own_tree
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.probes.counters.reference_workload import ReferenceWorkload, reference_workload
from numaudit.probes.kinds import KINDS
from numaudit.probes.session import Session
from numaudit.topology.machine import Machine

MIB = 1 << 20
_LOADING_WITHIN = 300.0
"""Seconds for the BPF programs to be compiled: unlike a report, a self-test has time to wait for a busy machine."""
_NEAR_BYTES, _FAR_BYTES = 32 * MIB, 16 * MIB


class Worker(Struct, frozen=True):
    """One of the two cgroups, and the process in it."""

    name: str
    group: OwnCgroup
    work: ReferenceWorkload
    cpu_node: int | None
    """The node of its CPUs and that of its memory; None = not pinned."""
    memory_node: int | None


class Bench(Struct, frozen=True):
    """Both workers, and what observes them."""

    host: Host
    machine: Machine
    hierarchies: Hierarchies
    session: Session
    near: Worker
    far: Worker

    @property
    def workers(self) -> tuple[Worker, Worker]:
        return self.near, self.far

    @property
    def is_pinned(self) -> bool:
        return self.near.memory_node is not None


@contextmanager
def near_and_far(host: Host) -> Iterator[Bench]:
    """Both at work until the end. Raises Unavailable when this host lets us make no cgroups of version 2."""
    machine, hierarchies = read_machine(host), find_hierarchies(host)
    if os.geteuid() != 0:
        raise Unavailable("the self-test makes cgroups and loads BPF programs: run it as root")
    if hierarchies.unified is None:
        raise Unavailable("the self-test needs cgroup version 2: boot with systemd.unified_cgroup_hierarchy=1")
    nodes = _places(machine)
    can_pin = nodes is not None and "cpuset" in available_controllers(hierarchies.unified)
    controllers = (*(("cpuset",) if can_pin else ()), *(("memory",) if hierarchies.is_v2 else ()))
    with ExitStack() as stack:
        session = stack.enter_context(
            Session.open(host, KINDS, cgroups=1024, nodes=len(machine.nodes), deadline=_LOADING_WITHIN)
        )
        name = f"numaudit-selftest-{os.getpid()}"
        tree = stack.enter_context(own_tree(hierarchies.unified, name, controllers))
        workers = []
        for label, size, place in (("near", _NEAR_BYTES, 0), ("far", _FAR_BYTES, 1)):
            if can_pin and nodes is not None:
                cpu_node, memory_node = nodes[0], nodes[place]
                cpus = str(machine.by_id[cpu_node].cpus)
                group = tree.add(label, cpuset_mems=str(memory_node), cpuset_cpus=cpus)
                work = stack.enter_context(reference_workload(size, 2, group.path))
                workers.append(Worker(label, group, work, cpu_node, memory_node))
            else:
                group = tree.add(label)
                work = stack.enter_context(reference_workload(size, 2, group.path))
                workers.append(Worker(label, group, work, None, None))
        yield Bench(host, machine, hierarchies, session, workers[0], workers[1])


def _places(machine: Machine) -> tuple[int, int] | None:
    """A node with CPUs and memory, and the node with memory that is farthest from it; None = there is no other."""
    near = next((node for node in machine.nodes if node.cpus and node.memory), None)
    if near is None:
        return None
    others = [node.id for node in machine.nodes if node.memory and node.id != near.id]
    far = max(others, key=lambda node: near.distances.get(node, 0), default=None)
    return None if far is None else (near.id, far)
