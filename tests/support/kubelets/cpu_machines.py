"""Machines for the CPU Manager's tests."""

from __future__ import annotations

from hypothesis import strategies as st

from numaudit.containermanager.cpu.topology import CPUInfo, CPUTopology
from numaudit.topology.nodeset import CpuSet


def regular(sockets: int, nodes: int, cores: int, threads: int) -> CPUTopology:
    """So many nodes in a socket, cores in a node, threads in a core; thread t of core c is CPU c + t * all cores.

    One uncore cache in a socket: with several nodes in it the kubelet lists it once for each.
    """
    all_cores = sockets * nodes * cores
    return CPUTopology(
        {
            core + thread * all_cores: CPUInfo(core // cores, core // cores // nodes, core, core // cores // nodes)
            for core in range(all_cores)
            for thread in range(threads)
        }
    )


EIGHT_CORES = regular(sockets=2, nodes=2, cores=2, threads=2)
"""Nodes {0,1,8,9} {2,3,10,11} | {4,5,12,13} {6,7,14,15}."""

GUEST = regular(sockets=1, nodes=4, cores=2, threads=1)
"""The guest in which a real kubelet was recorded: node n has CPUs 2n and 2n+1."""


@st.composite
def topologies(draw: st.DrawFn) -> CPUTopology:
    """Any small machine: cores of 1..3 threads, nodes in several sockets, sockets in several nodes, gaps in ids."""
    info = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))
    details: dict[int, CPUInfo] = {}
    free_ids = draw(st.permutations(range(24)))
    for node, socket, uncore in draw(st.lists(info, min_size=1, max_size=8)):
        threads = [free_ids.pop() for _ in range(draw(st.integers(1, 3)))]
        details.update(dict.fromkeys(threads, CPUInfo(node, socket, min(threads), uncore)))
    return CPUTopology(details)


def regular_machines() -> st.SearchStrategy[CPUTopology]:
    few = st.integers(1, 3)
    return st.builds(regular, sockets=few, nodes=few, cores=few, threads=few)


def cpus_of(topology: CPUTopology) -> st.SearchStrategy[CpuSet]:
    """Any of a machine's CPUs."""
    return st.sets(st.sampled_from(sorted(topology.cpus))).map(CpuSet.from_ids)
