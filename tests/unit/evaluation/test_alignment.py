"""Verdicts: every one, their order, and what is said when evidence is missing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.evaluation.verdicts import REMEDIES, Verdict
from numaudit.intent.kubelet import KubeletConfig, SourceState
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Allowed, CollectorOutcome, Container, ContainerId, Kind, Qos, Resident, Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses, Sampled, SeenRemote
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
DB = ContainerId(7)
TWO_NODES = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))


def container(qos: Qos | None = "Guaranteed", kind: Kind = "container", pod_uid: str | None = "uid") -> Container:
    return Container(DB, "/kubepods/poduid/c", kind, qos=qos, pod_uid=pod_uid, name="db")


def intent(nodes: str | None = "0", policy: str = "Static") -> Intent:
    """What was promised: 100 MiB on these nodes; `""` = nothing, None = not known."""
    memory = None
    if nodes is not None:
        memory = (Block.of("memory", 100 * MIB, NodeSet.parse(nodes)),) if nodes else ()
    one = ContainerIntent("uid", "db", cgroups=(DB,), promise=Promise(memory=memory))
    return Intent(containers=(one,), config=KubeletConfig(memory_manager_policy=policy))


def of_run(cpus: str = "") -> Intent:
    """The same promise, given by `numaudit run`."""
    promise = Promise((Block.of("memory", 100 * MIB, NodeSet.of(0)),), CpuSet.parse(cpus))
    return Intent((ContainerIntent("job", "job", cgroups=(DB,), promise=promise),), promised_by="numaudit run")


def snapshot(
    promised: Intent | None = None,
    mems: str | None = "0",
    cpus: str | None = "0-3",
    anon: Mapping[int, int] | None = None,
    cpu_seconds: Mapping[int, float] | None = None,
    who: Container | None = None,
) -> Snapshot:
    bytes_by_node = {0: 100 * MIB, 1: 0} if anon is None else anon
    return Snapshot(
        taken_at=1000.0,
        machine=TWO_NODES,
        cgroup_mode="v2",
        containers=(who or container(),),
        allowed={
            DB: Allowed(None if mems is None else NodeSet.parse(mems), None if cpus is None else CpuSet.parse(cpus))
        },
        residency={DB: Resident(anon=bytes_by_node, shmem={}, file={0: 0, 1: 900 * MIB})},
        intent=intent() if promised is None else promised,
        cpu_time=None if cpu_seconds is None else {DB: cpu_seconds},
    )


def verdict(taken: Snapshot, earlier: Judgements | None = None) -> Verdict:
    return judge(taken, earlier=earlier).verdicts[DB]


def sampled(remote: int) -> Snapshot:
    """With so many MiB of 100 seen used from another node."""
    used = SeenRemote({(0, 1): remote << 20}, 0.0, 0, mapped=100 << 20)
    return replace(snapshot(), hint_faults={DB: Sampled({}, used)})


def said(found: Verdict) -> tuple[str, str]:
    return found.name, found.reason


def test_memory_on_the_promised_node_is_aligned_and_says_that_access_was_not_measured() -> None:
    """Page cache of another node is no misalignment: libraries stay where they were first read (kubernetes#138523)."""
    assert said(verdict(snapshot())) == ("aligned", "access not measured")


def test_every_verdict_but_aligned_says_what_to_do() -> None:
    assert verdict(snapshot()).remedy is None
    assert "Write the promised nodes back" in (verdict(snapshot(mems="1")).remedy or "")
    assert all(remedy is not None for name, remedy in REMEDIES.items() if name != "aligned")


def test_a_remedy_that_can_be_pasted_has_the_path_and_the_promised_nodes() -> None:
    """The tests in guests run such commands."""
    assert verdict(snapshot(mems="1")).commands == ("echo 0 > /sys/fs/cgroup/kubepods/poduid/c/cpuset.mems",)
    spilled = snapshot(anon={0: 60 * MIB, 1: 40 * MIB})
    assert verdict(spilled, earlier=judge(spilled)).commands == (
        "find /sys/fs/cgroup/kubepods/poduid/c -name cgroup.procs -exec cat {} + | xargs -I PID migratepages PID all 0",
    )
    cpus = of_run(cpus="0")
    assert verdict(snapshot(cpus, cpus="4")).commands == ("echo 0 > /sys/fs/cgroup/kubepods/poduid/c/cpuset.cpus",)


def test_where_no_command_would_do_there_is_none() -> None:
    drifted = snapshot(mems="1")
    assert verdict(replace(drifted, cgroup_mode="v1")).commands == (), "its files lie elsewhere"
    above = Allowed(NodeSet.of(1), CpuSet.of(0), narrowed_at="/kubepods")
    assert verdict(replace(drifted, allowed={DB: above})).commands == (), "others below that cgroup need more nodes"
    assert verdict(replace(drifted, containers=(replace(container(), path="/kubepods/a\\nb"),))).commands == ()
    assert in_files(32).commands == (), "migratepages does not move them"
    quoted = verdict(replace(drifted, containers=(replace(container(), path="/a b;reboot"),)))
    assert quoted.commands == ("echo 0 > '/sys/fs/cgroup/a b;reboot'/cpuset.mems",)


def in_files(unmapped: int, anon: int = 0, who: Container | None = None, intent: Intent | None = None) -> Verdict:
    """Of a container with some MiB of files that no process maps outside, 3 MiB of mapped files, and other memory."""
    taken = snapshot(intent, who=who)
    outside = Resident(
        anon={0: 100 * MIB, 1: anon * MIB}, shmem={1: (unmapped + 3) * MIB}, file={}, mapped={1: 3 * MIB}
    )
    taken = replace(taken, residency={DB: outside})
    return verdict(taken, earlier=judge(taken))


def test_files_that_no_process_maps_are_told_from_memory_that_can_be_moved() -> None:
    found = in_files(32, anon=10)
    assert found.reason == (
        "45Mi of its judged bytes are outside the promised node 0, 32Mi of them in files in memory that no process maps"
    )
    assert "`migratepages PID all NODES`" in (found.remedy or "")
    assert "cp FILE NEW && mv NEW FILE" in (found.remedy or "")
    assert "the pod is deleted" in (found.remedy or "")


def test_migratepages_is_no_remedy_for_files_that_no_process_maps() -> None:
    taken = replace(snapshot(), residency={DB: Resident(anon={0: 1}, shmem={1: 32 * MIB}, mapped={0: MIB, 1: 0})})
    found = verdict(taken, earlier=judge(taken))
    assert "PID" not in (found.remedy or "")
    assert "neither `migratepages` nor a change of cpuset.mems moves them" in (found.remedy or "")


def test_files_that_processes_map_or_may_map_are_memory_like_any_other() -> None:
    mapped = Resident(anon={0: 1}, shmem={1: 32 * MIB}, mapped={1: 40 * MIB})
    for one in (mapped, msgspec.structs.replace(mapped, mapped=None)):
        taken = replace(snapshot(), residency={DB: one})
        assert verdict(taken, earlier=judge(taken)).remedy == REMEDIES["spilled"]


COMMAND = Container(DB, "/numaudit/run-1-2", "group", name=None)


@pytest.mark.parametrize(
    "taken",
    [
        snapshot(of_run(), mems="1", who=COMMAND),
        snapshot(of_run(), anon={0: 0, 1: 100 * MIB}, who=COMMAND),
        snapshot(of_run(), cpus="4-7", cpu_seconds={1: 9.0}, who=COMMAND),
        snapshot(of_run(cpus="0"), cpus="4-7", cpu_seconds={1: 9.0}, who=COMMAND),
        snapshot(of_run(cpus="4"), cpus="4", cpu_seconds={1: 9.0}, who=COMMAND),
        snapshot(Intent(), who=COMMAND),
        snapshot(Intent(), who=replace(COMMAND, kind="service")),
    ],
)
def test_no_remedy_speaks_of_a_pod_to_delete_where_there_is_none(taken: Snapshot) -> None:
    found = verdict(taken, earlier=judge(taken))
    assert found.remedy
    assert not {"delete", "container"} & set(found.remedy.replace(",", "").split()), found.remedy


IN_FORCE = KubeletConfig(memory_manager_policy="Static", topology_manager_policy="single-numa-node")


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
@pytest.mark.parametrize("promised", ["", "4"])
def test_no_remedy_names_a_policy_that_is_in_force(policy: str, promised: str) -> None:
    asked = replace(pinned(promised), config=replace(IN_FORCE, topology_manager_policy=policy))
    found = verdict(snapshot(asked, cpus="4", cpu_seconds={1: 9.0}))
    assert found.name == "cpu-remote"
    assert found.remedy
    assert "restricted" not in found.remedy
    assert "single-numa-node" not in found.remedy
    assert ("whole CPUs" in found.remedy) == (not promised)
    best_effort = replace(asked, config=replace(IN_FORCE, topology_manager_policy="best-effort"))
    assert "restricted" in (verdict(snapshot(best_effort, cpus="4", cpu_seconds={1: 9.0})).remedy or "")


def test_the_policy_static_is_no_remedy_where_it_is_in_force() -> None:
    burstable = container("Burstable")
    assert (
        verdict(snapshot(intent(None), who=burstable)).remedy
        == "Nothing is wrong. To get a promise, make the pod Guaranteed."
    )
    assert "policy Static" in (verdict(snapshot(intent(None, "None"), who=burstable)).remedy or "")


def test_the_lower_bound_of_remote_access_decides() -> None:
    assert verdict(sampled(10)).name == "aligned"
    assert verdict(sampled(11)).name == "remote-access"


def counted(local: int, remote: int) -> Snapshot:
    """With these counted accesses since the probe was loaded."""
    basis = CountBasis("offcore_reads", "lines", includes_prefetch=True)
    found = CountedAccesses(basis, {(0, "local"): local, (0, "remote"): remote}, 1, 1)
    return replace(snapshot(), pmu={DB: found})


@pytest.mark.parametrize(
    ("taken", "said_of_it"),
    [
        (counted(98_000, 2_000), ("aligned", "2% of the accesses were to memory of another node (pmu)")),
        (counted(88_000, 12_000), ("remote-access", "12% of the accesses were to memory of another node (pmu)")),
        (counted(0, 100_000), ("remote-access", "100% of the accesses were to memory of another node (pmu)")),
        (counted(5_000, 4_999), ("aligned", "access not measured")),
    ],
)
def test_counted_accesses_decide_without_an_interval(taken: Snapshot, said_of_it: tuple[str, str]) -> None:
    assert said(verdict(taken)) == said_of_it


@pytest.mark.parametrize(
    ("taken", "reason"),
    [
        (snapshot(Intent(), who=container(qos=None, kind="service", pod_uid=None)), "not a Kubernetes container"),
        (snapshot(who=container(qos="Burstable")), "the pod is Burstable"),
        (snapshot(who=container(qos="BestEffort")), "the pod is BestEffort"),
        (snapshot(intent(policy="None")), "the kubelet's Memory Manager policy is None"),
        (snapshot(intent("")), "the Memory Manager promised it nothing"),
    ],
)
def test_without_a_promise_nothing_is_managed(taken: Snapshot, reason: str) -> None:
    assert said(verdict(taken)) == ("unmanaged", reason)


def test_a_cgroup_that_was_promised_nodes_is_judged_like_a_container() -> None:
    command = container(qos=None, kind="group", pod_uid=None)
    assert verdict(snapshot(who=command)).name == "aligned"
    assert verdict(snapshot(mems="1", who=command)).name == "drifted"


def test_other_allowed_nodes_than_promised_are_a_drift() -> None:
    assert verdict(snapshot(mems="0-1")).name == "drifted"
    assert verdict(snapshot(mems="1")).reason == "it may use node 1, but was promised node 0"
    assert verdict(snapshot(mems="")).reason == "it may use no node, but was promised node 0"


def test_a_drift_needs_no_knowledge_of_where_bytes_are() -> None:
    assert verdict(replace(snapshot(mems="1"), residency={})).name == "drifted"


def test_cpu_time_on_other_nodes_is_remote_above_five_percent() -> None:
    assert verdict(snapshot(cpus="0-7", cpu_seconds={0: 94.0, 1: 6.0})).name == "cpu-remote"
    assert verdict(snapshot(cpus="0-7", cpu_seconds={0: 95.0, 1: 5.0})).name == "aligned"


def test_an_idle_container_is_judged_by_its_allowed_cpus() -> None:
    idle = verdict(snapshot(cpus="0-7", cpu_seconds={}))
    assert said(idle) == ("cpu-remote", "50% of the allowed CPUs are on nodes other than 0 (idle)")
    assert verdict(snapshot(cpus="0-3", cpu_seconds={})).name == "aligned"


def pinned(cpus: str | None, others: Mapping[str, str] | None = None, shared: str | None = None) -> Intent:
    """Memory of node 0 and these CPUs promised to prod/db/db; others hold CPUs too."""
    memory = (Block.of("memory", 100 * MIB, NodeSet.of(0)),)
    promise = Promise(memory, None if cpus is None else CpuSet.parse(cpus))
    own = ContainerIntent("uid", "db", "prod", "db", cgroups=(DB,), promise=promise)
    rest = [
        ContainerIntent(f"uid-{pod}", "app", "prod", pod, promise=Promise((), CpuSet.parse(held)))
        for pod, held in (others or {}).items()
    ]
    return Intent(containers=(own, *rest), shared_cpus=None if shared is None else CpuSet.parse(shared))


def test_cpus_other_than_promised_are_named_with_whose_they_are() -> None:
    found = verdict(snapshot(pinned("2", {"two": "6", "far": "3"}, shared="0-1,4-5"), cpus="5-6"))
    assert found.name == "cpu-remote"
    assert found.reason.endswith(
        ": it may use CPUs 5-6, but was promised CPU 2; CPU 6 belongs to prod/two/app; CPU 5 is shared"
    )
    assert "Write the promised CPUs back" in (found.remedy or "")


def test_many_owners_of_its_cpus_are_counted() -> None:
    found = verdict(snapshot(pinned("2", {f"p{cpu}": str(cpu) for cpu in range(3, 8)}), cpus="3-7"))
    assert found.reason.endswith("CPU 5 belongs to prod/p5/app; 2 more")


def test_a_container_on_the_shared_cpus_is_told_to_ask_for_its_own() -> None:
    found = verdict(snapshot(pinned("", shared="0-7"), cpus="0-7", cpu_seconds={0: 1.0, 1: 1.0}))
    assert (
        found.reason == "50% of the CPU time was on nodes other than 0: it has no CPUs of its own and shares CPUs 0-7"
    )
    assert found.remedy == REMEDIES["cpu-remote"]


def test_cpus_that_were_promised_on_another_node_are_a_matter_of_the_topology_manager() -> None:
    found = verdict(snapshot(pinned("6"), cpus="6", cpu_seconds={1: 1.0}))
    assert found.reason.endswith(": its promised CPU 6 is there")
    assert "restricted" in (found.remedy or "")


def test_where_its_promised_cpus_are_not_known_no_cause_is_named() -> None:
    assert verdict(snapshot(pinned(None), cpus="4-7", cpu_seconds={1: 1.0})).reason == (
        "100% of the CPU time was on nodes other than 0"
    )


def test_a_missing_entry_is_named_only_where_there_is_a_checkpoint() -> None:
    unread = (CollectorOutcome("intent", "unavailable", "no kubelet: there is none"),)
    assert verdict(replace(snapshot(), intent=None, outcomes=unread)).reason == (
        "its promise is unknown: no kubelet: there is none"
    )
    missing = replace(intent(None), sources=(SourceState("memory checkpoint", "missing", "permission denied"),))
    assert verdict(snapshot(missing)).reason == (
        "its promise is unknown: no memory checkpoint can be read: permission denied"
    )
    read = replace(intent(None), sources=(SourceState("memory checkpoint", "ok"),))
    assert "no checkpoint entry matches" in verdict(snapshot(read)).reason


def test_without_measured_cpu_time_the_allowed_cpus_decide_and_the_verdict_says_so() -> None:
    assert "CPU time was not measured lately" in verdict(snapshot(cpus="4-7")).reason


def test_only_cpu_time_since_the_previous_tick_counts() -> None:
    before = snapshot(cpus="0-7", cpu_seconds={0: 0.0, 1: 100.0})
    now = snapshot(cpus="0-7", cpu_seconds={0: 50.0, 1: 100.0})
    assert judge(now, before=before).verdicts[DB].name == "aligned"


def test_bytes_outside_are_a_spill_when_two_ticks_in_a_row_see_them() -> None:
    taken = snapshot(anon={0: 90 * MIB, 1: 10 * MIB})
    first = judge(taken)
    assert first.verdicts[DB].name == "unknown"
    assert "second tick" in first.verdicts[DB].reason
    assert verdict(taken, first).name == "spilled"


def test_a_spill_that_was_gone_in_between_counts_from_zero() -> None:
    spilling = snapshot(anon={0: 90 * MIB, 1: 10 * MIB})
    healed = judge(snapshot(), earlier=judge(spilling))
    assert verdict(spilling, healed).name == "unknown"


@pytest.mark.parametrize("outside", [MIB, 10 * MIB])
def test_a_spill_is_more_than_a_mebibyte_and_more_than_one_percent(outside: int) -> None:
    inside = 99 * outside if outside > MIB else MIB
    taken = snapshot(anon={0: inside, 1: outside})
    assert verdict(taken, judge(taken)).name == "aligned"


def test_a_spill_outweighs_remote_cpus_since_the_memory_is_not_where_intended() -> None:
    taken = snapshot(cpus="4-7", anon={0: 50 * MIB, 1: 50 * MIB})
    assert verdict(taken, judge(taken)).name == "spilled"


def test_a_promise_over_two_nodes_is_split() -> None:
    taken = snapshot(intent("0-1"), mems="0-1", cpus="0-7", anon={0: 50 * MIB, 1: 50 * MIB})
    assert verdict(taken).name == "split"


@pytest.mark.parametrize(
    ("taken", "missing"),
    [
        (snapshot(intent(None)), "its promise is unknown"),
        (replace(snapshot(), intent=None), "its promise is unknown"),
        (snapshot(Intent(containers=())), "its promise is unknown"),
        (snapshot(mems=None), "allowed nodes are unknown"),
        (replace(snapshot(), residency={}), "its resident memory is unknown"),
        (snapshot(cpus=None), "allowed CPUs are unknown"),
    ],
)
def test_missing_evidence_makes_the_verdict_unknown_and_is_named(taken: Snapshot, missing: str) -> None:
    found = verdict(taken)
    assert found.name == "unknown"
    assert missing in found.reason


def test_pause_sandboxes_and_remainders_of_pods_are_not_judged() -> None:
    assert judge(snapshot(who=container(kind="sandbox"))).verdicts == {}
    assert judge(snapshot(who=container(kind="pod"))).verdicts == {}
    assert judge(snapshot(who=replace(container(kind="slice"), whole=False))).verdicts == {}


def test_a_runtimes_monitor_in_a_pods_cgroup_is_not_judged() -> None:
    assert judge(snapshot(who=container(kind="scope"))).verdicts == {}
    assert judge(snapshot(who=container(kind="group"))).verdicts == {}


def with_huge_pages(hugetlb: Mapping[int, int] | None) -> Snapshot:
    blocks = tuple(Block.of(type_, 10 * MIB, NodeSet.of(0)) for type_ in ("memory", "hugepages-2Mi"))
    one = ContainerIntent("uid", "db", cgroups=(DB,), promise=Promise(memory=blocks))
    taken = snapshot(Intent(containers=(one,)))
    return replace(taken, residency={DB: msgspec.structs.replace(taken.residency[DB], hugetlb=hugetlb)})


def test_huge_pages_on_another_node_are_a_spill_though_the_rest_is_in_place() -> None:
    spilling = with_huge_pages({0: 2 * MIB, 1: 8 * MIB})
    assert verdict(spilling, judge(spilling)).name == "spilled"
    assert verdict(with_huge_pages({0: 10 * MIB, 1: 0})).name == "aligned"


def test_promised_huge_pages_that_are_not_shown_leave_the_verdict_unknown() -> None:
    found = verdict(with_huge_pages(None))
    assert found.name == "unknown"
    assert "huge pages" in found.reason


def test_a_verdict_keeps_the_time_of_the_tick_that_saw_it_first() -> None:
    aligned = judge(snapshot())
    drifted = judge(replace(snapshot(mems="1"), taken_at=2000.0), earlier=aligned)
    later = judge(replace(snapshot(mems="1"), taken_at=3000.0), earlier=drifted)
    healed = judge(replace(snapshot(), taken_at=4000.0), earlier=later)
    assert aligned.verdicts[DB].since is None
    assert drifted.verdicts[DB].since == later.verdicts[DB].since == 2000.0
    assert healed.verdicts[DB].since == 4000.0
