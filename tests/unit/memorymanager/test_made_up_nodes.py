"""Whole made-up nodes, observed with sources missing, damaged or at odds with each other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from hosts.node_tree import MIB, NodeTree, Pod
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.cli.observe.report_work import observe_whole
from numaudit.containermanager.memory.state import Block, MemoryState, charge, default_machine_state
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.report.values import ContainerReport, Report

Promises = Mapping[tuple[str, str], tuple[Block, ...]]
ON_0 = (Block((0,), "memory", 64 * MIB),)


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    return NodeTree(tmp_path / "tree")


def promise(tree: NodeTree, promises: Promises, policy: str = "Static") -> Path:
    """Write the kubelet's memory checkpoint, sealed as the kubelet seals it."""
    machine = default_machine_state(read_machine(Host.under(tree.root)), {})
    entries: dict[str, dict[str, tuple[Block, ...]]] = {}
    for (uid, name), blocks in promises.items():
        entries.setdefault(uid, {})[name] = blocks
        for block in blocks:
            if set(block.numa_affinity or ()) <= machine.keys():
                machine = charge(machine, block.numa_affinity or (), block.type, block.size)
    state = MemoryState(machine, entries) if policy == "Static" else MemoryState({})
    file = tree.root / "var/lib/kubelet/memory_manager_state"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(checkpoints.write(MemoryCheckpoint.of(policy, state)))
    return file


def list_pods(tree: NodeTree, *pods: tuple[Pod, Mapping[str, str]]) -> None:
    """The kubelet's /pods: each with its containers and their ids."""
    items = [
        {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "spec": {"containers": [{"name": name} for name in ids]},
            "status": {
                "phase": "Running",
                "qosClass": "Guaranteed",
                "containerStatuses": [
                    {"name": name, "containerID": f"containerd://{id_}", "state": {"running": {}}}
                    for name, id_ in ids.items()
                ],
            },
        }
        for pod, ids in pods
    ]
    folder = tree.root / "numaudit"
    folder.mkdir(exist_ok=True)
    (folder / "pods.json").write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}))


def report_of(tree: NodeTree) -> Report:
    return observe_whole(Observer.of(Host.under(tree.root)), None, None).report


def judged(report: Report) -> dict[str, str]:
    """Container name (or id, where it has none) -> verdict."""
    return {
        one.container or (one.container_id or "")[:8]: one.verdict.name
        for one in report.containers
        if one.pod_uid is not None and one.verdict is not None
    }


def only(report: Report) -> ContainerReport:
    (one,) = [one for one in report.containers if one.kind == "container"]
    return one


def source(report: Report, name: str) -> str:
    (one,) = [one for one in report.sources if one.source == name]
    return one.state


def write(tree: NodeTree, path: str, file: str, text: str) -> None:
    (tree.root / f"sys/fs/cgroup{path}" / file).write_text(text)


def id_of(path: str) -> str:
    return path.rpartition("-")[2].removesuffix(".scope")


def test_the_checkpoint_alone_is_enough_for_verdicts_and_outcomes(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    tree.container(pod, "db", anon=(30 * MIB, 0))
    far = tree.container(pod, "spilling", anon=(20 * MIB, 20 * MIB))
    drifting = tree.container(pod, "drifting", anon=(0, 30 * MIB))
    write(tree, drifting, "cpuset.mems.effective", "1\n")
    tree.container(pod, "new", anon=(30 * MIB, 0))
    promise(tree, {(pod.uid, name): ON_0 for name in ("db", "spilling", "drifting")})
    report = report_of(tree)
    assert judged(report) == {"db": "aligned", "spilling": "spilled", "drifting": "drifted", "new": "unmanaged"}
    outcomes = {one.container: one.hint_outcome for one in report.containers if one.hint_outcome}
    assert {name: (one.outcome, one.source) for name, one in outcomes.items()} == {
        "db": ("aligned-single", "re-derived"),
        "spilling": ("aligned-single", "re-derived"),
        "drifting": ("aligned-single", "re-derived"),
        "new": ("not-managed", "re-derived"),
    }
    for name in ("pods", "podresources", "kubelet log", "kubelet configuration", "cpu checkpoint"):
        assert source(report, name) == "unavailable"
    assert far in {one.path for one in report.containers}


def test_cri_o_containers_are_judged_and_their_monitors_and_sandboxes_are_not(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    path = tree.container(pod, "db", anon=(30 * MIB, 0))
    cgroups = tree.root / "sys/fs/cgroup"
    id_ = id_of(path)
    (cgroups / path[1:]).rename(cgroups / pod.slice[1:] / f"crio-{id_}.scope")
    for name in (f"crio-conmon-{id_}.scope", f"crio-{'b' * 64}.scope"):
        shutil.copytree(cgroups / pod.slice[1:] / f"crio-{id_}.scope", cgroups / pod.slice[1:] / name)
        (cgroups / pod.slice[1:] / name / "cgroup.procs").write_text("")
    promise(tree, {(pod.uid, "db"): ON_0})
    list_pods(tree, (pod, {"db": id_}))
    report = report_of(tree)
    assert judged(report) == {"db": "aligned"}
    assert {one.kind for one in report.containers if one.pod_uid} == {"container", "scope", "sandbox", "pod"}


def test_names_that_only_the_pods_status_has_are_enough(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    path = tree.container(pod, "db", anon=(30 * MIB, 0))
    for file in (tree.root / "proc").glob("*/mountinfo"):
        file.unlink()
    promise(tree, {(pod.uid, "db"): ON_0})
    assert judged(report_of(tree)) == {id_of(path)[:8]: "unknown"}
    list_pods(tree, (pod, {"db": id_of(path)}))
    assert judged(report_of(tree)) == {"db": "aligned"}


def test_two_instances_of_one_container_are_judged_each_on_its_own(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    tree.container(pod, "db", anon=(30 * MIB, 0))
    tree.container(pod, "db", incarnation=1, anon=(1 * MIB, 30 * MIB))
    promise(tree, {(pod.uid, "db"): ON_0})
    found = [one.verdict.name for one in report_of(tree).containers if one.container == "db" and one.verdict]
    assert sorted(found) == ["aligned", "spilled"]


def test_containers_of_one_name_in_two_pods_have_their_own_promises(tree: NodeTree) -> None:
    near, far = tree.pod("shop", "near"), tree.pod("shop", "far")
    tree.container(near, "db", anon=(30 * MIB, 0))
    tree.container(far, "db", anon=(30 * MIB, 0))
    promise(tree, {(near.uid, "db"): ON_0, (far.uid, "db"): (Block((1,), "memory", 64 * MIB),)})
    found = {one.pod: one.verdict.name for one in report_of(tree).containers if one.container and one.verdict}
    assert found == {"near": "aligned", "far": "drifted"}


def test_without_any_source_of_promises_the_verdict_is_unknown_and_says_what_is_missing(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    path = tree.container(pod, "db", anon=(30 * MIB, 0))
    list_pods(tree, (pod, {"db": id_of(path)}))
    report = report_of(tree)
    one = only(report)
    assert one.verdict is not None
    assert (one.verdict.name, one.hint_outcome) == ("unknown", None)
    assert "its promise is unknown" in one.verdict.reason
    assert source(report, "memory checkpoint") == "unavailable"


def test_under_policy_none_nothing_is_managed(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    tree.container(pod, "db", anon=(0, 30 * MIB))
    promise(tree, {}, policy="None")
    one = only(report_of(tree))
    assert one.verdict is not None
    assert one.verdict.reason == "the kubelet's Memory Manager policy is None"
    assert (one.verdict.name, one.intended and str(one.intended.memory_nodes)) == ("unmanaged", "")


@pytest.mark.parametrize("damage", [b"", b"{", b"\x00" * 100])
def test_a_torn_checkpoint_at_the_first_tick_is_named_and_nothing_is_guessed(tree: NodeTree, damage: bytes) -> None:
    pod = tree.pod("shop", "web")
    tree.container(pod, "db", anon=(30 * MIB, 0))
    promise(tree, {(pod.uid, "db"): ON_0}).write_bytes(damage)
    report = report_of(tree)
    assert judged(report) == {"db": "unknown"}
    assert {"checkpoint-damaged", "restart-unsafe"} <= {one.name for one in report.findings}


def test_a_promise_of_a_node_that_is_not_there_is_drift_and_stops_the_next_start(tree: NodeTree) -> None:
    pod = tree.pod("shop", "web")
    tree.container(pod, "db", anon=(30 * MIB, 0))
    promise(tree, {(pod.uid, "db"): (Block((9,), "memory", 64 * MIB),)})
    report = report_of(tree)
    assert judged(report) == {"db": "drifted"}
    (unsafe,) = [one for one in report.findings if one.name == "restart-unsafe"]
    assert "assignment-to-missing-node" in unsafe.message


def test_a_pod_that_comes_and_goes_between_two_ticks_leaves_a_stale_entry_behind(tree: NodeTree) -> None:
    stays, goes = tree.pod("shop", "stays"), tree.pod("shop", "goes")
    tree.container(stays, "db", anon=(30 * MIB, 0))
    gone = tree.container(goes, "db", anon=(30 * MIB, 0))
    promise(tree, {(stays.uid, "db"): ON_0, (goes.uid, "db"): ON_0})
    observer = Observer.of(Host.under(tree.root))
    assert [one.name for one in observe_whole(observer, None, None).report.findings] == []
    tree.kill(gone)
    tree.remove(goes)
    (stale,) = observe_whole(observer, None, None).report.findings
    assert (stale.name, stale.pod_uid, stale.container_id) == ("stale", goes.uid, None)


@pytest.mark.parametrize(
    ("version", "starts", "findings"), [("v1.32.4", "yes", []), ("v1.31.9", "no", ["restart-unsafe"])]
)
def test_a_split_that_drifted_on_release_stops_a_kubelet_before_1_32_only(
    tree: NodeTree, version: str, starts: str, findings: list[str], fixtures: Path
) -> None:
    """kubernetes/kubernetes#113130, with the version that the kubelet itself gives."""
    for node in (0, 1):
        meminfo = tree.root / f"sys/devices/system/node/node{node}/meminfo"
        meminfo.write_text(f"Node {node} MemTotal: {237296943104 // 1024} kB\nNode {node} MemFree: 1024 kB\n")
    kubelet, answers = tree.root / "var/lib/kubelet", tree.root / "numaudit"
    kubelet.mkdir(parents=True)
    answers.mkdir()
    shutil.copy(fixtures / "memory-manager-state/cross-node-release/memory_manager_state", kubelet)
    (answers / "kubelet-metrics.txt").write_text(f'kubernetes_build_info{{git_version="{version}"}} 1\n')
    report = report_of(tree)
    (memory,) = [one for one in report.checkpoints if one.file == "memory_manager_state"]
    assert memory.starts_now == starts
    assert "cross-node-release-drift" in [one.name for one in memory.findings]
    assert [one.name for one in report.findings] == findings
