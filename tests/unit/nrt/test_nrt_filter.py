"""The filter answers as the node's own admission does, or says that it cannot tell."""

from __future__ import annotations

import os
from collections import Counter
from random import Random

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
from numaudit.nrt.resource_topology import annotations_of

ROUNDS = int(os.environ.get("FILTER_ROUNDS", "150"))
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


NEXT = pod("next")


def _answer(annotations: dict[str, str], asked: Plain) -> str:
    found = would_admit(annotations, asked)
    assert found.admits is None, found
    return found.reason or ""


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
