"""The CPUs that the kubelet keeps for the system: on the nodes that keep memory for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, zip_longest

from numaudit.containermanager.cpu.topology import CPUTopology
from numaudit.errors import InputError, Unavailable
from numaudit.evaluation.setup.rule import CannotJudge, SetupEvidence
from numaudit.topology.nodeset import CpuSet, NodeSet


def choose_reserved_cpus(evidence: SetupEvidence, nodes: NodeSet, milli: int) -> tuple[CpuSet, str]:
    """reservedSystemCPUs, and why these: those that are set, or else whole cores of each of `nodes` that has CPUs.

    `milli`: thousandths of CPUs that kubeReserved and systemReserved name; reservedSystemCPUs takes their place. Each
    node keeps a core for pods. Raises Unavailable.
    """
    nodes &= evidence.machine.with_cpus
    given = _given(evidence)
    if given:
        without = nodes - (evidence.machine.nodes_of_cpus(given) or nodes)
        return given, "As they are set now." + (
            f" None is on {without.in_words}, where memory is reserved too." if without else ""
        )
    cores = _cores(evidence)
    rounds = zip_longest(*(cores[node][:-1] for node in sorted(nodes) if node in cores))
    chosen, seen = CpuSet(), NodeSet()
    for node, core in (one for one in chain.from_iterable(rounds) if one is not None):
        if node in seen and len(chosen) * 1000 >= milli:
            break
        chosen, seen = chosen | core, seen | NodeSet.of(node)
    if chosen:
        return chosen, "Daemons get memory where they run: cores, with all threads, of nodes that reserve memory."
    return next(iter(cores.values()))[0][1], "The policy static needs some, and each node has only one core."


def _given(evidence: SetupEvidence) -> CpuSet:
    if evidence.config.document is None:
        return CpuSet()
    try:
        return evidence.reserved_cpus
    except CannotJudge as error:
        raise Unavailable(str(error)) from None


def _cores(evidence: SetupEvidence) -> Mapping[int, list[tuple[int, CpuSet]]]:
    """The cores of each node, as their threads, with the node; those last that the kernel isolates from daemons."""
    try:
        details = CPUTopology.from_machine(evidence.machine).details
    except InputError as error:
        raise Unavailable(f"reservedSystemCPUs cannot be chosen: {error}") from None
    threads: dict[tuple[int, int], set[int]] = {}
    for cpu, info in details.items():
        threads.setdefault((info.node, info.core), set()).add(cpu)
    isolated = evidence.settings.isolated_cpus or CpuSet()
    found: dict[int, list[tuple[int, CpuSet]]] = {}
    for node, core in sorted(threads, key=lambda key: (not isolated.isdisjoint(CpuSet.from_ids(threads[key])), key)):
        found.setdefault(node, []).append((node, CpuSet.from_ids(threads[node, core])))
    return found
