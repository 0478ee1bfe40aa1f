"""The filter answers as the node's own admission does, or says that it cannot tell."""

from __future__ import annotations

import json
import os
from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from clusters.nrt_filter import would_admit
from kubelets.random_nodes import Plain, random_kubelet, random_pod, random_state
from made_up.scenarios import machine, play, pod, scenario
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.topologymanager.policy import KubeletHangs
from numaudit.errors import InputError
from numaudit.memorymanager.admission import NodeState, admit
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.nrt.describe import topology_of
from numaudit.nrt.resource_topology import PREFIX, annotations_of

ROUNDS = int(os.environ.get("FILTER_ROUNDS", "400"))
"""10,000 take some minutes: FILTER_ROUNDS=10000 pytest -s tests/unit/nrt/test_nrt_filter.py"""
MISALIGNED = (AdmissionOutcome.DEGRADED, AdmissionOutcome.EXTENDED)


def _truth(kubelet: Kubelet, state: NodeState, asked: Plain) -> tuple[bool, bool | None, str | None] | None:
    """The library's own admission; None = such a pod crashes the kubelet, or makes it hang."""
    try:
        admission = admit(kubelet, state, read_pod(asked))
    except (InputError, KubeletHangs):
        return None
    if admission.rejection is not None:
        return False, None, f"{admission.rejection.reason}: {admission.rejection.message}"
    return True, all(one.outcome not in MISALIGNED for one in admission.placements), None


def _damaged(random: Random, annotations: dict[str, str]) -> dict[str, str]:
    """Without a part, or with one that cannot be understood."""
    name = random.choice(sorted(annotations))
    if random.random() < 0.5:
        return {key: text for key, text in annotations.items() if key != name}
    text = random.choice(("", "{}", '{"version":2}', annotations[name][:-1], "[]"))
    return {**annotations, name: text}


def test_it_agrees_with_the_admission_on_random_nodes_wherever_it_can_tell() -> None:
    said, why = Counter[str](), Counter[str]()
    for seed in range(ROUNDS):
        random = Random(seed)
        kubelet = random_kubelet(random)
        state = random_state(random, kubelet)
        whole = annotations_of(topology_of("n", kubelet, state, free={node.id: 1 for node in kubelet.machine.nodes}))
        is_whole = random.random() < 0.8
        annotations = whole if is_whole else _damaged(random, whole)
        for number in range(3):
            asked = random_pod(random, f"new-{number}")
            truth, answer = _truth(kubelet, state, asked), would_admit(annotations, asked)
            where = f"seed {seed}, pod {number}: {truth}, {answer}"
            if answer.admits is None:
                assert answer.reason
                said[f"cannot tell, {'whole' if is_whole else 'damaged'}"] += 1
                why[(answer.reason if is_whole else "damaged")[:60]] += 1
                assert not is_whole or truth is None or "several free devices" in answer.reason, where
                continue
            assert truth is not None, where
            assert (answer.admits, answer.is_aligned) == truth[:2], where
            if truth[2] is not None:
                assert (answer.reason or "").startswith(truth[2]), where
                said[f"no, {truth[2].split(':')[0]}"] += 1
            else:
                said["yes" if answer.is_aligned else "yes, not aligned"] += 1
    print(dict(sorted(said.items())), dict(why))
    total = sum(said.values())
    assert total == 3 * ROUNDS
    sure = [count for name, count in said.items() if not name.startswith("cannot")]
    assert sum(sure) > 0.8 * total
    assert said["yes"] > 0.2 * total
    assert said["yes, not aligned"] > 0.003 * total
    assert said["no, TopologyAffinityError"] > 0.05 * total
    assert said["no, UnexpectedAdmissionError"] > 0.05 * total
    assert said["cannot tell, damaged"] > 0.02 * total


def _kai(policy: str, *steps: Plain) -> tuple[Kubelet, NodeState]:
    """The node of KAI-Scheduler#2013: two nodes of 128 GiB."""
    kept = [{"numaNode": node, "limits": {"memory": "1Gi"}} for node in (0, 1)]
    kubelet = {"topologyManagerPolicy": policy, "reservedMemory": kept}
    run = play(scenario(machine("128Gi", "128Gi"), steps, kubelet))
    return run.scenario.setup.kubelet, run.state


WIDE, SMALL, NEXT = pod("wide", "200Gi"), pod("small"), pod("next")
GROUP = ({"admit": WIDE}, {"admit": SMALL}, {"remove": {"pod": "wide"}})
"""Small keeps the group of a wide pod that is gone."""


@pytest.mark.parametrize(
    ("policy", "steps", "asked", "admits", "is_aligned", "reason"),
    [
        ("best-effort", GROUP, NEXT, True, False, None),
        ("restricted", GROUP, NEXT, False, None, "TopologyAffinityError"),
        ("best-effort", [{"admit": SMALL}], WIDE, False, None, "containers use node 0 alone or in another group"),
        ("best-effort", [{"admit": SMALL}, {"remove": {"pod": "small"}}], WIDE, True, True, None),
    ],
)
def test_the_cases_of_kai_scheduler_2013(
    policy: str, steps: list[Plain], asked: Plain, admits: bool, is_aligned: bool | None, reason: str | None
) -> None:
    kubelet, state = _kai("best-effort", *steps)
    kubelet = replace(kubelet, topology=replace(kubelet.topology, policy=policy))
    answer = would_admit(annotations_of(topology_of("n", kubelet, state)), asked)
    assert (answer.admits, answer.is_aligned) == (admits, is_aligned)
    assert (reason or "") in (answer.reason or "")
    assert admit(kubelet, state, read_pod(asked)).admitted == admits


def _answer(annotations: dict[str, str], asked: Plain) -> str:
    found = would_admit(annotations, asked)
    assert found.admits is None, found
    return found.reason or ""


def test_what_is_not_published_is_not_guessed() -> None:
    kubelet, state = _kai("best-effort", {"admit": SMALL})
    whole = annotations_of(topology_of("n", kubelet, state))
    assert "policies are not published" in _answer({}, NEXT)
    assert "memory map of the node" in _answer({key: whole[key] for key in whole if key != f"{PREFIX}memory"}, NEXT)
    without_devices = {key: whole[key] for key in whole if key != f"{PREFIX}devices"}
    assert "devices of the node" in _answer(without_devices, pod("gpu", **{"v.example/gpu": "1"}))
    assert would_admit(without_devices, NEXT).admits is True


def test_a_pod_that_gets_nothing_of_its_own_needs_no_memory_map() -> None:
    kubelet, state = _kai("single-numa-node", {"admit": SMALL})
    whole = annotations_of(topology_of("n", kubelet, state))
    burstable = {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "app"}]}}
    assert would_admit({key: whole[key] for key in whole if key != f"{PREFIX}memory"}, burstable).admits is True


def test_devices_on_nodes_that_are_not_known_cannot_tell() -> None:
    made = {**machine("16Gi", "16Gi"), "devices": {"v.example/gpu": {"a": None, "b": 1}}}
    run = play(scenario(made, [], {"topologyManagerPolicy": "restricted"}))
    asked = pod("gpu", **{"v.example/gpu": "1"})
    known, unknown = (
        annotations_of(topology_of("n", run.scenario.setup.kubelet, run.state, unplaced=unplaced))
        for unplaced in ((), ("v.example/gpu",))
    )
    assert would_admit(known, asked).admits is True
    assert "NUMA nodes of the free v.example/gpu are not known" in _answer(unknown, asked)
    assert would_admit(unknown, NEXT).admits is True


def test_a_kubelet_that_prefers_near_nodes_needs_the_distances() -> None:
    made = machine("16Gi", "16Gi")
    for one, distances in zip(made["nodes"], ([10, 21], [21, 10]), strict=True):
        one["distances"] = distances
    options = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    run = play(scenario(made, [], options))
    pairs = {(one, other): 80.0 for one in (0, 1) for other in (0, 1)}
    for latencies, admits in ((None, True), (pairs, None)):
        found = topology_of("n", run.scenario.setup.kubelet, run.state, latencies=latencies)
        assert would_admit(annotations_of(found), NEXT).admits is admits


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("devices", {"devices": {"a/b": [{"total": 10**12, "healthy": 0, "free": 0}]}}),
        ("kubelet", {"kubernetes": "nonsense", "topologyManager": "best-effort"}),
        ("kubelet", {"topologyManager": "no such policy"}),
        ("memory", {"nodes": {"0": {"resources": {}}}}),
        ("memory", {"nodes": {}}),
        ("memory", {"nodes": {"7": {"resources": {"memory": {"allocatable": 2**40, "free": 2**40}}}}}),
        ("memory", {"nodes": {str(n): {"resources": {"memory": {"allocatable": 1, "free": 1}}} for n in range(64)}}),
        ("kubelet", {"numaNodes": "0-1023"}),
    ],
)
def test_a_made_up_annotation_is_an_answer_and_no_failure(part: str, value: dict[str, Any]) -> None:
    kubelet, state = _kai("best-effort")
    whole = annotations_of(topology_of("n", kubelet, state))
    key = f"{PREFIX}{part}"
    mixed = {**whole, key: json.dumps({**json.loads(whole[key]), **value})}
    asked = pod("next", **{"a/b": "1"})
    assert would_admit(mixed, asked).admits in (None, False), part


def test_what_is_no_pod_is_an_error() -> None:
    with pytest.raises(InputError, match="containers"):
        would_admit({}, {"metadata": {"name": "x"}, "spec": {"containers": []}})
