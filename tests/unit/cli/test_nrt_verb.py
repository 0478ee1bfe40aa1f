"""`numaudit nrt`: the object of captured nodes, whole, and only what changed when it watches."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from clusters.placement_consumer import read_placement
from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from numaudit.checkpoints.formats import device as device_checkpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint, PodDevices
from numaudit.cli.main import call
from numaudit.kubelet.proto.podresources_pb2 import (
    AllocatableResourcesResponse,
    ContainerDevices,
    NUMANode,
    TopologyInfo,
)

Capture = pytest.CaptureFixture[str]
NODE = FIXTURES / "misaligned-node"
HELD = "default/gu-sidecar-numanode"


@pytest.fixture
def tree() -> Iterator[Path]:
    with lent(NODE) as root:
        yield root


def test_the_object_of_a_captured_node_is_known(capsys: Capture, matches_golden: Callable[[str, str], None]) -> None:
    outs = []
    for output in ("yaml", "json"):
        assert call(["nrt", "--root", str(NODE), "-o", output]) == 0
        out, err = capsys.readouterr()
        assert err == "numaudit: the host's name is not known, so metadata.name is 'unknown'\n"
        outs.append(out)
    matches_golden("tests/golden/nrt.yaml", outs[0])
    assert yaml.safe_load(outs[0]) == json.loads(outs[1])


@pytest.mark.parametrize(
    ("host", "containers"),
    [
        ("misaligned-node", 8),
        ("kubernetes-four-nodes", 8),
        ("kubernetes-cluster", 11),
        ("hugepages-short", 8),
        ("page-sizes", 8),
    ],
)
def test_the_scheduler_reads_where_each_container_of_a_captured_node_is(
    capsys: Capture, host: str, containers: int
) -> None:
    """The names say what was placed; the checkpoint says where."""
    root = FIXTURES / host
    assert call(["nrt", "--root", str(root), "-o", "json"]) == 0
    pods = json.loads((root / "numaudit/pods.json").read_text())["items"]
    found = read_placement(json.loads(capsys.readouterr().out), pods)
    assert found is not None
    assert len(found) == containers
    entries = json.loads((root / "var/lib/kubelet/memory_manager_state").read_text())["entries"]
    promised = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"], name): block["numaAffinity"]
        for pod in pods
        for name, blocks in entries.get(pod["metadata"]["uid"], {}).items()
        for block in blocks
    }
    assert {name: promised[name] for name in found} == {name: [node] for name, node in found.items()}


def test_it_has_the_name_of_the_host_that_was_captured(capsys: Capture, tree: Path) -> None:
    (tree / "capture.json").write_text('{"host": "Worker-1", "takenAt": "2026-01-01T00:00:00Z"}')
    assert call(["nrt", "--root", str(tree), "-o", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["metadata"]["name"] == "worker-1"
    assert err == ""


NIC, GPU = "vendor.example/nic", "vendor.example/gpu"


@pytest.mark.parametrize("answer", ["whole", "without a device", "none"])
def test_devices_are_in_the_zones_that_the_kubelet_names_and_in_none_where_it_does_not(
    capsys: Capture, tree: Path, answer: str
) -> None:
    """One nic is in use, so the checkpoint has its node; the answer has those of the others. A gpu has no node."""
    held = PodDevices("no-such-pod", "app", NIC, {1: ("a",)}, None)
    checkpoint = DeviceCheckpoint.of((held,), {NIC: ("a", "b", "c"), GPU: ("g",)})
    path = tree / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(device_checkpoint.write(checkpoint))
    nics = {"a": (1,), "b": (2,), "c": (2, 3)}
    if answer == "without a device":
        del nics["b"]
    entries = [(NIC, id_, node) for id_, nodes in nics.items() for node in nodes] + [(GPU, "g", None)]
    allocatable = tree / "numaudit/podresources-allocatable.pb"
    allocatable.write_bytes(
        AllocatableResourcesResponse(devices=itertools.starmap(_device, entries)).SerializeToString()
    )
    if answer == "none":
        allocatable.unlink()
    assert call(["nrt", "--root", str(tree), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    in_zones = {
        zone["name"]: int(one["allocatable"])
        for zone in found["zones"]
        for one in zone["resources"]
        if one["name"] == NIC
    }
    annotation = json.loads(found["metadata"]["annotations"]["numaudit.io/devices"])
    if answer == "whole":
        assert in_zones == {"node-1": 1, "node-2": 2, "node-3": 1}
        assert "unplaced" not in annotation
    else:
        assert in_zones == {}
        assert annotation["unplaced"] == ([NIC] if answer == "without a device" else [GPU, NIC])
    assert sum(one["total"] for one in annotation["devices"][NIC]) == 3


@pytest.mark.parametrize(("held_on", "free_on"), [(1, 99), (99, 1), (99, 99)])
def test_a_device_on_a_node_that_the_machine_lacks_makes_no_zone(
    capsys: Capture, tree: Path, held_on: int, free_on: int
) -> None:
    held = PodDevices("no-such-pod", "app", NIC, {held_on: ("a",)}, None)
    path = tree / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(device_checkpoint.write(DeviceCheckpoint.of((held,), {NIC: ("a", "b")})))
    entries = [(NIC, "b", free_on)]
    (tree / "numaudit/podresources-allocatable.pb").write_bytes(
        AllocatableResourcesResponse(devices=itertools.starmap(_device, entries)).SerializeToString()
    )
    assert call(["nrt", "--root", str(tree), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [zone["name"] for zone in found["zones"]] == ["node-0", "node-1", "node-2", "node-3"]
    assert NIC in json.loads(found["metadata"]["annotations"]["numaudit.io/devices"])["unplaced"]
    assert "99" not in found["metadata"]["annotations"]["numaudit.io/devices"]
    pod = tree / "pod.yaml"
    container = f"{{name: b, resources: {{limits: {{cpu: 1, memory: 1Mi, {NIC}: 1}}}}}}"
    pod.write_text(f"{{metadata: {{name: a}}, spec: {{containers: [{container}]}}}}")
    call(["fit", "-f", str(pod), "--root", str(tree)])
    assert f"devices ({NIC}) are on NUMA nodes that this machine lacks" in capsys.readouterr().err


def _device(resource: str, id_: str, node: int | None) -> ContainerDevices:
    topology = None if node is None else TopologyInfo(nodes=[NUMANode(ID=node)])
    return ContainerDevices(resource_name=resource, device_ids=[id_], topology=topology)


@pytest.mark.parametrize("host", ["single-node-hybrid", "eight-nodes"])
def test_a_host_without_a_kubelet_is_a_normal_answer(capsys: Capture, host: str) -> None:
    assert call(["nrt", "--root", str(FIXTURES / host)]) == 3
    assert "no configuration of a kubelet was found" in capsys.readouterr().err


def test_a_missing_checkpoint_is_no_node_without_promises(capsys: Capture, tree: Path) -> None:
    (tree / "var/lib/kubelet/memory_manager_state").unlink()
    assert call(["nrt", "--root", str(tree)]) == 3
    assert "its memory_manager_state under" in capsys.readouterr().err


def _without(pods: str, name: str) -> str:
    found = json.loads(pods)
    found["items"] = [
        one for one in found["items"] if f"{one['metadata']['namespace']}/{one['metadata']['name']}" != name
    ]
    return json.dumps(found)
