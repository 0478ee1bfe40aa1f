"""Numbers of CPUs of each NUMA node that the static CPU Manager has given to containers, and may still give."""

from __future__ import annotations

from typing import NamedTuple

from numaudit.containermanager.cpu.hints import CPUPolicy, count_by_node
from numaudit.containermanager.cpu.state import CPUState


class CPURoom(NamedTuple):
    """Numbers of CPUs; their sum is all CPUs of the node."""

    node: int
    free: int
    """They may still be given to a container exclusively."""
    exclusive: int
    """A container has them."""
    reserved: int
    """Reserved for the system: no container gets them."""


def cpu_room(policy: CPUPolicy, state: CPUState) -> tuple[CPURoom, ...]:
    """Of each node that has CPUs."""
    topology = policy.topology
    free = count_by_node(topology, policy.available(state) & topology.cpus)
    reserved = count_by_node(topology, policy.reserved)
    size = count_by_node(topology, topology.cpus)
    return tuple(
        CPURoom(
            node,
            free.get(node, 0),
            size[node] - free.get(node, 0) - reserved.get(node, 0),
            reserved.get(node, 0),
        )
        for node in topology.nodes
    )
