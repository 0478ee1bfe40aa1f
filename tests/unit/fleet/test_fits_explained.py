"""`fleet --fits` says of each node what `fit -f` says on it, or that it cannot tell and why."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from kubelets.random_trees import Json, kubelets, random_pod, write
from monitoring.fleet_nodes import Answering, answering, page_of_tree, samples
from numaudit.errors import InputError, Unavailable
from numaudit.fleet.fits import Question
from numaudit.fleet.forecast import ask_maps, forecast
from numaudit.fleet.scope import Scope
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.node_here import state_of
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.api import KubeletHangs, NodeState, Pod, admit, read_pod
from numaudit.scenario.values import Setup

SEED, MADE, PODS = 20261123, 17, 200
CAPTURED = ("kubernetes-four-nodes", "kubernetes-cluster", "misaligned-node")
REASONS = (
    "agents do not export which of vendor.com/nic are taken",
    "agents do not export how much ephemeral storage",
    "full-pcpus-only, and agents do not export cores",
    "take CPUs of several NUMA nodes",
    "memory of containers that are gone comes free",
    "the Memory Manager's policy is None",
)
"""Why it may be that nothing can be told; each has to occur, and no other."""
LEAST_TOLD = 0.8


class Cluster:
    """Twenty nodes, and a server that has scraped each of them."""

    def __init__(self, trees: Mapping[str, Path]) -> None:
        self.nodes: dict[str, tuple[Setup, NodeState]] = {}
        for name, root in trees.items():
            here = node_on(Host.under(root), AskedKubelet())
            self.nodes[name] = here.setup, state_of(here.setup, here.files, here.pods, here.storage)
        self.server: Answering = answering(
            one for name, root in trees.items() for one in samples(page_of_tree(root), name)
        )

    def explained(self, name: str, pod: Pod) -> bool | None:
        """Is the pod admitted there? None = it is larger than the empty node, whose size is not exported."""
        setup, state = self.nodes[name]
        try:
            admission = admit(setup.kubelet, state, pod)
            short = None if admission.rejection is None else admission.rejection.shortage
            return None if short is not None and short.used is None else admission.admitted
        except (InputError, KubeletHangs):  # a kubelet would crash for it
            return False


@pytest.fixture(scope="module")
def cluster(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    folder = tmp_path_factory.mktemp("trees")
    trees = {name: fixtures / name for name in CAPTURED}
    for number, made in enumerate(kubelets(SEED, MADE)):
        name = f"made-{number}"
        trees[name] = write(fixtures / CAPTURED[0], folder / name, made, SEED + number)
    return Cluster(trees)


def _pods() -> list[Json]:
    chance = random.Random(SEED)
    return [random_pod(chance, f"new-{number}") for number in range(PODS)]


def test_of_200_pods_on_20_nodes_no_answer_differs_from_explain(cluster: Cluster) -> None:
    told: Counter[tuple[str, bool]] = Counter()
    reasons: Counter[str] = Counter()
    wrong = []
    for manifest in _pods():
        pod = read_pod(manifest)
        question = Question(pod, count=1, top=0)
        try:
            nodes = forecast(cluster.server, ask_maps(cluster.server, Scope()), question).nodes
        except Unavailable as every:
            reasons.update(one for one in REASONS if one in str(every))
            continue
        assert {one.node for one in nodes} == cluster.nodes.keys()
        for one in nodes:
            if one.state == "unknown":
                (reason,) = (text for text in REASONS if text in (one.message or ""))
                reasons[reason] += 1
                continue
            admitted = cluster.explained(one.node, pod)
            if admitted is None and one.state == "unmanaged":
                continue
            told[one.state, bool(admitted)] += 1
            if bool(admitted) != (one.state in ("fits", "unmanaged")):
                wrong.append((one, manifest))
    assert wrong == []
    assert set(reasons) == set(REASONS)
    assert told.total() >= LEAST_TOLD * PODS * len(cluster.nodes)
    assert min(told["fits", True], told["refused", False], told["unmanaged", True]) > 50


def _again(pod: Pod, number: int) -> Pod:
    return replace(pod, uid=f"new {number}")


def test_nodes_take_as_many_pods_as_the_library_admits_one_after_the_other(cluster: Cluster) -> None:
    compared = 0
    for manifest in _pods()[:40]:
        pod = read_pod(manifest)
        try:
            nodes = forecast(cluster.server, ask_maps(cluster.server, Scope()), Question(pod, top=0)).nodes
        except Unavailable:
            continue
        for one in nodes:
            if one.state != "fits":
                continue
            setup, state = cluster.nodes[one.node]
            for number in range(one.fits or 0):
                found = admit(setup.kubelet, state, _again(pod, number))
                assert found.admitted, (one, number)
                state = found.state
            if not one.may_fit_more:
                compared += 1
                assert not admit(setup.kubelet, state, _again(pod, -1)).admitted, one
    assert compared > 50
