"""The intent is a pure function of what was read; a pod that was refused at a restart is known by a counter only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kubelets.cluster_history import HISTORY, TREE
from kubelets.steps import STEPS, Step
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.evaluation.hint_outcomes import outcomes
from numaudit.intent.kubelet import KubeletSeries
from numaudit.intent.node import Intent
from numaudit.intent.pods import Rejection
from numaudit.kernel.host import Host
from numaudit.kubelet.intent.intent_of import UNKNOWN, Steps, intent_of, refused_at_restart
from numaudit.kubelet.parsers import pods
from numaudit.kubelet.parsers.metrics import KubeletMetrics, parse
from numaudit.kubelet.sources.poller import KubeletPoller

STARTED = 1795373090.45


def e_init() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HISTORY / "e-init-refused-at-restart.json").read_text())
    return found


def counters(**reasons: int) -> KubeletMetrics:
    series = {
        KubeletSeries("kubelet_admission_rejections_total", (("reason", name),)): float(count)
        for name, count in reasons.items()
    }
    return KubeletMetrics(series, None, STARTED)


def found(pod: dict[str, Any], metrics: KubeletMetrics | None, *known: Rejection) -> list[str]:
    (facts,) = pods.parse(json.dumps({"kind": "PodList", "items": [pod]}).encode()).pods.values()
    return [one.reason for one in refused_at_restart({facts.uid: facts}, known, metrics)]


def intent_of_node(folder: Path, *more: dict[str, Any]) -> Intent:
    """The node of the cluster as it was captured, with one more pod in the kubelet's list."""
    root = folder / "node"
    shutil.copytree(TREE, root, symlinks=True)
    file = root / "numaudit/pods.json"
    listed = json.loads(file.read_text())
    listed["items"] += more
    file.write_text(json.dumps(listed))
    return IntentCollector(Host.under(root)).ask(()).intent


def test_the_pod_that_a_real_kubelet_refused_at_its_restart_is_found(tmp_path: Path) -> None:
    """The counter has one TopologyAffinityError more than the list of pods has."""
    intent = intent_of_node(tmp_path, e_init())
    (refused,) = [one for one in intent.rejections if one.pod == "e-init"]
    assert (refused.reason, refused.at) == ("TopologyAffinityError", STARTED)
    assert refused.message.startswith("at a restart of the kubelet, by its counter of refusals")
    (outcome,) = [one for one in outcomes(intent) if one.pod == "e-init"]
    assert (outcome.outcome, outcome.source) == ("rejected-affinity", "counter")


def test_nothing_is_found_where_no_pod_ended_without_a_reason(tmp_path: Path) -> None:
    assert not [one for one in intent_of_node(tmp_path).rejections if one.by_counter]


def test_the_start_of_the_kubelet_is_that_of_its_process() -> None:
    assert parse((TREE / "numaudit/kubelet-metrics.txt").read_bytes()).started_at == STARTED
    assert parse(b"process_start_time_seconds soon\n").started_at is None


def test_a_counter_that_is_accounted_for_says_nothing_of_the_pod() -> None:
    other = Rejection("u", "work", "c-too-big", "TopologyAffinityError", "m", STARTED + 60)
    assert found(e_init(), counters(TopologyAffinityError=1)) == ["TopologyAffinityError"]
    assert found(e_init(), counters(TopologyAffinityError=1), other) == []
    assert found(e_init(), counters(TopologyAffinityError=2), other) == ["TopologyAffinityError"]
    before = Rejection("u", "work", "c-too-big", "TopologyAffinityError", "m", STARTED - 60)
    assert found(e_init(), counters(TopologyAffinityError=1), before) == ["TopologyAffinityError"]


def test_a_pod_that_the_log_names_is_not_found_twice() -> None:
    logged = Rejection(e_init()["metadata"]["uid"], "work", "e-init", "TopologyAffinityError", "m", STARTED + 2)
    assert found(e_init(), counters(TopologyAffinityError=2), logged) == []


def test_where_the_counter_leaves_several_reasons_none_is_named() -> None:
    assert found(e_init(), counters(TopologyAffinityError=1, OutOfcpu=1)) == [UNKNOWN]


@pytest.mark.parametrize("metrics", [None, KubeletMetrics({}, None), counters()])
def test_without_the_counter_nothing_is_said(metrics: KubeletMetrics | None) -> None:
    assert found(e_init(), metrics) == []


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("spec", {"restartPolicy": "Never"}),
        ("spec", {"restartPolicy": "OnFailure"}),
        ("metadata", {"deletionTimestamp": "2026-11-22T18:45:03Z"}),
        ("status", {"reason": "Evicted"}),
        ("status", {"phase": "Running"}),
    ],
)
def test_a_pod_that_may_have_ended_for_another_reason_is_none_of_them(part: str, change: dict[str, str]) -> None:
    pod = e_init()
    assert found({**pod, part: {**pod[part], **change}}, counters(TopologyAffinityError=1)) == []


def test_a_pod_that_ended_before_the_kubelet_started_was_not_refused_by_it() -> None:
    pod = e_init()
    pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-11-22T18:40:00Z"
    assert found(pod, counters(TopologyAffinityError=1)) == []


@pytest.mark.parametrize("step", STEPS)
def test_what_is_remembered_changes_no_intent(step: str, tmp_path: Path) -> None:
    moment, other = Step(step), Step("standalone-restricted/2-more")
    readings = KubeletPoller.of(moment.tree(tmp_path / "one")).poll(moment.containers())
    others = KubeletPoller.of(other.tree(tmp_path / "other")).poll(other.containers())
    steps = Steps()
    alone = intent_of(readings, moment.containers())
    assert intent_of(readings, moment.containers(), steps) == alone
    intent_of(others, other.containers(), steps)
    assert intent_of(readings, moment.containers(), steps) == alone


def test_a_step_is_done_again_only_when_what_it_needs_changed(tmp_path: Path) -> None:
    moment = Step("standalone-restricted/2-more")
    poller, steps = KubeletPoller.of(moment.tree(tmp_path / "tree")), Steps()
    first = intent_of(poller.poll(moment.containers()), moment.containers(), steps).intent
    second = intent_of(poller.poll(moment.containers()), moment.containers(), steps).intent
    assert second.containers is first.containers
    assert second.headroom is first.headroom
    fewer = intent_of(poller.poll(moment.containers()[1:]), moment.containers()[1:], steps).intent
    assert fewer.containers is not first.containers
    assert fewer.headroom is first.headroom
