"""The parts of the run on a real cluster that need none: its pods, and its judgement."""

from __future__ import annotations

from typing import Any

import yaml

from compare import Forecast, Happened, Row, forecast_of, happened_of, table
from installation import objects
from numaudit.scenario.document import Document
from numaudit.scenario.manifests import read_manifest
from shapes import NodeRoom, pods

GI = 1 << 30
ROOM = NodeRoom("worker", [2 * GI, GI], [64 << 20, 0], 8)


def _limits(pod: dict[str, Any]) -> dict[str, str]:
    limits: dict[str, str] = pod["spec"]["containers"][0]["resources"].get("limits", {})
    return limits


def test_the_pods_have_all_shapes_and_go_to_one_node_without_a_scheduler() -> None:
    made = pods(ROOM, "numaudit-e2e-1", "image")
    assert len({pod["metadata"]["name"] for pod in made}) == len(made) >= 20
    assert {pod["spec"]["nodeName"] for pod in made} == {"worker"}
    assert {pod["metadata"]["namespace"] for pod in made} == {"numaudit-e2e-1"}
    by_title = {pod["metadata"]["name"].split("-", 2)[2]: _limits(pod) for pod in made}
    assert by_title["wider-than-a-node"]["memory"] == f"{2 * 1024 * 5 // 4}Mi"
    assert by_title["too-many-cpus"]["cpu"] == "9"
    assert by_title["more-huge-pages-than-a-node"]["hugepages-2Mi"] == "66Mi"
    assert by_title["best-effort"] == {}


def test_a_node_without_huge_pages_gets_no_pod_that_wants_them() -> None:
    made = pods(NodeRoom("worker", [GI], [0], 2), "n", "image")
    assert not any("hugepages-2Mi" in _limits(pod) for pod in made)


def test_numaudit_reads_every_one_of_the_pods() -> None:
    for pod in pods(ROOM, "n", "image"):
        assert read_manifest(Document("pod.yaml", pod)).name == pod["metadata"]["name"]


def _forecast(**answer: Any) -> Forecast:  # noqa: ANN401 (JSON)
    return forecast_of({"admitted": True, "reason": "", "doubt": None, "containers": {}} | answer)


def _promised(*nodes: int) -> dict[str, Any]:
    return {"app": {"hint": {"nodes": list(nodes), "preferred": True}, "blocks": [{"type": "memory"}]}}


def _report(*nodes: int) -> dict[str, Any]:
    intended = {"memoryNodes": list(nodes), "bytes": {"memory": 1}}
    return {"containers": [{"namespace": "n", "pod": "p", "container": "app", "intended": intended}]}


RUNNING = {"metadata": {"name": "p", "namespace": "n"}, "status": {"phase": "Running", "containerStatuses": [{}]}}
REFUSED = {"metadata": {"name": "p", "namespace": "n"}, "status": {"phase": "Failed", "reason": "OutOfcpu"}}


def test_a_forecast_is_right_if_decision_reason_and_nodes_are_the_kubelets() -> None:
    def verdict(forecast: Forecast, happened: Happened) -> bool | None:
        return Row("p", forecast, happened).is_right

    admitted = happened_of(RUNNING, _report(1))
    refused = happened_of(REFUSED, None)
    assert verdict(_forecast(containers=_promised(1)), admitted) is True
    assert verdict(_forecast(containers=_promised(0, 1)), admitted) is False
    assert verdict(_forecast(), happened_of(RUNNING, {"containers": []})) is True
    assert verdict(_forecast(), refused) is False
    assert verdict(_forecast(admitted=False, reason="OutOfcpu"), refused) is True
    assert verdict(_forecast(admitted=False, reason="TopologyAffinityError"), refused) is False
    assert verdict(_forecast(admitted=False, reason="OutOfcpu"), admitted) is False


def test_what_either_side_does_not_know_is_not_compared() -> None:
    pending = happened_of({"metadata": {"name": "p", "namespace": "n"}, "status": {"phase": "Pending"}}, None)
    assert pending == Happened(None, "Pending", {})
    assert Row("p", _forecast(), pending).is_right is None
    assert Row("p", _forecast(doubt="pods may be gone"), happened_of(REFUSED, None)).is_right is None


def test_the_table_ends_with_how_many_forecasts_were_right() -> None:
    right = Row("one", _forecast(containers=_promised(1)), happened_of(RUNNING, _report(1)))
    wrong = Row("two", _forecast(), happened_of(REFUSED, None))
    open_ = Row("three", _forecast(doubt="pods may be gone"), happened_of(REFUSED, None))
    assert table([right, wrong, open_]).splitlines() == [
        "POD    FORECAST                   KUBELET",
        "one    admitted on 1              admitted on 1  right",
        "two    admitted                   OutOfcpu       WRONG",
        "three  unknown: pods may be gone  OutOfcpu       not compared",
        "",
        "forecasts right: 1 of 2; 1 could not be compared",
    ]


def test_the_agents_objects_all_go_into_the_namespace_and_cluster_wide_ones_take_its_name() -> None:
    manifests = yaml.safe_dump_all(
        [
            {"kind": "Namespace", "metadata": {"name": "numaudit"}},
            {"kind": "ClusterRole", "metadata": {"name": "numaudit"}},
            {
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "numaudit"},
                "roleRef": {"name": "numaudit"},
                "subjects": [{"name": "numaudit", "namespace": "numaudit"}],
            },
            {"kind": "ServiceAccount", "metadata": {"name": "numaudit", "namespace": "numaudit"}},
        ]
    )
    namespace, role, binding, account = objects(manifests, "mine", "image")
    assert namespace["metadata"] == role["metadata"] == {"name": "mine"}
    assert binding == {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "mine"},
        "roleRef": {"name": "mine"},
        "subjects": [{"name": "numaudit", "namespace": "mine"}],
    }
    assert account["metadata"] == {"name": "numaudit", "namespace": "mine"}
