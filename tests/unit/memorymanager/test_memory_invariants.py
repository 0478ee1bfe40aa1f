"""What holds in any history of the static Memory Manager, and hints compared with the rules written down naively."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubelets.pods import container, pod
from numaudit.containermanager.memory.candidates import calculate_hints, find_best_hint, judge_candidates
from numaudit.containermanager.memory.group_rules import BrokenRule
from numaudit.containermanager.memory.replay import check_start
from numaudit.containermanager.memory.state import (
    MachineState,
    MemoryState,
    MemoryTable,
    NUMANodeState,
    default_machine_state,
)
from numaudit.containermanager.memory.static_policy import (
    MemoryPolicy,
    add_container,
    allocate,
    container_hints,
    memory_nodes,
    remove_container,
    remove_stale_state,
)
from numaudit.containermanager.pod.spec import Container, Pod
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.topology.machine import HugePages, Machine, Node
from numaudit.topology.nodeset import NodeSet

MI = 2**20
GI = 2**30

sizes = st.sampled_from(["0", "1Gi", "2Gi", "3Gi", "5Gi", "8Gi", "13Gi"])
pages = st.sampled_from([None, None, "1Gi", "2Gi"])


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A Guaranteed pod with up to two init containers (or sidecars) and one or two app containers."""

    def one(name: str, *, may_be_sidecar: bool) -> Container:
        huge = draw(pages)
        memory = draw(sizes.filter(lambda size: size != "0"))
        return container(
            name,
            memory,
            more={} if huge is None else {"hugepages-1Gi": huge},
            sidecar=may_be_sidecar and draw(st.booleans()),
        )

    init = tuple(one(f"i{n}", may_be_sidecar=True) for n in range(draw(st.integers(0, 2))))
    apps = tuple(one(f"a{n}", may_be_sidecar=False) for n in range(draw(st.integers(1, 2))))
    return pod("", *apps, init=init)


class History(RuleBasedStateMachine):
    """Pods are admitted on their own best hints, started and removed, in any order."""

    @initialize(memory=st.lists(st.integers(4, 12), min_size=1, max_size=4), huge=st.integers(0, 3))
    def build(self, memory: list[int], huge: int) -> None:
        nodes = tuple(
            Node(i, memory=(size + huge) * GI, huge_pages=(HugePages(GI, huge),)) for i, size in enumerate(memory)
        )
        self.default = default_machine_state(Machine(nodes), {0: {"memory": GI}})
        self.policy = MemoryPolicy(MemoryState(self.default))
        self.active: dict[str, Pod] = {}
        self.count = 0

    @rule(template=pods())
    def admit(self, template: Pod) -> None:
        self.count += 1
        uid = f"pod-{self.count}"
        one = Pod(uid, "default", uid, template.containers, template.init_containers)
        self.policy = remove_stale_state(self.policy, {**self.active, uid: one})
        for part in one.all_containers:
            before = self.policy
            hints = container_hints(before, one, part.name)
            assert hints is not None
            if not hints:
                try:
                    allocate(before, one, part.name)
                except AdmissionError:
                    return
                raise AssertionError("what has no hint was allocated")
            best = find_best_hint(hints["memory"] or ())
            done = allocate(before, one, part.name, best)
            assert done.affinity is not None
            assert best.affinity is not None
            assert best.affinity <= done.affinity
            self.policy = done.policy
        self.active[uid] = one

    @precondition(lambda self: bool(self.active))
    @rule(data=st.data())
    def start_all(self, data: st.DataObject) -> None:
        one = self.active[data.draw(st.sampled_from(sorted(self.active)))]
        for part in one.all_containers:
            self.policy = add_container(self.policy, one, part.name)
        for part in one.containers:
            assert memory_nodes(self.policy.state, one.uid, part.name)

    @precondition(lambda self: bool(self.active))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        del self.active[data.draw(st.sampled_from(sorted(self.active)))]

    @rule()
    def remove_everything_and_start_again(self) -> None:
        emptied = remove_stale_state(self.policy, {})
        assert emptied.state.entries == {}
        assert emptied.state.machine == self.default

    @invariant()
    def free_and_reserved_are_all_of_a_group(self) -> None:
        for node in self.policy.state.machine.values():
            for table in node.memory_map.values():
                assert table.free + table.reserved == table.allocatable

    @invariant()
    def groups_are_disjoint_and_agreed_on(self) -> None:
        machine = self.policy.state.machine
        for id_, node in machine.items():
            assert node.cells is not None
            assert id_ in node.cells
            for other in node.cells:
                assert machine[other].cells == node.cells
            if node.number_of_assignments == 0:
                assert node.cells == (id_,)

    @invariant()
    def the_blocks_are_what_was_charged(self) -> None:
        machine, entries = self.policy.state.machine, self.policy.state.entries
        for resource in ("memory", "hugepages-1Gi"):
            promised = sum(
                block.size
                for containers in entries.values()
                for blocks in containers.values()
                for block in blocks
                if block.type == resource
            )
            assert promised == sum(node.memory_map[resource].reserved for node in machine.values())

    @invariant()
    def a_kubelet_would_start_with_this_state(self) -> None:
        assert check_start(self.policy.state, self.default) is None


TestHistory = History.TestCase


@st.composite
def machines(draw: st.DrawFn) -> MachineState:
    """Any machine state, also ones that no history leads to."""
    ids = sorted(draw(st.sets(st.integers(0, 6), min_size=1, max_size=4)))
    nodes: dict[int, NUMANodeState] = {}
    for id_ in ids:
        tables = {}
        for resource in ("memory", "hugepages-2Mi"):
            allocatable = draw(st.integers(0, 6))
            free = draw(st.integers(0, allocatable))
            tables[resource] = MemoryTable(allocatable, 0, allocatable, allocatable - free, free)
        cells = draw(st.sampled_from([(id_,), (id_,), tuple(ids[:2]), tuple(ids[-2:]), (), None]))
        nodes[id_] = NUMANodeState(draw(st.integers(0, 2)), tables, cells)
    return nodes


requests_for = st.dictionaries(st.sampled_from(["memory", "hugepages-2Mi"]), st.integers(0, 9), min_size=1)


def naive_hints(
    machine: MachineState, requests: Mapping[str, int], reused: Mapping[NodeSet, Mapping[str, int]]
) -> object:
    """The kubelet's rules one after the other, for each combination of nodes."""
    fewest = len(machine)
    kept = []
    for size in range(1, len(machine) + 1):
        for ids in combinations(sorted(machine), size):
            chosen = [machine[one] for one in ids]
            if any(sum(one.memory_map[r].allocatable for one in chosen) < asked for r, asked in requests.items()):
                continue
            fewest = min(fewest, size)
            if size == 1 and len(chosen[0].cells or ()) > 1:
                continue
            if size > 1 and any(
                one.number_of_assignments > 0 and (len(one.cells or ()) == 1 or sorted(one.cells or ()) != list(ids))
                for one in chosen
            ):
                continue
            left = reused.get(NodeSet.from_ids(ids), {})
            if any(
                sum(one.memory_map[r].free for one in chosen) + left.get(r, 0) < asked for r, asked in requests.items()
            ):
                continue
            kept.append(ids)
    return [(ids, len(ids) == fewest) for ids in kept]


@given(machines(), requests_for, st.data())
def test_hints_are_those_of_the_rules_one_after_the_other(
    machine: MachineState, requests: Mapping[str, int], data: st.DataObject
) -> None:
    some = NodeSet.from_ids(data.draw(st.sets(st.sampled_from(sorted(machine)), min_size=1)))
    reused = {some: {"memory": data.draw(st.integers(0, 5))}}
    hints = calculate_hints(machine, requests, reused)
    expected = naive_hints(machine, requests, reused)
    assert set(hints) == (set(requests) if expected else set())
    for listed in hints.values():
        assert [(tuple(one.affinity or ()), one.preferred) for one in listed] == expected
    judged = judge_candidates(machine, requests, reused)
    assert len(judged) == 2 ** len(machine) - 1
    assert [(tuple(one.mask), one.preferred) for one in judged if one.verdict is BrokenRule.KEPT] == expected
    for one in judged:
        assert bool(one.shortages) == (one.verdict in (BrokenRule.TOO_SMALL, BrokenRule.NOT_FREE))
        assert bool(one.conflicts) == (one.verdict in (BrokenRule.IN_A_GROUP, BrokenRule.BREAKS_A_GROUP))
        assert all(each.available < each.requested for each in one.shortages)


@given(pods(), st.integers(1, 4))
def test_admitting_and_removing_a_pod_leaves_no_trace(template: Pod, nodes: int) -> None:
    machine = Machine(tuple(Node(i, memory=10 * GI, huge_pages=(HugePages(GI, 2),)) for i in range(nodes)))
    start = MemoryPolicy(MemoryState(default_machine_state(machine, {0: {"memory": 100 * MI}})))
    policy = start
    for part in template.all_containers:
        try:
            policy = allocate(policy, template, part.name).policy
        except AdmissionError:
            break
    for part in template.all_containers:
        policy = remove_container(policy, template.uid, part.name)
    assert policy.state == start.state
