"""Hint outcomes: from the kubelet's log, from a refused pod's status, or derived from the promise."""

from __future__ import annotations

import pytest

from numaudit.containermanager.memory.state import Block, MachineState, MemoryTable, NUMANodeState
from numaudit.containermanager.pod.spec import Container, Pod, Resources
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.evaluation.hint_outcomes import HintOutcome, outcome_of_reason, outcomes
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.intent.pods import HintRecord, PodFacts, Rejection
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.report.words import requested
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import Quantity

GIB = 1 << 30


def machine(nodes: int = 2, size: int = 10 * GIB) -> MachineState:
    table = MemoryTable(size, 0, size, 0, size)
    return {node: NUMANodeState(0, {"memory": table}, (node,)) for node in range(nodes)}


def promised(nodes: str, size: int = GIB, hints: HintRecord | None = None) -> ContainerIntent:
    memory = (Block.of("memory", size, NodeSet.parse(nodes)),) if nodes else ()
    return ContainerIntent("uid", "db", "shop", "db-0", promise=Promise(memory=memory), hints=hints)


def record(affinity: str | None, preferred: bool = True) -> HintRecord:
    best = TopologyHint(None if affinity is None else NodeSet.parse(affinity), preferred)
    return HintRecord("shop", "db-0", "db", best=best)


def only(intent: Intent) -> HintOutcome:
    (one,) = outcomes(intent)
    return one


@pytest.mark.parametrize(
    ("hint", "stored", "outcome"),
    [
        (record("0"), "0", AdmissionOutcome.ALIGNED_SINGLE),
        (record("0-1"), "0-1", AdmissionOutcome.ALIGNED_MULTI),
        (record("0", preferred=False), "0", AdmissionOutcome.DEGRADED),
        (record(None), "0", AdmissionOutcome.DEFAULT_HINT),
        (record("0"), "0-1", AdmissionOutcome.EXTENDED),
        (record("0", preferred=False), "0-1", AdmissionOutcome.EXTENDED),
    ],
)
def test_the_kubelets_log_tells_the_outcome(hint: HintRecord, stored: str, outcome: AdmissionOutcome) -> None:
    found = only(Intent(containers=(promised(stored, hints=hint),)))
    assert (found.outcome, found.source) == (outcome, "log")


def test_a_container_that_the_memory_manager_holds_nothing_for_is_not_managed() -> None:
    assert only(Intent(containers=(promised(""),))).outcome is AdmissionOutcome.NOT_MANAGED


@pytest.mark.parametrize(
    ("policy", "stored", "size", "outcome"),
    [
        ("single-numa-node", "1", GIB, AdmissionOutcome.ALIGNED_SINGLE),
        ("restricted", "0-1", 15 * GIB, AdmissionOutcome.ALIGNED_MULTI),
        ("best-effort", "0-1", 15 * GIB, AdmissionOutcome.ALIGNED_MULTI),
        ("best-effort", "0-1", GIB, AdmissionOutcome.DEGRADED),
        ("best-effort", "0", GIB, AdmissionOutcome.ALIGNED_SINGLE),
        ("none", "0", GIB, AdmissionOutcome.DEFAULT_HINT),
    ],
)
def test_without_a_log_the_outcome_is_derived_and_says_so(
    policy: str, stored: str, size: int, outcome: AdmissionOutcome
) -> None:
    config = KubeletConfig(topology_manager_policy=policy)
    found = only(Intent(containers=(promised(stored, size),), machine=machine(), config=config))
    assert (found.outcome, found.source) == (outcome, "re-derived")


def test_a_log_record_of_other_nodes_is_of_an_earlier_admission() -> None:
    old = HintRecord("shop", "db-0", "db", best=TopologyHint(NodeSet.of(1), True), memory_nodes=NodeSet.of(1))
    assert only(Intent(containers=(promised("0", hints=old),))).source == "re-derived"


def test_a_record_of_a_whole_pod_is_of_each_container_whose_nodes_are_among_its() -> None:
    whole = HintRecord("shop", "db-0", None, best=TopologyHint(NodeSet.of(0), True), memory_nodes=NodeSet.of(0, 1))
    assert only(Intent(containers=(promised("0", hints=whole),))).source == "log"
    assert only(Intent(containers=(promised("2", hints=whole),))).source == "re-derived"


def test_what_was_promised_but_is_not_known_has_no_outcome() -> None:
    assert outcomes(Intent(containers=(ContainerIntent("uid", "db"),))) == ()


def test_stale_entries_have_no_outcome() -> None:
    stale = ContainerIntent("uid", "db", promise=promised("0").promise, is_stale=True)
    assert outcomes(Intent(containers=(stale,))) == ()


@pytest.mark.parametrize(
    ("reason", "message", "outcome"),
    [
        (
            "TopologyAffinityError",
            "Resources cannot be allocated with Topology locality",
            AdmissionOutcome.REJECTED_AFFINITY,
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to [memorymanager] failed to find NUMA nodes to extend the current topology hint, "
            "which is unexpected",
            AdmissionOutcome.REJECTED_CAPACITY,
        ),
        (
            "UnexpectedAdmissionError",
            "Pod was rejected: Allocate failed due to [memorymanager] failed to get the default NUMA affinity, "
            "no NUMA nodes with enough memory is available, which is unexpected",
            AdmissionOutcome.REJECTED_CAPACITY,
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to [memorymanager] preferred hint violates NUMA node allocation, which is unexpected",
            AdmissionOutcome.REJECTED_GROUP_RULE,
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to [memorymanager] failed to find the extended preferred hint, which is unexpected",
            AdmissionOutcome.REJECTED_PREFERRED_EXTENSION,
        ),
        ("UnexpectedAdmissionError", "Allocate failed due to no healthy devices", AdmissionOutcome.REJECTED_OTHER),
        ("OutOfcpu", "Node didn't have enough resource: cpu", AdmissionOutcome.REJECTED_OTHER),
    ],
)
def test_both_of_the_kubelets_reasons_are_told_apart_by_their_cause(
    reason: str, message: str, outcome: AdmissionOutcome
) -> None:
    assert outcome_of_reason(reason, message) is outcome


def test_a_refused_pod_has_one_outcome_and_its_containers_have_none() -> None:
    refused = Rejection("uid", "shop", "db-0", "TopologyAffinityError", "Resources cannot be allocated")
    found = only(Intent(containers=(promised("0"),), rejections=(refused,)))
    assert (found.container, found.outcome, found.source) == (None, AdmissionOutcome.REJECTED_AFFINITY, "status")


def refused_pod(scope: str, *amounts: str) -> HintOutcome:
    """A pod whose containers ask for so much memory each, refused."""
    each = [
        Resources({"memory": Quantity.parse(one), "cpu": Quantity.parse("1")}, {"memory": Quantity.parse(one)})
        for one in amounts
    ]
    containers = tuple(Container(f"c{number}", one) for number, one in enumerate(each))
    pod = PodFacts("uid", "shop", "db-0", spec=Pod("db-0", "shop", "uid", containers))
    refused = Rejection("uid", "shop", "db-0", "TopologyAffinityError", "Resources cannot be allocated")
    return only(Intent(pods={"uid": pod}, rejections=(refused,), config=KubeletConfig(topology_manager_scope=scope)))


@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_refused_pod_has_what_its_containers_asked_for_together(scope: str) -> None:
    found = refused_pod(scope, "1Gi", "3Gi", "2Gi")
    assert (found.asked, found.asked_milli_cpus) == ({"memory": 6 * GIB}, 3000)
    assert requested(found) == "3 CPUs, memory 6Gi"


def test_what_a_pod_asked_for_is_not_known_without_its_spec_or_with_an_amount_past_int64() -> None:
    refused = Rejection("uid", "shop", "db-0", "TopologyAffinityError", "Resources cannot be allocated")
    assert (only(Intent(rejections=(refused,))).asked, only(Intent(rejections=(refused,))).asked_milli_cpus) == (
        None,
        None,
    )
    assert refused_pod("container", "10E").asked is None
