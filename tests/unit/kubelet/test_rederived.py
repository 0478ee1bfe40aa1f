"""What is derived again is what the kubelet logged, as long as the pods of that time are still there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.engine.observer import Observer
from numaudit.intent.node import Intent
from numaudit.intent.pods import Rejection
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.rederived import Rederived, differences, rederive
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.admission import remove
from numaudit.scenario.values import Node
from numaudit.topology.nodeset import CpuSet, NodeSet

CapturedHost = Callable[[str], Host]
HOST = "kubernetes-four-nodes"


def read(host: Host) -> tuple[Node, Intent]:
    here = node_on(host, AskedKubelet())
    intent = Observer.of(host).observe().intent
    assert intent is not None
    return here, intent


def test_every_admission_in_the_kubelets_log_is_derived_as_the_log_has_it(captured: CapturedHost) -> None:
    node, intent = read(captured(HOST))
    compared = 0
    for record in intent.hints:
        assert record.pod_uid is not None
        assert record.container is not None
        found = rederive(node, intent, record.pod_uid)
        assert isinstance(found, Rederived)
        decision = found.decision(record.container)
        assert decision is not None
        assert differences(record, found, decision) == (), record.pod
        compared += bool(record.providers)
    assert compared == len(intent.hints) > 10


def test_a_refused_pod_is_refused_again(captured: CapturedHost) -> None:
    node, intent = read(captured(HOST))
    for rejection in intent.rejections:
        found = rederive(node, intent, rejection.pod_uid)
        assert isinstance(found, Rederived)
        again = found.explanation.admission.rejection
        assert again is not None
        assert (again.reason, again.message) == (rejection.reason, rejection.message)


def test_a_pod_that_has_gone_since_shows_as_a_difference(captured: CapturedHost) -> None:
    node, intent = read(captured(HOST))
    (record,) = [one for one in intent.hints if one.pod == "gu-huge-numanode"]
    (gone,) = [uid for uid, pod in node.state.pods.items() if pod.name == "gu-two-numanode"]
    assert record.pod_uid is not None
    found = rederive(replace(node, state=remove(node.state, gone)), intent, record.pod_uid)
    assert isinstance(found, Rederived)
    decision = found.decision("app")
    assert decision is not None
    assert any(one.startswith("cpu: the log has ") for one in differences(record, found, decision))


def test_another_merged_hint_is_a_difference(captured: CapturedHost) -> None:
    node, intent = read(captured(HOST))
    record = next(one for one in intent.hints if one.best is not None and one.best.affinity)
    found = rederive(node, intent, record.pod_uid or "")
    assert isinstance(found, Rederived)
    decision = found.decision(record.container or "")
    assert decision is not None
    other = replace(record, best=TopologyHint(NodeSet.of(3), preferred=False))
    (difference,) = differences(other, found, decision)
    assert difference == "merged hint: the log has 3, not preferred, derived is 0, preferred"


def test_another_outcome_or_other_cpus_and_nodes_are_differences(captured: CapturedHost) -> None:
    node, intent = read(captured(HOST))
    (record,) = [one for one in intent.hints if one.pod == "gu-small-numanode"]
    found = rederive(node, intent, record.pod_uid or "")
    assert isinstance(found, Rederived)
    decision = found.decision("app")
    assert decision is not None
    elsewhere = replace(record, cpus=CpuSet.of(7), memory_nodes=NodeSet.of(3))
    assert differences(elsewhere, found, decision) == (
        "CPUs: the log has 7, derived are 1",
        "nodes of its memory: the log has 3, derived are 0",
    )
    refused = replace(found, refusal=Rejection(record.pod_uid or "", "default", record.pod, "Some", "words"))
    assert differences(elsewhere, refused, decision) == ("outcome: the log has Some: words, derived is admitted",)


def test_a_pod_that_was_refused_later_was_admitted_then(captured: CapturedHost) -> None:
    node, intent = read(captured(HOST))
    (record,) = [one for one in intent.hints if one.pod == "gu-small-numanode"]
    evicted = Rejection(record.pod_uid or "", "default", record.pod, "UnexpectedAdmissionError", "not at this start")
    found = rederive(node, replace(intent, rejections=(*intent.rejections, evicted)), record.pod_uid or "")
    assert isinstance(found, Rederived)
    decision = found.decision("app")
    assert decision is not None
    assert differences(record, found, decision) == ()


@pytest.mark.parametrize("pods", [None, {}])
def test_a_pod_of_no_known_spec_is_not_derived(captured: CapturedHost, pods: dict[str, object] | None) -> None:
    node, intent = read(captured(HOST))
    uid = next(iter(node.state.pods))
    found = rederive(node, replace(intent, pods=None if pods is None else {}), uid)
    assert isinstance(found, str)
    assert found.startswith("the pod's spec is not known")
