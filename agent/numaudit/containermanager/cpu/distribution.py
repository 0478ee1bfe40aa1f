"""CPUs that the static CPU Manager takes with distribute-cpus-across-numa: evenly over the fewest nodes.

Source: pkg/kubelet/cm/cpumanager/cpu_assignment.go (takeByTopologyNUMADistributed).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from numaudit.containermanager.cpu.assignment import Accumulator, take_packed
from numaudit.containermanager.cpu.topology import CPUTopology, Group
from numaudit.containermanager.topologymanager.policy import AdmissionError, KubeletHangs
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.topology.nodeset import CpuSet


def take_distributed(
    topology: CPUTopology,
    available: CpuSet,
    count: int,
    *,
    group_size: int = 1,
    across_cores: bool = False,
    version: KubernetesVersion = LATEST,
) -> CpuSet:
    """Take `count` of the available CPUs so that each node used gives the same share.

    CPUs are handed out in groups of `group_size` (the threads of a core with full-pcpus-only).
    Of the node combinations that can do it the one wins that leaves the machine best balanced.
    When none can, or `count` is not a multiple of the group, CPUs are packed.
    Raises AdmissionError with the kubelet's text, and KubeletHangs where a kubelet never returns.
    """
    packed = partial(take_packed, topology, across_cores=across_cores, version=version)
    if count % group_size:
        return packed(available, count)
    work = Accumulator(topology, available, count)
    if work.done:
        return CpuSet()
    work.check_enough(available, version)
    nodes = work.ordered(Group.NODE)
    for size in _sizes(work, group_size):
        best = _best_plan(work, nodes, size, group_size)
        if best is not None:
            _take_plan(work, best, group_size, packed)
            return work.result
    return packed(available, count)


class _Plan(Struct, frozen=True):
    """`share` CPUs from each node, then the remainder in groups, round robin over the takers."""

    nodes: _View
    share: int
    remainder: int
    takers: _View
    balance: float
    """Standard deviation of the CPUs left on the machine's nodes."""


def _sizes(work: Accumulator, group_size: int) -> range:
    """Numbers of nodes to try: from as few as an empty machine would need, to one for each group."""
    groups = -(-work.topology.num_cpus // group_size)
    groups_per_node = -(-groups // work.topology.num_numa_nodes)
    needed = -(-work.need // group_size)
    with_free = len(work.topology.groups_of(Group.NODE, work.free))
    return range(-(-needed // groups_per_node), min(needed, with_free) + 1)


def _best_plan(work: Accumulator, nodes: Sequence[int], size: int, group_size: int) -> _Plan | None:
    free = {node: len(work.free_in(Group.NODE, node)) for node in nodes}
    best: _Plan | None = None
    for combination in _combinations(nodes, size):
        if best is not None and best.balance == 0:
            break
        plan = _plan(work, combination, free, group_size)
        if plan is not None and (best is None or plan.balance < best.balance):
            best = plan
    return best


def _plan(work: Accumulator, combination: _View, free: Mapping[int, int], group_size: int) -> _Plan | None:
    members = list(combination)
    share = work.need // len(members) // group_size * group_size
    if len(work.free & work.topology.cpus_in(Group.NODE, members)) < work.need:
        return None
    if sum(free[node] // group_size * group_size for node in members) < work.need:
        return None
    if any(free[node] < share for node in members):
        return None
    left = dict(free)
    for node in members:
        left[node] -= share
    remainder = work.need - share * len(members)
    if remainder == 0:
        return _Plan(combination, share, 0, _View([], 0), _deviation(left.values()))
    able = [node for node in members if left[node] >= group_size]
    best: _Plan | None = None
    for count in range(len(able), 0, -1):
        for takers in _combinations(able, count):
            after = _hand_out(left, list(takers), remainder, group_size)
            if after is None:
                continue
            balance = _deviation(after.values())
            if best is None or balance < best.balance:
                best = _Plan(combination, share, remainder, takers, balance)
    return best


def _hand_out(left: Mapping[int, int], takers: Sequence[int], remainder: int, group_size: int) -> dict[int, int] | None:
    """CPUs left by node after the remainder is handed out, or None when the takers have too little."""
    if sum(left[node] for node in takers) < remainder:
        return None
    after = dict(left)
    for node in _rounds(takers, lambda node: after[node] >= group_size, remainder, group_size):
        after[node] -= group_size
    return after


def _take_plan(work: Accumulator, plan: _Plan, group_size: int, packed: Callable[[CpuSet, int], CpuSet]) -> None:
    """Take the CPUs of a plan.

    The members are read from the plan only now: by then later combinations may have overwritten them.
    """
    remainder = plan.remainder
    for node in plan.nodes:
        _take_from(work, node, plan.share, packed)
    for node in _rounds(
        list(plan.takers), lambda node: len(work.free_in(Group.NODE, node)) >= group_size, remainder, group_size
    ):
        _take_from(work, node, group_size, packed)
    if work.need:
        few_or_many = "not enough" if work.need > 0 else "too many"
        raise AdmissionError(f"accounting error, {few_or_many} CPUs allocated, remaining: {work.need}")


def _take_from(work: Accumulator, node: int, count: int, packed: Callable[[CpuSet, int], CpuSet]) -> None:
    """Take CPUs of one node. The kubelet ignores that they may not be there, and counts at the end."""
    try:
        cpus = packed(work.free_in(Group.NODE, node), count)
    except AdmissionError:
        return
    work.take(cpus)


def _rounds(takers: Sequence[int], can_give: Callable[[int], bool], remainder: int, group_size: int) -> Iterator[int]:
    """The takers in turn, one group each, skipping those that cannot give one, until nothing remains."""
    while remainder > 0:
        before = remainder
        for node in takers:
            if remainder > 0 and can_give(node):
                yield node
                remainder -= group_size
        if remainder == before:
            raise KubeletHangs(
                f"the kubelet never returns from this request: {remainder} CPUs remain to be taken from nodes "
                f"{', '.join(map(str, takers))}, none of which has a whole group of {group_size} left "
                "(kubernetes/kubernetes#140730); ask for another number of CPUs, "
                "or leave out full-pcpus-only or distribute-cpus-across-numa"
            )


class _View:
    """A Go slice: the first `length` elements of storage that it may share with other slices."""

    def __init__(self, storage: list[int], length: int) -> None:
        self.storage = storage
        self.length = length

    def __iter__(self) -> Iterator[int]:
        return iter(self.storage[: self.length])

    def append(self, one: int) -> _View:
        """In place while there is room, else into a copy twice as large."""
        storage = self.storage
        if self.length == len(storage):
            storage = storage + [0] * len(storage)
        storage[self.length] = one
        return _View(storage, self.length + 1)


def _combinations(ids: Sequence[int], size: int) -> Iterator[_View]:
    """All combinations in lexicographic order, sharing storage as the kubelet's walk does.

    A combination that is kept changes its 4th element (of four) and 6th to 8th (and so on) when the
    walk goes on: kubernetes/kubernetes#141237. This decides which nodes a real kubelet takes.
    """

    def walk(chosen: _View, start: int) -> Iterator[_View]:
        missing = size - chosen.length
        if missing == 0:
            yield chosen
            return
        for index in range(start, len(ids) - missing + 1):
            yield from walk(chosen.append(ids[index]), index + 1)

    for index in range(len(ids) - size + 1):
        yield from walk(_View([ids[index]], 1), index + 1)


def _deviation(values: Collection[int]) -> float:
    """Population standard deviation, the mean and the result rounded to three decimals each."""
    mean = _round(sum(values) / len(values))
    return _round(math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)))


def _round(value: float) -> float:
    """To three decimals, halves up; the value is not negative."""
    scaled = value * 1000
    whole = math.floor(scaled)
    return (whole + (scaled - whole >= 0.5)) / 1000
