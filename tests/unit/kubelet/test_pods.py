"""The kubelet's /pods."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.steps import STEPS, Step
from numaudit.containermanager.predicates import amounts, node_requests
from numaudit.errors import ParseError
from numaudit.intent.pods import PodFacts
from numaudit.kubelet.parsers.pods import parse, without_secrets
from processes.input_cost import MIB, costs

ID = "b" * 64
RUNNING = "standalone-single-numa-node/1-running"


def pod(**changes: object) -> dict[str, object]:
    base: dict[str, object] = {
        "metadata": {
            "name": "db-0",
            "namespace": "prod",
            "uid": "11111111-2222-3333-4444-555555555555",
            "creationTimestamp": "2026-11-20T22:00:32Z",
        },
        "spec": {
            "containers": [{"name": "db", "resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}}]
        },
        "status": {"phase": "Running", "qosClass": "Burstable"},
    }
    return {**base, **changes}


def listed(*pods: object) -> bytes:
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods}).encode()


def facts_of(one: object) -> PodFacts:
    (facts,) = parse(listed(one)).pods.values()
    return facts


def by_name(step: str) -> dict[str, PodFacts]:
    found = parse(Step(step).read("pods.json"))
    assert found.problems == ()
    return {one.name.removesuffix("-numanode"): one for one in found.pods.values()}


def test_a_recorded_list_gives_qos_containers_and_their_ids() -> None:
    pods = by_name(RUNNING)
    assert {name: one.qos for name, one in pods.items() if one.qos != "Guaranteed"} == {
        "bu": "Burstable",
        "be": "BestEffort",
    }
    small = pods["gu-small"]
    assert small.uid == "11909391e6eae33a104bafa75980e9ea"
    assert small.phase == "Running"
    (app,) = small.containers
    assert (app.name, app.kind, app.state, app.restarts) == ("app", "app", "running", 0)
    assert app.started_at == datetime(2026, 11, 20, 22, 0, 48, tzinfo=UTC).timestamp()
    assert app.container_id is not None
    assert len(app.container_id) == 64


def test_of_a_resize_that_was_refused_the_pod_counts_as_it_was_allocated() -> None:
    """Seen with 1.36: the spec has the wish of 1200Mi, the status and the checkpoint the 200Mi before."""
    wish, own = {"cpu": "1", "memory": "1200Mi"}, {"cpu": "1", "memory": "200Mi"}
    statuses = [{"name": "db", "allocatedResources": own}]
    resized = pod(
        spec={"containers": [{"name": "db", "resources": {"requests": wish, "limits": wish}}]},
        status={"phase": "Running", "qosClass": "Guaranteed", "containerStatuses": statuses},
    )
    facts = facts_of(resized)
    assert facts.spec is not None
    assert amounts(node_requests(facts.spec)) == {"cpu": 1000, "memory": 200 << 20}
    assert str(facts.spec.containers[0].resources.limits["memory"]) == "200Mi"
    larger_limit = pod(
        spec={"containers": [{"name": "db", "resources": {"requests": wish, "limits": {"memory": "2Gi"}}}]},
        status={"phase": "Running", "qosClass": "Burstable", "containerStatuses": statuses},
    )
    facts = facts_of(larger_limit)
    assert facts.spec is not None
    assert amounts(node_requests(facts.spec))["memory"] == 200 << 20
    assert str(facts.spec.containers[0].resources.limits["memory"]) == "2Gi"


def test_of_a_resized_sidecar_and_of_a_pod_as_a_whole_the_allocated_amounts_count() -> None:
    wish, own = ({"cpu": "1", "memory": amount} for amount in ("1200Mi", "200Mi"))
    both = {"requests": wish, "limits": wish}
    resized = pod(
        spec={
            "initContainers": [
                {"name": "side", "restartPolicy": "Always", "resources": both},
                {"name": "init", "resources": both},
            ],
            "containers": [{"name": "db", "resources": both}],
            "resources": both,
        },
        status={
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
            "allocatedResources": own,
            "initContainerStatuses": [{"name": name, "allocatedResources": own} for name in ("side", "init")],
            "containerStatuses": [{"name": "db", "allocatedResources": wish}],
        },
    )
    facts = facts_of(resized)
    assert facts.spec is not None and facts.spec.resources is not None
    amounts_of = {one.name: str(one.resources.requests["memory"]) for one in facts.spec.all_containers}
    assert amounts_of == {"side": "200Mi", "init": "1200Mi", "db": "1200Mi"}
    assert str(facts.spec.init_containers[0].resources.limits["memory"]) == "200Mi"
    whole = facts.spec.resources
    assert (str(whole.requests["memory"]), str(whole.limits["memory"])) == ("200Mi", "200Mi")
    assert facts.resize == (
        "pending: Deferred; container side has 200Mi of memory and wishes 1200Mi; "
        "the pod has 200Mi of memory and wishes 1200Mi"
    )
    (captured,) = parse(without_secrets(listed(resized))).pods.values()
    assert captured == facts


REFUSED = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ({}, None),
        ({"conditions": [{"type": "PodResizePending", "status": "False", "reason": "Deferred"}]}, None),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, None),
        (
            {
                "conditions": [
                    {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": REFUSED}
                ]
            },
            f"pending: Infeasible: {REFUSED}; container db has 200Mi of memory and wishes 1200Mi",
        ),
        (
            {"conditions": [{"type": "PodResizeInProgress", "status": "True"}]},
            "in progress; container db has 200Mi of memory and wishes 1200Mi",
        ),
        ({"resize": "Deferred"}, "Deferred; container db has 200Mi of memory and wishes 1200Mi"),
    ],
)
def test_a_resize_that_is_not_made_is_named_with_both_amounts(status: dict[str, object], says: str | None) -> None:
    wish, own = {"cpu": "1", "memory": "1200Mi"}, {"cpu": "1", "memory": "200Mi"}
    resized = pod(
        spec={"containers": [{"name": "db", "resources": {"requests": wish, "limits": wish}}]},
        status={**status, "containerStatuses": [{"name": "db", "allocatedResources": own}]},
    )
    facts = facts_of(resized)
    assert facts.resize == says
    (captured,) = parse(without_secrets(listed(resized))).pods.values()
    assert captured == facts


def test_init_containers_and_sidecars_are_told_apart() -> None:
    pods = by_name(RUNNING)
    kinds = [(one.name, one.kind, one.state) for one in pods["gu-init"].containers + pods["gu-sidecar"].containers]
    assert kinds == [
        ("init", "init", "terminated"),
        ("app", "app", "running"),
        ("side", "sidecar", "running"),
        ("app", "app", "running"),
    ]


def test_a_rejected_pod_has_reason_and_message_without_the_words_before_it() -> None:
    pods = by_name("standalone-single-numa-node/4-kubelet-restarted")
    rejections = {name: one.rejection for name, one in pods.items() if one.rejection is not None}
    assert {name: one.reason for name, one in rejections.items()} == {
        "gu-toobig": "TopologyAffinityError",
        "gu-manycpu": "TopologyAffinityError",
        "gu-cross": "UnexpectedAdmissionError",
        "gu-nomem": "UnexpectedAdmissionError",
    }
    assert rejections["gu-toobig"].message == "Resources cannot be allocated with Topology locality"
    assert all(pods[name].has_ended for name in rejections)


def test_pod_level_resources_are_seen() -> None:
    pods = by_name("standalone-pod-level-resources/1")
    assert {name: one.has_pod_level_resources for name, one in pods.items()} == {
        "pl-mixed": True,
        "pl-only": True,
        "gu-small": False,
    }


def test_a_pod_that_was_evicted_while_it_ran_was_not_rejected() -> None:
    evicted = pod(
        status={
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: memory.",
            "containerStatuses": [{"name": "db", "containerID": f"containerd://{ID}"}],
        }
    )
    assert facts_of(evicted).rejection is None
    # A kubelet that lists the containers of a pod it refused, too, says so in the message.
    refused = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: too little"}
    statuses = [{"name": "db", "state": {"waiting": {"reason": "PodInitializing"}}}]
    newer = facts_of(pod(status={**refused, "containerStatuses": statuses})).rejection
    assert newer is not None
    assert newer.message == "too little"
    old = pod(status={"phase": "Failed", "reason": "TopologyAffinityError", "message": "Pod Resources cannot be x"})
    rejection = facts_of(old).rejection
    assert rejection is not None
    assert rejection.message == "Resources cannot be x"


@pytest.mark.parametrize(
    ("owner", "labels", "workload"),
    [
        (
            {"kind": "ReplicaSet", "name": "web-7d4b9", "controller": True},
            {"pod-template-hash": "7d4b9"},
            "web",
        ),
        ({"kind": "ReplicaSet", "name": "web", "controller": True}, {}, "web"),
        ({"kind": "StatefulSet", "name": "db", "controller": True}, {}, "db"),
        ({"kind": "Job", "name": "backup-29384756", "controller": True}, {}, "backup"),
        ({"kind": "Job", "name": "migrate-1", "controller": True}, {}, "migrate-1"),
        ({"kind": "ConfigMap", "name": "no-controller"}, {}, None),
    ],
)
def test_a_pod_belongs_to_the_workload_that_made_it(
    owner: dict[str, object], labels: dict[str, str], workload: str | None
) -> None:
    made = pod()
    metadata = made["metadata"]
    assert isinstance(metadata, dict)
    made["metadata"] = metadata | {"ownerReferences": [owner], "labels": labels}
    assert facts_of(made).workload == workload
    kept = parse(without_secrets(json.dumps({"kind": "PodList", "items": [made]}).encode()))
    assert [one.workload for one in kept.pods.values()] == [workload]


def test_a_mirror_pod_has_the_uid_of_the_static_pod_it_mirrors() -> None:
    mirror = pod(
        metadata={
            "name": "db-0",
            "namespace": "prod",
            "uid": "api-uid",
            "annotations": {"kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef"},
        }
    )
    found = facts_of(mirror)
    assert found.uid == "0123456789abcdef0123456789abcdef"


def test_a_restarted_container_has_its_newest_id_and_the_one_before() -> None:
    status = {
        "name": "db",
        "containerID": f"cri-o://{ID}",
        "restartCount": 3,
        "state": {"running": {}},
        "lastState": {"terminated": {"containerID": "cri-o://" + "a" * 64}},
    }
    (container,) = facts_of(pod(status={"phase": "Running", "containerStatuses": [status]})).containers
    assert (container.container_id, container.previous_container_id, container.restarts) == (ID, "a" * 64, 3)


def test_a_pod_that_is_not_understood_is_left_out_and_named_and_the_others_stay() -> None:
    found = parse(listed(pod(), {"metadata": {}}, {"spec": "text"}, "text"))
    assert [one.name for one in found.pods.values()] == ["db-0"]
    assert len(found.problems) == 3
    assert found.problems[0].startswith("items[1]: ") and "`uid` - at `$.metadata`" in found.problems[0]


def test_a_pod_with_resources_of_another_form_keeps_its_other_facts() -> None:
    odd = pod(spec={"containers": [{"name": "db", "resources": {"requests": {"memory": "lots"}}}]})
    found = parse(listed(odd))
    (facts,) = found.pods.values()
    assert facts.spec is None
    assert facts.has_pod_level_resources is None
    assert facts.containers[0].name == "db"
    assert found.problems == ("pod prod/db-0: its resources are not understood",)


def test_unknown_fields_of_a_newer_kubelet_are_passed_over() -> None:
    newer = pod()
    newer["spec"] = {"containers": [{"name": "db", "newField": {"a": 1}}], "evenNewer": []}
    newer["status"] = {"phase": "Running", "qosClass": "SuperGuaranteed", "observedGeneration": 4}
    facts = facts_of(newer)
    assert facts.qos is None
    assert facts.phase == "Running"


def test_fields_that_are_not_read_take_no_memory() -> None:
    other = {f"{number:07x}": 1 for number in range(100_000)}
    body = listed(*[pod(status={"x": other})] * 4)
    found = costs(parse, {"other fields": body})["other fields"]
    assert not found.refusal
    assert found.memory < 8 * MIB


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"kind":"Pod"}', b'{"kind":5}', b"\xff", b"[" * 100_000])
def test_what_is_no_list_of_pods_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError):
        parse(body)


@pytest.mark.parametrize("step", STEPS)
def test_a_list_without_secrets_reads_the_same(step: str) -> None:
    body = Step(step).read("pods.json")
    assert b"memhog" in body
    kept = without_secrets(body)
    assert b"memhog" not in kept
    assert parse(kept) == parse(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for data in (body, b'{"kind":"PodList","items":[' + body + b"]}"):
        with contextlib.suppress(ParseError):
            parse(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


PARTS = st.sampled_from(["metadata", "spec", "status"])
KEYS = st.sampled_from(
    ["containers", "initContainers", "annotations", "containerStatuses", "phase", "reason", "resources", "uid"]
)


@given(PARTS, KEYS, JSON)
def test_any_field_of_any_shape_is_read_or_refused(part: str, key: str, value: object) -> None:
    whole = pod()
    inner = whole[part]
    assert isinstance(inner, dict)
    found = parse(listed({**whole, part: {**inner, key: value}}))
    assert len(found.pods) + len(found.problems) >= 1
