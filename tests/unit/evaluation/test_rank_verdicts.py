"""Verdicts of ranks: each way in which a process is not where it was bound, its likely cause and the summary."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.evaluation.findings import find
from numaudit.evaluation.ranks.judge import ranks_of, summary
from numaudit.evaluation.ranks.rank import Rank
from numaudit.ranks.declaration import Declaration, HeldDevice, ProcessTold
from numaudit.snapshot import Allowed, Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.snapshot.processes import ContainerProcesses, MappedMemory, ProcessPlacement, ThreadGroup, UnreadPart
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB, GIB = 1 << 20, 1 << 30
ID = ContainerId(7)
NODES = (Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7")), Node(2, CpuSet()))
BIND_1 = Declaration("vllm", "_VLLM_INTERNAL_NUMACTL_ARGS", "environment", "bind", NodeSet.of(1), CpuSet.parse("4-7"))
ON_1 = {1: 10 * GIB}


def group(policy: str | None, cpus: str = "4-7", threads: int = 4, name: str = "rank") -> ThreadGroup:
    where = CpuSet.parse(cpus)
    nodes = NodeSet.from_ids(node.id for node in NODES if node.cpus and not node.cpus.isdisjoint(where))
    return ThreadGroup(threads, 100, (name,), where, nodes, NodeSet.parse("0-2"), policy, {}, {})


def process(
    policy: str | None = "bind:1",
    memory: dict[int, int] | None = ON_1,
    groups: tuple[ThreadGroup, ...] | None = None,
    mappings: tuple[MappedMemory, ...] = (),
    **more: str | bool | int | tuple[UnreadPart, ...],
) -> ProcessPlacement:
    mapped = None if memory is None else (MappedMemory("anon", policy or "default", memory), *mappings)
    found = ProcessPlacement(
        pid=100,
        process="python3",
        parent=1,
        started_at=None,
        pid_in_namespace=None,
        threads=4,
        thread_groups=(group(policy),) if groups is None else groups,
        mappings=mapped,
        cpu_time_source=None,
        seccomp="disabled",
        sys_nice=True,
        unread=(),
    )
    return replace(found, **more)


def snapshot(*processes: ProcessPlacement, told: tuple[Declaration, ...] = (BIND_1,), free: int = GIB) -> Snapshot:
    return Snapshot(
        0.0,
        Machine(NODES),
        "v2",
        allowed={ID: Allowed(NodeSet.parse("0-2"), CpuSet.parse("0-7"))},
        nodes=tuple(NodeMemory(node, 20 * GIB, free, Resident()) for node in range(3)),
        processes={ID: ContainerProcesses(processes, len(processes), None, "start")},
        told={ID: {one.pid: ProcessTold(one.pid, one.pid - 100, told) for one in processes}},
    )


def rank(one: ProcessPlacement, *told: Declaration, free: int = GIB) -> Rank:
    (found,) = ranks_of(ID, snapshot(one, told=told or (BIND_1,), free=free))
    return found


def cause(one: Rank) -> tuple[str, str | None]:
    return one.verdict, one.problems[0].cause if one.problems else None


def test_a_rank_under_its_policy_on_its_cpus_with_its_memory_there_is_in_force() -> None:
    found = rank(process())
    assert cause(found) == ("in-force", None)
    assert found.detail == "its memory policy is bind:1, it runs on CPUs 4-7"


def test_no_policy_behind_a_seccomp_filter_without_sys_nice_was_probably_refused() -> None:
    found = rank(process("default", seccomp="filter", sys_nice=False))
    assert cause(found) == ("declared-not-in-force", "refused-by-seccomp")
    assert "set_mempolicy(2) was probably refused" in found.detail
    assert cause(rank(process("default", seccomp="filter", sys_nice=True))) == ("declared-not-in-force", "not-set")


def test_a_policy_on_another_node_and_another_policy_are_named() -> None:
    assert cause(rank(process("bind:0"))) == ("declared-not-in-force", "wrong-node")
    assert cause(rank(process("interleave:0-1"))) == ("declared-not-in-force", "other-policy")


def test_nodes_that_the_cpuset_lacks_cut_a_declaration() -> None:
    both = replace(BIND_1, memory_nodes=NodeSet.of(1, 3), cpus=None)
    assert cause(rank(process("bind:1"), both)) == ("declared-not-in-force", "cut-by-cpuset")
    absent = replace(BIND_1, memory_nodes=NodeSet.of(3), cpus=None)
    assert cause(rank(process("default"), absent)) == ("declared-not-in-force", "cut-by-cpuset")
    cpus = Declaration("slurm-cpus", "SLURM_CPU_BIND", "environment", cpus=CpuSet.parse("8-9"))
    assert cause(rank(process("default"), cpus)) == ("declared-not-in-force", "cut-by-cpuset")


def test_a_child_without_the_policy_of_its_parent_has_lost_it() -> None:
    numactl = replace(BIND_1, launcher="numactl", source="numactl", where="ancestor")
    parent = process(pid=100, parent=1)
    child = process("default", pid=101, parent=100)
    found = {one.pid: one for one in ranks_of(ID, snapshot(parent, child, told=(numactl,)))}
    assert cause(found[100]) == ("in-force", None)
    assert cause(found[101]) == ("declared-not-in-force", "policy-lost")


def test_memory_on_another_node_under_bind_was_touched_before() -> None:
    found = rank(process(memory={0: 3 * GIB, 1: 11 * GIB}))
    assert cause(found) == ("first-touch-before-bind", "touched-before")
    assert (found.problems[0].bytes, found.problems[0].numa_nodes) == (3 * GIB, NodeSet.of(0))
    assert found.detail == "3Gi of 14Gi on node 0, touched before it was bound"


def test_a_little_memory_elsewhere_is_no_problem() -> None:
    assert cause(rank(process(memory={0: 90 * MIB, 1: 10 * GIB}))) == ("in-force", None)


def test_memory_beside_a_preferred_node_is_where_the_policy_allows_it() -> None:
    preferred = replace(BIND_1, policy="preferred")
    spilled = process("prefer:1", memory={0: 3 * GIB, 1: 11 * GIB})
    for free in (MIB, GIB):
        found = rank(spilled, preferred, free=free)
        assert cause(found) == ("in-force", None)
        assert found.detail == (
            "its memory policy is prefer:1, it runs on CPUs 4-7, 3Gi of 14Gi on node 0, which its policy allows"
        )


def test_memory_beside_bound_cpus_may_have_come_while_their_node_was_full() -> None:
    mpi = Declaration("open-mpi", "--bind-to", "ancestor", one_node=True)
    spilled = process("default", memory={0: 3 * GIB, 1: 11 * GIB})
    assert cause(rank(spilled, mpi, free=MIB)) == ("first-touch-before-bind", "node-full")
    assert rank(spilled, mpi).detail == (
        "3Gi of 14Gi on node 0, touched before it was bound to its CPUs, or by another thread, or while node 1 was full"
    )


def test_memory_on_a_node_without_cpus_is_not_remote() -> None:
    found = rank(process(memory={1: GIB, 2: 9 * GIB}))
    assert cause(found) == ("in-force", None)
    assert found.memory_only_bytes == 9 * GIB


def test_shared_memory_elsewhere_is_noted_and_is_of_who_touched_it_first() -> None:
    found = rank(process(mappings=(MappedMemory("shmem", "bind:1", {0: GIB}),)))
    assert cause(found) == ("in-force", None)
    assert found.shared_elsewhere_bytes == GIB


def test_mappings_with_a_policy_of_their_own_are_not_of_the_thread_s() -> None:
    assert cause(rank(process(mappings=(MappedMemory("anon", "interleave:0-1", {0: GIB, 1: GIB}),)))) == (
        "in-force",
        None,
    )


def test_a_main_thread_on_all_cpus_was_not_bound() -> None:
    found = rank(process(groups=(group("bind:1", "0-7"),)))
    assert cause(found) == ("declared-not-in-force", "cpus-not-bound")


def test_threads_outside_the_declared_cpus_are_astray() -> None:
    found = rank(process(groups=(group("bind:1"), group("bind:1", "0-7", 2, "nccl"))))
    assert cause(found) == ("thread-astray", "threads-outside")
    assert found.detail == "2 threads (nccl) may run on nodes 0-1, outside the CPUs of _VLLM_INTERNAL_NUMACTL_ARGS"
    of_main = replace(BIND_1, threads="main")
    assert cause(rank(process(groups=(group("bind:1"), group("bind:1", "0-3", 2))), of_main)) == ("in-force", None)


def test_threads_without_the_policy_are_astray() -> None:
    found = rank(process(groups=(group("bind:1"), group("default", threads=1, name="pool"))))
    assert cause(found) == ("thread-astray", "threads-policy")
    assert found.detail == "1 thread (pool) without its policy bind:1, but with default"


def test_one_node_whichever_is_fulfilled_by_any() -> None:
    mpi = Declaration("open-mpi", "--bind-to", "ancestor", one_node=True)
    assert cause(rank(process("default", groups=(group("default", "4"),)), mpi)) == ("in-force", None)
    assert cause(rank(process("default", groups=(group("default", "0-7"),)), mpi)) == (
        "declared-not-in-force",
        "cpus-not-bound",
    )


def test_memory_follows_declared_cpus_by_first_touch() -> None:
    mpi = Declaration("open-mpi", "--bind-to", "ancestor", one_node=True)
    found = rank(process("default", memory={0: GIB, 1: GIB}), mpi)
    assert cause(found) == ("first-touch-before-bind", "touched-before")


def test_a_policy_that_nothing_declares_is_its_own_declaration() -> None:
    found = rank(process(memory={0: GIB, 1: GIB}))
    (alone,) = ranks_of(ID, replace(snapshot(process(memory={0: GIB, 1: GIB})), told={}))
    assert alone.declarations[0].launcher == "itself"
    assert cause(alone) == cause(found) == ("first-touch-before-bind", "touched-before")
    assert ranks_of(ID, replace(snapshot(process("default")), told={})) == ()


WORKERS = tuple(group("bind:0-1", str(cpu), 1, f"w{cpu}") for cpu in range(8))
LAUNCHES = (
    ("bind:1", (group("bind:1", "4", 1), *(group("bind:1", str(cpu), 1) for cpu in (5, 6, 7))), "in-force"),
    ("bind:1", (group("bind:1", "4", 1), group("bind:1", "4-7", 3)), "in-force"),
    ("bind:1", (group("bind:1", "0-7", 3), group("bind:1", "0-3", 1)), "in-force"),
    ("bind:1", (group("bind:1", "0-3", 3), group("bind:1", "4-7", 1)), "in-force"),  # its CPUs are not its policy's
    ("bind:0-1", (group("bind:0-1", "0", 1), group("bind:0-1", "4-7", 3)), "in-force"),
    ("bind:0-1", WORKERS, "in-force"),
    ("bind:2", (group("bind:2", "0-3", 1), group("bind:2", "4-7", 3)), "in-force"),  # a node without CPUs
    ("prefer (many):0-1", (group("prefer (many):0-1", "0-3", 1), group("prefer (many):0-1", "4-7")), "in-force"),
    ("bind:1", (group("bind:1", "4", 1), group("bind:1", "3-7", 3)), "thread-astray"),
    ("bind:1", (group("bind:1", "4", 1), group("bind:1", "0-3", 3)), "thread-astray"),
)


@pytest.mark.parametrize(("policy", "groups", "verdict"), LAUNCHES)
def test_a_thread_is_astray_only_if_it_may_run_on_another_node_than_its_policys(
    policy: str, groups: tuple[ThreadGroup, ...], verdict: str
) -> None:
    memory = {1: GIB} if policy == "bind:1" else {2: GIB}
    (found,) = ranks_of(ID, replace(snapshot(process(policy, memory, groups)), told={}))
    assert found.verdict == verdict, found.detail


def test_a_thread_on_the_node_of_declared_cpus_is_not_astray() -> None:
    one_cpu = replace(BIND_1, cpus=CpuSet.of(4))
    groups = (group("bind:1", "4", 1), group("bind:1", "5-7", 3))
    assert cause(rank(process(groups=groups), one_cpu)) == ("in-force", None)
    assert cause(rank(process(groups=(groups[0], group("bind:1", "3", 1))), one_cpu))[0] == "thread-astray"


def test_mappings_of_a_virtual_machine_must_have_the_declared_policy() -> None:
    qemu = Declaration("qemu", "host-nodes", "arguments", "bind", NodeSet.of(1), memory_of="mappings")
    guest = MappedMemory("anon", "bind:1", {1: GIB})
    assert cause(rank(process("default", mappings=(guest,)), qemu)) == ("in-force", None)
    assert cause(rank(process("default"), qemu)) == ("declared-not-in-force", "not-set")
    elsewhere = replace(guest, policy="bind:0")
    assert cause(rank(process("default", mappings=(elsewhere,)), qemu)) == ("declared-not-in-force", "wrong-node")


def test_huge_pages_of_dpdk_must_be_on_the_declared_nodes() -> None:
    dpdk = Declaration("dpdk", "--socket-mem", "arguments", memory_nodes=NodeSet.of(1), memory_of="huge-pages")
    pages = MappedMemory("hugetlb", "default", {1: GIB})
    assert cause(rank(process("default", mappings=(pages,)), dpdk)) == ("in-force", None)
    wrong = rank(process("default", mappings=(replace(pages, bytes_by_node={0: GIB, 1: GIB}),)), dpdk)
    assert (cause(wrong), wrong.problems[0].bytes) == (("declared-not-in-force", "wrong-node"), GIB)


def test_what_was_not_read_is_unknown_and_has_its_reason() -> None:
    unread = process(None, memory=None, unread=(UnreadPart("mappings", "run as root"),))
    found = rank(unread)
    assert (found.verdict, found.detail) == ("unknown", "its memory policy was not read: run as root")
    lost = Declaration("numactl", "numactl", "ancestor", unresolved="netdev: names a device")
    assert rank(process("default"), lost).detail == "netdev: names a device"


def test_the_summary_counts_ranks_and_names_the_worst() -> None:
    ranks = [
        process(pid=100 + number, memory={0: 3 * GIB, 1: 11 * GIB} if number == 3 else ON_1) for number in range(8)
    ]
    found = ranks_of(ID, snapshot(*ranks))
    assert summary(found) == (
        "7 of 8 ranks are where they were bound; rank 3: 3Gi of 14Gi on node 0, touched before it was bound."
    )
    assert summary(found[:1]) == "Its rank is where it was bound."
    assert summary(found[3:4]) is not None
    assert summary(()) is None


def test_a_helper_that_inherited_the_environment_does_not_count() -> None:
    large, small = process(), process(pid=101, memory={1: MIB})
    seen = snapshot(large, small)
    told = {pid: replace(one, rank=None) for pid, one in seen.told[ID].items()}
    found = ranks_of(ID, replace(seen, told={ID: told}))
    assert [one.counts for one in found] == [True, False]


def test_a_finding_names_ranks_and_causes_and_nothing_that_was_declared() -> None:
    late = process(pid=101, memory={0: 3 * GIB, 1: 11 * GIB})
    refused = process("default", pid=102, seccomp="filter", sys_nice=False)
    astray = process(pid=103, groups=(group("bind:1"), group("bind:1", "0-7", 2, "nccl")))
    seen = replace(snapshot(process(), late, refused, astray), containers=(Container(ID, "/job", "group"),))
    found = {one.name: one for one in find(seen) if one.container_id == ID}
    assert {name: one.message for name, one in found.items()} == {
        "declared-not-in-force": "1 of 4 ranks: rank 2: refused-by-seccomp",
        "first-touch-before-bind": "1 of 4 ranks: rank 1: touched-before, 3Gi on node 0",
        "thread-astray": "1 of 4 ranks: rank 3: threads-outside",
    }
    assert found["first-touch-before-bind"].numa_nodes == NodeSet.of(0)


def test_a_rank_whose_memory_could_not_be_read_is_no_helper() -> None:
    hidden = process(memory=None, pid=101, unread=(UnreadPart("mappings", "Permission denied"),))
    none = snapshot(process(), hidden)
    unnumbered = replace(none, told={ID: {pid: ProcessTold(pid, None, (BIND_1,)) for pid in (100, 101)}})
    found = {one.pid: one for one in ranks_of(ID, unnumbered)}
    assert (found[101].verdict, found[101].counts) == ("unknown", True)


def elsewhere(one: ProcessPlacement, *devices: HeldDevice, told: Declaration = BIND_1) -> tuple[HeldDevice, ...]:
    found = snapshot(one, told=(told,))
    held = replace(found.told[ID][one.pid], devices=devices)
    (judged,) = ranks_of(ID, replace(found, told={ID: {one.pid: held}}))
    return judged.devices_elsewhere


GPU_0, GPU_1 = HeldDevice("gpu", "0000:17:00.0", 0), HeldDevice("gpu", "0000:3b:00.0", 1)
NIC_0 = HeldDevice("infiniband", "0000:18:00.0", 0)


def test_a_device_on_another_node_than_the_ranks_is_noted_and_changes_no_verdict() -> None:
    assert elsewhere(process(), GPU_0, NIC_0) == (GPU_0, NIC_0)
    assert elsewhere(process(), GPU_1, NIC_0) == (NIC_0,)
    found = snapshot(process())
    (judged,) = ranks_of(ID, replace(found, told={ID: {100: replace(found.told[ID][100], devices=(GPU_0,))}}))
    assert cause(judged) == ("in-force", None)
    said = (
        "Its rank is where it was bound; rank 0: it has GPU 0000:17:00.0 (node 0) open, but is bound to another node."
    )
    assert summary((judged,)) == said


def test_devices_on_another_node_are_a_finding_that_names_them() -> None:
    seen = replace(snapshot(process()), containers=(Container(ID, "/job", "group"),))
    held = replace(seen.told[ID][100], devices=(GPU_0,))
    (found,) = (one for one in find(replace(seen, told={ID: {100: held}})) if one.container_id == ID)
    assert (found.name, found.severity, found.numa_nodes) == ("rank-device-elsewhere", "info", NodeSet.of(0))
    assert found.message == ("1 of 1 rank: rank 0: it has GPU 0000:17:00.0 (node 0) open, but is bound to another node")
    assert [
        one for one in find(replace(seen, told={ID: {100: replace(held, devices=(GPU_1,))}})) if one.container_id == ID
    ] == []


def test_no_device_is_noted_where_one_of_its_kind_may_be_on_the_node_of_the_rank() -> None:
    assert elsewhere(process(), GPU_0, GPU_1) == ()
    assert elsewhere(process(), GPU_0, replace(GPU_1, numa_node=None)) == ()
    assert elsewhere(process(), replace(GPU_0, numa_node=2)) == ()  # a node without CPUs
    assert elsewhere(process(), HeldDevice("storage", "0000:19:00.0", 0)) == ()


def test_no_device_is_noted_of_a_rank_that_spans_nodes_or_was_not_read() -> None:
    assert elsewhere(process(groups=(group("bind:1", "0-7"),)), GPU_0) == ()
    assert elsewhere(process("bind:0"), GPU_0) == ()  # it is elsewhere than declared, and the verdict says so
    assert elsewhere(process(groups=()), GPU_0) == ()
    memory_only = replace(BIND_1, memory_nodes=NodeSet.of(1, 2))
    assert elsewhere(process("bind:1-2"), GPU_0, told=memory_only) == (GPU_0,)


DOUBTED = replace(BIND_1, launcher="numactl", source="numactl", where="ancestor", doubt="it became another program")


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (process(), "in-force"),
        (process("default"), "unknown"),
        (process("interleave:0-1"), "unknown"),
        (process("bind:0"), "unknown"),
        (process(groups=(group("bind:1", "0-7"),)), "unknown"),
        (process(memory={0: 3 * GIB, 1: 11 * GIB}), "first-touch-before-bind"),
    ],
)
def test_a_declaration_in_doubt_is_in_force_or_unknown(one: ProcessPlacement, verdict: str) -> None:
    found = rank(one, DOUBTED)
    assert found.verdict == verdict, found.detail
    assert verdict != "unknown" or found.detail.endswith("; it became another program")


def job(*cpus: str) -> tuple[ProcessPlacement, ...]:
    """Children of one process, each bound to some CPUs."""
    return tuple(
        process(f"bind:{1 if where == '4-7' else 0}", pid=100 + number, groups=(group("bind:1", where),))
        for number, where in enumerate(cpus)
    )


def idle(*ranks: ProcessPlacement, told: Declaration | None = None, devices: tuple[HeldDevice, ...] = ()) -> set[str]:
    each = Declaration("open-mpi", "--bind-to", "ancestor", one_node=True) if told is None else told
    seen = snapshot(*ranks, told=(each,))
    held = {pid: replace(one, devices=devices) for pid, one in seen.told[ID].items()}
    found = ranks_of(ID, replace(seen, told={ID: held}))
    return {str(one.idle_nodes) for one in found if one.idle_nodes is not None}


def test_ranks_of_a_job_that_are_all_on_one_node_of_several_are_crowded() -> None:
    assert idle(*job("4-7", "4-7")) == {"0"}
    assert idle(*job("4-7")) == set()
    assert idle(*job("0-3", "4-7")) == idle(*job("4-7", "4-7", "3")) == idle(*job("4-7", "3-7")) == set()


def test_ranks_that_were_meant_for_one_node_are_not_crowded() -> None:
    around = replace(BIND_1, launcher="numactl", source="numactl", where="ancestor")
    assert idle(*job("4-7", "4-7"), told=around) == set()  # one numactl around all of them
    others = (job("4-7")[0], replace(job("4-7", "4-7")[1], parent=2))
    assert idle(*others) == set()  # each of another job
    assert idle(*job("4-7", "4-7"), devices=(GPU_1,)) == set()
    assert idle(*job("4-7", "4-7"), devices=(replace(GPU_0, numa_node=None),)) == set()
    assert idle(*job("4-7", "4-7"), devices=(GPU_0, GPU_1)) == {"0"}


def test_ranks_are_not_called_crowded_where_something_is_not_known() -> None:
    mpi = Declaration("open-mpi", "--bind-to", "ancestor", one_node=True)
    seen = snapshot(*job("4-7", "4-7"), told=(mpi,))
    for unsure in (
        replace(seen, allowed={}),
        replace(seen, allowed={ID: Allowed(NodeSet.of(1), CpuSet.parse("4-7"))}),
        replace(seen, processes={ID: replace(seen.processes[ID], alive=3, unread="run as root")}),
    ):
        assert [one.idle_nodes for one in ranks_of(ID, unsure)] == [None, None]


def test_crowded_ranks_are_a_finding_that_names_the_other_nodes() -> None:
    mpi = Declaration("open-mpi", "--bind-to", "ancestor", one_node=True)
    seen = replace(snapshot(*job("4-7", "4-7"), told=(mpi,)), containers=(Container(ID, "/job", "group"),))
    (found,) = (one for one in find(seen) if one.name == "ranks-crowded")
    assert (found.severity, found.numa_nodes) == ("info", NodeSet.of(0))
    assert found.message == (
        "2 of 2 ranks: all ranks of their job are on one node, and it may use node 0, where it has none"
    )


RAY = Declaration("ray", "ray::", "arguments")
ANYWHERE = (group("default", "0-7"),)
ACTOR = process("default", {0: GIB, 1: GIB}, ANYWHERE)


def test_an_actor_of_ray_that_may_run_on_all_nodes_without_a_policy_is_unbound() -> None:
    found = rank(ACTOR, RAY)
    assert (found.verdict, found.counts, found.problems) == ("unbound", False, ())
    assert found.detail == (
        "its main thread may run on all CPUs of its container, of nodes 0-1, and no memory policy binds it"
    )
    assert rank(process("local", groups=(group("local", "0-7"),)), RAY).verdict == "unbound"
    seen = replace(snapshot(ACTOR, told=(RAY,)), containers=(Container(ID, "/ray", "group"),))
    assert [one.name for one in find(seen) if one.container_id == ID] == []
    pinned = process("default", groups=(*ANYWHERE, group("default", "4-7", 1, "nccl")))
    assert rank(pinned, RAY).verdict == "unbound"  # a library binds its own threads


@pytest.mark.parametrize(
    "one",
    [
        process("default"),
        process("default", groups=(group("default", "0-6"),)),
        process("interleave:0-1", groups=(group("interleave:0-1", "0-7"),)),
        process("default", groups=ANYWHERE, mappings=(MappedMemory("anon", "bind:1", {1: MIB}),)),
        process("default", memory=None, groups=ANYWHERE),
        process("default", groups=()),
        process(None, groups=(group(None, "0-7"),)),
    ],
)
def test_an_actor_of_ray_that_something_placed_or_that_was_not_read_is_not_called_unbound(
    one: ProcessPlacement,
) -> None:
    assert ranks_of(ID, snapshot(one, told=(RAY,))) == ()


def test_an_actor_of_ray_is_not_called_unbound_where_its_container_has_one_node() -> None:
    seen = snapshot(ACTOR, told=(RAY,))
    assert ranks_of(ID, replace(seen, allowed={})) == ()
    for nodes, cpus in (("0-2", "0-3"), ("1-2", "0-7")):
        one_node = Allowed(NodeSet.parse(nodes), CpuSet.parse(cpus))
        assert ranks_of(ID, replace(seen, allowed={ID: one_node})) == ()


def test_the_policy_that_an_actor_of_ray_has_is_judged_as_any_other() -> None:
    found = rank(process(memory={0: GIB, 1: GIB}), RAY)
    assert found.declarations[0].launcher == "itself"
    assert (cause(found), found.counts) == (("first-touch-before-bind", "touched-before"), True)
    assert rank(process("default", groups=ANYWHERE), BIND_1).verdict == "declared-not-in-force"


def test_unbound_actors_of_ray_are_one_clause_and_make_no_rank_a_helper() -> None:
    actors = [
        replace(ACTOR, pid=200 + number, mappings=(MappedMemory("anon", "default", {0: 99 * GIB}),))
        for number in range(2)
    ]
    seen = snapshot(process(memory={1: MIB}), *actors)
    told = {pid: ProcessTold(pid, None, (BIND_1,) if pid == 100 else (RAY,)) for pid in (100, 200, 201)}
    found = ranks_of(ID, replace(seen, told={ID: told}))
    assert [one.counts for one in found] == [True, False, False]
    assert summary(found) == "Its rank is where it was bound; 2 processes are bound to no node."
    assert summary(found[1:2]) == "1 process is bound to no node."
