"""Findings beside the verdicts: stale entries, CPUs and devices apart from memory, memory that may run out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from numaudit.checkpoints.start.findings import StateFinding
from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.findings import RULES, Finding, find
from numaudit.intent.kubelet import CheckpointHealth, KubeletConfig, KubeletSeries, StartOutlook
from numaudit.intent.node import ContainerIntent, Intent, Promise, PromisedDevices
from numaudit.intent.pods import PodFacts
from numaudit.kubelet.parsers.config import parse_file, settle
from numaudit.snapshot import ContainerId, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

GIB = 1 << 30
AFFINITY = KubeletSeries("kubelet_admission_rejections_total", (("reason", "TopologyAffinityError"),))
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))


def container(
    name: str, cgroup: int, nodes: str, size: int, cpus: str = "", devices: tuple[PromisedDevices, ...] = ()
) -> ContainerIntent:
    memory = (Block.of("memory", size, NodeSet.parse(nodes)),)
    return ContainerIntent("uid", name, cgroups=(cgroup,), promise=Promise(memory, CpuSet.parse(cpus), devices))


def tick(
    *containers: ContainerIntent,
    resident: Mapping[int, Mapping[int, int]] | None = None,
    free: Mapping[int, int] | None = None,
    checkpoints: tuple[CheckpointHealth, ...] = (),
) -> Snapshot:
    frees = {0: 100 * GIB, 1: 100 * GIB} if free is None else free
    return Snapshot(
        taken_at=0.0,
        machine=MACHINE,
        cgroup_mode="v2",
        residency={ContainerId(key): Resident(anon=anon) for key, anon in (resident or {}).items()},
        nodes=tuple(NodeMemory(node, 8 * GIB, size, Resident(), reclaimable=0) for node, size in frees.items()),
        intent=Intent(containers=containers, checkpoints=checkpoints),
    )


def names(found: tuple[Finding, ...]) -> list[str]:
    return [one.name for one in found]


def test_a_healthy_node_has_no_findings() -> None:
    assert find(tick(container("db", 7, "0", GIB, cpus="0-1"), resident={7: {0: GIB}})) == ()


def test_without_a_kubelet_there_is_nothing_to_find() -> None:
    assert find(Snapshot(taken_at=0.0, machine=MACHINE, cgroup_mode="v2")) == ()


def test_an_entry_whose_pod_is_gone_is_stale_and_tells_how_much_it_holds() -> None:
    memory = (Block.of("memory", GIB, NodeSet.of(1)),)
    (found,) = find(tick(ContainerIntent("gone", "db", promise=Promise(memory), is_stale=True)))
    assert (found.name, found.pod_uid, found.container) == ("stale", "gone", "db")
    assert "still promises it 1Gi on node 1" in found.message


def test_a_finding_names_its_pod() -> None:
    memory = (Block.of("memory", GIB, NodeSet.of(1)),)
    (found,) = find(tick(ContainerIntent("gone", "db", "prod", "mysql-0", promise=Promise(memory), is_stale=True)))
    assert (found.namespace, found.pod, found.container) == ("prod", "mysql-0", "db")


def test_a_finding_about_a_checkpoint_names_the_pods_in_it() -> None:
    cause = StateFinding.of("assignment-to-missing-node", "container db of pod uid-7 holds memory of node 9")
    broken = CheckpointHealth("memory_manager_state", outlook=StartOutlook(False, "no", "no", (cause,)))
    (found,) = find(tick(ContainerIntent("uid-7", "db", "prod", "mysql-0"), checkpoints=(broken,)))
    assert "container db of pod prod/mysql-0 holds memory of node 9" in found.message


def test_an_ended_init_container_that_still_holds_memory_is_stale() -> None:
    memory = (Block.of("memory", GIB, NodeSet.of(1)),)
    (found,) = find(tick(ContainerIntent("uid", "init", promise=Promise(memory), has_ended=True)))
    assert "the container has ended" in found.message


def test_an_ended_init_container_whose_memory_was_handed_on_is_not() -> None:
    memory = (Block.of("memory", 0, NodeSet.of(1)),)
    assert find(tick(ContainerIntent("uid", "init", promise=Promise(memory), has_ended=True))) == ()


def test_exclusive_cpus_on_another_node_than_the_memory_disagree() -> None:
    (found,) = find(tick(container("db", 7, "0", GIB, cpus="3-4")))
    assert found.name == "cpu-memory-disagree"
    assert found.numa_nodes == NodeSet.of(1)


def test_cpus_of_the_shared_pool_do_not_disagree() -> None:
    assert find(tick(container("db", 7, "0", GIB, cpus=""))) == ()


def test_a_device_on_another_node_is_remote_and_one_without_a_node_is_not() -> None:
    far = PromisedDevices("vendor.example/nic", ("eth7",), NodeSet.of(1))
    nowhere = PromisedDevices("vendor.example/fuse", ("f1",), None)
    (found,) = find(tick(container("db", 7, "0", GIB, devices=(far, nowhere))))
    assert found.name == "device-remote"
    assert "eth7" in found.message


@pytest.mark.parametrize(
    ("cpus", "devices"), [("4", ()), ("", (PromisedDevices("vendor.example/nic", ("eth7",), NodeSet.of(1)),))]
)
def test_no_finding_names_a_policy_that_is_in_force(cpus: str, devices: tuple[PromisedDevices, ...]) -> None:
    taken = tick(container("db", 7, "0", GIB, cpus=cpus, devices=devices))
    assert taken.intent is not None
    (usual,) = find(taken)
    strict = replace(taken.intent, config=KubeletConfig(topology_manager_policy="restricted"))
    (found,) = find(replace(taken, intent=strict))
    assert (found.name, "restricted" in usual.remedy) == (usual.name, True)
    assert "restricted" not in found.remedy
    assert found.remedy.endswith("Delete the pod so that it is created again.")


def test_memory_promised_to_one_node_but_eaten_by_a_container_of_two_nodes_is_an_oom_risk() -> None:
    """Single and cross-node allocations on one node: container1 was promised 5 GiB of node 0 and uses 3;
    container2, promised 10 GiB of both nodes, uses 3.5 of it, and container1's other 2 are not there."""
    found = find(
        tick(
            container("container1", 7, "0", 5 * GIB),
            container("container2", 8, "0-1", 10 * GIB),
            resident={7: {0: 3 * GIB}, 8: {0: 7 * GIB // 2, 1: 0}},
            free={0: GIB // 2, 1: 16 * GIB},
        )
    )
    (risk,) = found
    assert (risk.name, risk.container, risk.numa_nodes) == ("oom-risk", "container1", NodeSet.of(0))
    assert risk.severity == "critical"


def test_all_promises_within_a_set_of_nodes_draw_on_the_same_pages() -> None:
    found = find(
        tick(
            container("one", 7, "0", GIB),
            container("both", 8, "0-1", GIB),
            resident={7: {}, 8: {}},
            free={0: GIB, 1: GIB // 2},
        )
    )
    assert [(one.name, one.container) for one in found] == [("oom-risk", "both")]


def test_page_cache_that_can_be_dropped_counts_as_free() -> None:
    taken = tick(container("one", 7, "0", GIB), resident={7: {}}, free={0: 0})
    roomy = NodeMemory(0, 8 * GIB, 0, Resident(), reclaimable=GIB)
    assert names(find(taken)) == ["oom-risk"]
    assert find(Snapshot(0.0, MACHINE, "v2", residency=taken.residency, nodes=(roomy,), intent=taken.intent)) == ()


def test_memory_whose_whereabouts_are_not_known_is_no_oom_risk() -> None:
    unread = container("db", 7, "0", GIB)
    for one in (unread, replace(unread, cgroups=()), replace(unread, cgroups=(7, 8))):
        assert find(tick(one, resident={8: {}}, free={0: 0})) == ()


@pytest.mark.parametrize(("is_stale", "has_ended"), [(True, False), (False, True)])
def test_of_what_is_gone_nothing_but_that_is_found(is_stale: bool, has_ended: bool) -> None:
    one = replace(container("db", 7, "0", GIB, cpus="4-7"), is_stale=is_stale, has_ended=has_ended)
    assert names(find(tick(one, resident={7: {}}, free={0: 0, 1: 0}))) == ["stale"]


@pytest.mark.parametrize(
    ("counted", "logged", "missed"),
    [
        ({}, {}, 0),
        ({AFFINITY: 1.0}, {}, 1),
        (
            {
                AFFINITY._replace(name="kubelet_other_total"): 1.0,
                AFFINITY._replace(labels=(("reason", "Evicted"),)): 1.0,
            },
            {},
            0,
        ),
        ({AFFINITY: 2.0}, {"TopologyAffinityError": 2}, 0),
        ({AFFINITY: 1.0}, None, 0),
    ],
)
def test_refusals_that_the_kubelet_counted_and_its_log_lacks_are_found(
    counted: dict[KubeletSeries, float], logged: dict[str, int] | None, missed: int
) -> None:
    taken = tick()
    assert taken.intent is not None
    found = find(replace(taken, intent=replace(taken.intent, counters=counted, denials=logged)))
    assert names(found) == ["refusals-missed"] * missed


def test_a_resize_that_the_kubelet_has_not_made_is_found_while_the_pod_runs() -> None:
    taken = tick()
    assert taken.intent is not None
    running = PodFacts("u", "work", "db", phase="Running", resize="pending: Infeasible")
    for pod, found in ((running, ["resize-pending"]), (replace(running, phase="Failed"), [])):
        assert names(find(replace(taken, intent=replace(taken.intent, pods={"u": pod})))) == found


def test_a_misspelt_field_of_the_kubelets_configuration_is_found() -> None:
    taken = tick()
    assert taken.intent is not None
    config = settle(parse_file(b"memoryMangerPolicy: Static\nofALaterKubelet: 1\n", "k"), {}, "file")
    (found,) = find(replace(taken, intent=replace(taken.intent, config=config)))
    assert found.name == "setting-ignored"
    assert "knows of has: memoryMangerPolicy; did you mean memoryManagerPolicy" in found.message


@pytest.mark.parametrize(("places", "more"), [(1, ""), (3, ""), (4, "; and 1 more")])
def test_places_of_one_cause_are_one_finding_that_names_three_of_them(places: int, more: str) -> None:
    causes = tuple(StateFinding.of("memory-total-drift", f"node {number}") for number in range(places))
    warning = StateFinding.of("unknown-key", "x is not a key of this format")
    torn = CheckpointHealth("memory_manager_state", outlook=StartOutlook(False, "no", "no", (*causes, warning)))
    (found,) = find(tick(checkpoints=(torn,)))
    logged = "; ".join(f"node {number}" for number in range(min(places, 3)))
    assert found.message == f"memory_manager_state: memory-total-drift: {logged}{more}"
    assert found.remedy == causes[0].remedy


def test_a_damaged_checkpoint_is_found_and_an_absent_one_is_not() -> None:
    torn = CheckpointHealth("memory_manager_state", problem="checksum", detail="the file says 1")
    absent = CheckpointHealth("cpu_manager_state", problem="absent")
    (found,) = find(tick(checkpoints=(torn, absent)))
    assert (found.name, found.message) == ("checkpoint-damaged", "memory_manager_state: the file says 1")


def test_every_finding_says_what_to_do() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.remedy.endswith((".", ".)")) for rule in RULES)
