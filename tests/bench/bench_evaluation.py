"""What it costs to judge 1,000 containers on eight nodes, and whether joining their sources is linear.

Run: python tests/bench/bench_evaluation.py. It fails when verdicts, findings, outcomes and the report of
one tick take more than 30 ms of CPU time (best of several rounds), with the kubelet's log or without it, when they
take more than 4 ms of a tick in which nothing changed, or when the join of 2,000 containers takes more than 1.5 times
as long for each container as that of 1,000.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from msgspec import structs
from msgspec.structs import replace

from goals import at_most, at_most_ms, least_ms
from numaudit.containermanager.memory.state import Block, MachineState, MemoryTable, NUMANodeState
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.daemon.memory import collect_garbage_rarely
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.findings import find
from numaudit.evaluation.hint_outcomes import outcomes
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import Intent
from numaudit.intent.pods import HintRecord, PodContainer, PodFacts
from numaudit.kubelet.intent.join import complete, join
from numaudit.kubelet.intent.promises import Checkpoints
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import RESIDENT_TYPES, Allowed, Container, ContainerId, NodeMemory, Qos, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from short import pick, run

NODES, CPUS_PER_NODE, PER_POD = 8, 32, 4
FEW, MANY = pick((1000, 2000), short=(40, 80))
ROUNDS = pick(10, short=3)
GIB, MIB = 1 << 30, 1 << 20
LIMIT_MS, LIMIT_RATIO = 30.0, 1.5
SHORT_TICK = 2.5
"""In yardsticks."""
MACHINE = Machine(
    tuple(
        Node(id_, CpuSet.from_ids(range(id_ * CPUS_PER_NODE, (id_ + 1) * CPUS_PER_NODE)), 256 * GIB)
        for id_ in range(NODES)
    )
)


def main() -> None:
    collect_garbage_rarely()  # as the agent does
    first = snapshot(FEW, with_log=True)
    second = replace(snapshot(FEW, with_log=True, tick=1), intent=first.intent)  # the kubelet said nothing new
    whole = tick_ms(first, second)
    before = snapshot(FEW, with_log=False)
    without = tick_ms(before, replace(snapshot(FEW, with_log=False, tick=1), intent=before.intent))
    earlier = judge(first)
    judged = judge(second, first, earlier)
    intent = second.intent
    assert intent is not None
    for name, step in (
        ("verdicts", lambda: judge(second, first, earlier)),
        ("findings", lambda: find(second, judged)),
        ("hint outcomes", lambda: outcomes(intent)),
    ):
        print(f"  {name:14} {least_ms(step, ROUNDS):6.1f} ms")
    few, many = least_ms(joining(FEW), ROUNDS), least_ms(joining(MANY), ROUNDS)
    ratio = many / few / (MANY / FEW)
    print(
        f"{FEW:,} containers on {NODES} nodes, all evidence: {whole:.1f} ms, without the kubelet's log {without:.1f} ms"
    )
    floor = least_ms(lambda: add_up(second), ROUNDS)
    print(f"only to add all bytes up takes {floor:.1f} ms, a {whole / floor:.0f}th of that")
    print(f"join: {few:.1f} ms for {FEW:,}, {many:.1f} ms for {MANY:,} containers: {ratio:.2f} times as long for each")
    at_most_ms("evaluation, all containers changed, all evidence", whole, LIMIT_MS, short=SHORT_TICK)
    at_most_ms("evaluation without the kubelet's log", without, LIMIT_MS, short=SHORT_TICK)
    at_most("join, twice the containers: longer for each", ratio, LIMIT_RATIO, short=2 * LIMIT_RATIO)


def tick_ms(first: Snapshot, second: Snapshot) -> float:
    """Milliseconds for everything that is concluded from one tick; each round judges bytes it never saw."""
    earlier = judge(first)
    fresh = [replace(second, residency=unseen(second.residency)) for _ in range(ROUNDS)]
    return least_ms(lambda: _conclude(fresh.pop(), first, earlier), ROUNDS)


def unseen(resident: Mapping[ContainerId, Resident]) -> dict[ContainerId, Resident]:
    """The same bytes, without what was worked out of them before and kept."""
    return {id_: structs.replace(one) for id_, one in resident.items()}


def add_up(snapshot: Snapshot) -> list[dict[int, int]]:
    """The floor: to read every number of bytes once."""
    return [one.sum_of(RESIDENT_TYPES) for one in snapshot.residency.values()]


def _conclude(snapshot: Snapshot, before: Snapshot, earlier: Judgements) -> Report:
    return build(snapshot, judge(snapshot, before, earlier), before)


def snapshot(count: int, *, with_log: bool, tick: int = 0) -> Snapshot:
    """Containers of every kind: aligned, split, spilled, drifted, some of Burstable pods."""
    chance = random.Random(1)
    containers, pods, checkpoints, records = node(count)
    named = complete(containers, pods)
    joined = join(
        named,
        checkpoints,
        pods=pods,
        pods_are_current=True,
        resources=None,
        records=records if with_log else (),
    )
    intent = Intent(
        containers=joined.containers,
        pods=pods,
        machine=memory_map(),
        hints=joined.hints,
        config=KubeletConfig(memory_manager_policy="Static", topology_manager_policy="best-effort"),
    )
    promised = {one.cgroups[0]: one.promise.memory_nodes or NodeSet.of(0) for one in joined.containers}
    nodes = {one.id: promised[one.id] for one in named}
    drifted = {one.id: chance.random() < 0.02 for one in named}
    return Snapshot(
        taken_at=1000.0 + tick,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=named,
        allowed={
            one.id: Allowed(NodeSet.of(7) if drifted[one.id] else nodes[one.id], cpus_of(nodes[one.id]))
            for one in named
        },
        residency={one.id: resident(nodes[one.id], chance) for one in named},
        nodes=tuple(NodeMemory(id_, 256 * GIB, 128 * GIB, Resident(anon={id_: GIB})) for id_ in range(NODES)),
        intent=intent,
        cpu_time={one.id: dict.fromkeys(nodes[one.id], (tick + 1) * 10.0) for one in named},
        page_alloc={
            one.id: {(node, node): (tick + 1) * MIB for node in nodes[one.id]} | {(0, None): MIB} for one in named
        },
    )


def node(
    count: int,
) -> tuple[tuple[Container, ...], dict[str, PodFacts], Checkpoints, tuple[HintRecord, ...]]:
    """Pods of four containers; three in four are Guaranteed. Sizes differ, as do the sets of nodes."""
    chance = random.Random(2)
    containers: list[Container] = []
    pods: dict[str, PodFacts] = {}
    memory: dict[tuple[str, str], tuple[Block, ...]] = {}
    cpus: dict[tuple[str, str], CpuSet] = {}
    records: list[HintRecord] = []
    for number in range(count // PER_POD):
        uid, name, managed = f"{number:032x}", f"pod-{number}", number % 4 > 0
        ids = [f"{number:032x}{one:032x}" for one in range(PER_POD)]
        qos: Qos = "Guaranteed" if managed else "Burstable"
        parts = tuple(PodContainer(f"c{one}", "app", "running", id_) for one, id_ in enumerate(ids))
        pods[uid] = PodFacts(uid, "prod", name, qos, "Running", created_at=1.0, containers=parts)
        for one, id_ in enumerate(ids):
            cgroup = ContainerId(number * PER_POD + one + 1)
            tier = "" if managed else "/burstable"
            path = f"/kubepods{tier}/pod{uid}/{id_}"
            containers.append(Container(cgroup, path, "container", True, qos, "containerd", id_, uid))
            if managed:
                first = chance.randrange(NODES)
                nodes = NodeSet.of(first, (first + 1) % NODES) if chance.random() < 0.2 else NodeSet.of(first)
                size = chance.randrange(64 * MIB, GIB, 4096)
                memory[uid, f"c{one}"] = (
                    Block.of("memory", size, nodes),
                    Block.of("hugepages-2Mi", 2 * MIB, nodes),
                )
                cpus[uid, f"c{one}"] = CpuSet.of(first * CPUS_PER_NODE)
                hint = TopologyHint(nodes, len(nodes) == 1)
                records.append(
                    HintRecord("prod", name, f"c{one}", uid, 2.0, best=hint, merged=True, memory_nodes=nodes)
                )
    return tuple(containers), pods, Checkpoints(memory, True, cpus, True), tuple(records)


def joining(count: int) -> Callable[[], object]:
    containers, pods, checkpoints, records = node(count)

    def once() -> object:
        named = complete(containers, pods)
        return join(named, checkpoints, pods=pods, pods_are_current=True, resources=None, records=records)

    return once


def memory_map() -> MachineState:
    table = MemoryTable(256 * GIB, GIB, 255 * GIB, 100 * GIB, 155 * GIB)
    tables = {"memory": table, "hugepages-2Mi": replace(table, total=GIB, system_reserved=0)}
    return {id_: NUMANodeState(100, tables, (id_,)) for id_ in range(NODES)}


def resident(nodes: NodeSet, chance: random.Random) -> Resident:
    """On every node a little page cache; anon on the promised nodes, and for some elsewhere, too."""
    anon = {id_: 100 * MIB if id_ in nodes else 0 for id_ in range(NODES)}
    if chance.random() < 0.05:
        anon[chance.randrange(NODES)] += 50 * MIB
    little = dict.fromkeys(range(NODES), MIB)
    huge = {id_: 2 * MIB if id_ in nodes else 0 for id_ in range(NODES)}
    return Resident(anon=anon, shmem=dict.fromkeys(range(NODES), 0), file=little, hugetlb=huge, kernel=little)


def cpus_of(nodes: NodeSet) -> CpuSet:
    return CpuSet.from_ids(cpu for id_ in nodes for cpu in range(id_ * CPUS_PER_NODE, (id_ + 1) * CPUS_PER_NODE))


if __name__ == "__main__":
    run(main)
