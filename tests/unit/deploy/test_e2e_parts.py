"""The parts of the run on a real cluster that need none: its pods, and its judgement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from compare import Forecast, Happened, Row, forecast_of, happened_of, plugin_is_right, policy_of
from installation import objects
from numaudit.api.document import encode
from numaudit.cli.main import call
from numaudit.containermanager.plain import Document
from numaudit.encoding.value import Origin
from numaudit.kubectl.everywhere import NodeReply, Replies
from numaudit.kubectl.merged import merge
from numaudit.scenario.manifests import read_manifest
from shapes import NodeRoom, pods

GI = 1 << 30
ROOM = NodeRoom("worker", [2 * GI, GI], [64 << 20, 0], 8)


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


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str], fixtures: Path) -> dict[str, Any]:
    """As an agent writes it."""
    assert call(["report", "-o", "json", "--root", str(fixtures / "misaligned-node")]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert None in [one["intended"] for one in found["containers"]]
    return found


def test_the_promises_of_a_pod_are_read_from_a_report_as_an_agent_writes_it(report: dict[str, Any]) -> None:
    pod = RUNNING | {"metadata": {"name": "gu-two-numanode", "namespace": "default"}}
    assert happened_of(pod, report).nodes == {"a": [1], "b": [1]}
    pod = RUNNING | {"metadata": {"name": "be-numanode", "namespace": "default"}}
    assert happened_of(pod, report).nodes == {}
    assert (policy_of(report), policy_of({"kubelet": None})) == ("Static", "unknown")


def test_a_plugin_that_shows_nothing_or_less_than_the_agent_is_wrong(report: dict[str, Any]) -> None:
    def plugin(namespace: str) -> dict[str, Any]:
        reply = NodeReply("worker", None, "reporting", json.dumps(report).encode())
        document = merge(Replies((reply,)), now=1.0, context=None, namespace=namespace, top=1)
        found: dict[str, Any] = json.loads(encode("ClusterReport", document, Origin(None, None)))
        return found

    right = plugin("default")
    assert plugin_is_right("default", report, right) == (True, "10 of 10 containers of default; worker reporting")
    assert plugin_is_right("default", report, right | {"verdicts": {"aligned": 1}})[0] is False
    nothing = plugin_is_right("elsewhere", report, plugin("elsewhere"))
    assert nothing == (False, "0 of 0 containers of elsewhere; worker reporting")


def test_a_promise_that_was_not_seen_is_not_compared() -> None:
    """Else a report that comes too early would be right, whatever was promised."""
    seen_nothing = happened_of(RUNNING, {"containers": []})
    assert Row("p", _forecast(containers=_promised(1)), seen_nothing).is_right is None
    assert Row("p", _forecast(), seen_nothing).is_right is True


def test_what_either_side_does_not_know_is_not_compared() -> None:
    pending = happened_of({"metadata": {"name": "p", "namespace": "n"}, "status": {"phase": "Pending"}}, None)
    assert pending == Happened(None, "Pending", {})
    assert Row("p", _forecast(), pending).is_right is None
    assert Row("p", _forecast(doubt="pods may be gone"), happened_of(REFUSED, None)).is_right is None


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
