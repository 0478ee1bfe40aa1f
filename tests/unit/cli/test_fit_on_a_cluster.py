"""`numaudit fit -f` on a node of a real cluster: who still lives there, and what the node has left as a whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from documentation.schemas import validate
from kubelets.cluster_history import HISTORY, TREE, pod_of, pods
from made_up.scenarios import pod
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.cli.main import call

Capture = pytest.CaptureFixture[str]
_SENTENCE = "deleting pods would not let it in"
_GONE = ("m-big", "e-init", "a-small", "d-two-containers", "i-fraction", "j-burstable", "l-sidecar")


def node_with_stale_entries(folder: Path, *, listed: bool, cgroups: bool) -> Path:
    """The node when after-stale came: m-big and e-init are still in the memory checkpoint, and gone."""
    root = folder / "node"
    shutil.copytree(TREE, root, symlinks=True)
    for name in ("memory_manager_state", "cpu_manager_state"):
        shutil.copy(HISTORY / "2-after" / name, root / "var/lib/kubelet")
    running = [one for one in pods() if one["metadata"]["creationTimestamp"] < "2026-11-22T18:48:00Z"]
    running = [one for one in running if one["metadata"]["name"] not in _GONE]
    (root / "numaudit/pods.json").write_text(json.dumps({"kind": "PodList", "items": running}))
    if not listed:
        (root / "numaudit/pods.json").unlink()
    if not cgroups:
        shutil.rmtree(root / "sys/fs/cgroup/kubepods.slice")
    return root


def manifest(folder: Path, value: dict[str, Any]) -> str:
    (folder / "pod.yaml").write_text(yaml.safe_dump({"metadata": value["metadata"], "spec": value["spec"]}))
    return str(folder / "pod.yaml")


def explained(capsys: Capture, wanted: str, root: Path, *options: str, code: int = 0) -> tuple[dict[str, Any], str]:
    """The document and the text."""
    arguments = ["fit", "-f", wanted, "--root", str(root), *options]
    assert call([*arguments, "-o", "json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    validate(document, "Explanation")
    assert call(arguments) == code
    return document, capsys.readouterr().out


@pytest.mark.parametrize("listed", [True, False])
def test_entries_of_pods_that_are_gone_take_no_room(capsys: Capture, tmp_path: Path, listed: bool) -> None:
    """Absent from /pods, or else without a cgroup: the kubelet admitted after-stale to m-big's node."""
    root = node_with_stale_entries(tmp_path, listed=listed, cgroups=True)
    found, text = explained(capsys, manifest(tmp_path, pod_of("after-stale")), root, "--make-room")
    assert found["admitted"]
    assert found["containers"]["app"]["cpusetMems"] == [3]
    assert found["doubt"] is None
    assert found["makeRoom"]["pods"] == []
    assert _SENTENCE not in text
    assert (found["notAddedUp"] is None) == listed
    assert text.startswith("work/after-stale: fits here" + ("" if listed else " by NUMA rules only") + ": admitted, ")


def test_where_nobody_knows_who_lives_the_first_lines_say_so(capsys: Capture, tmp_path: Path) -> None:
    root = node_with_stale_entries(tmp_path, listed=False, cgroups=False)
    wanted = manifest(tmp_path, pod_of("after-stale"))
    found, text = explained(capsys, wanted, root, "--make-room")
    assert not found["admitted"]
    assert found["doubt"]["decides"]
    assert len(found["doubt"]["pods"]) == len(set(found["doubt"]["pods"])) == 8
    lines = text.splitlines()
    assert lines[0] == ("work/after-stale: unknown: refused if all pods in the checkpoints still exist, else admitted")
    assert lines[1].startswith("8 pods in the checkpoints may be gone, and the kubelet forgets those: ")
    assert "the captured tree has no numaudit/pods.json" in lines[1]
    assert "Making room: unknown, because pods in the checkpoints may be gone (0 sets tried)." in lines
    assert _SENTENCE not in text
    explained(capsys, wanted, root, "--fail-on-reject", code=5)


def test_a_doubt_that_changes_nothing_leaves_the_answer(capsys: Capture, tmp_path: Path) -> None:
    root = node_with_stale_entries(tmp_path, listed=False, cgroups=False)
    found, text = explained(capsys, manifest(tmp_path, pod("huge", "900Gi", cpu="500m")), root, "--make-room")
    assert not found["doubt"]["decides"]
    assert text.splitlines()[0] == "default/huge: refused, rejected-capacity"
    assert text.splitlines()[1].endswith(" The answer is the same without.")
    assert _SENTENCE not in text


def test_where_a_doubt_changes_only_the_place_both_places_are_named(capsys: Capture, tmp_path: Path) -> None:
    root = node_with_stale_entries(tmp_path, listed=False, cgroups=False)
    found, text = explained(capsys, manifest(tmp_path, pod("tiny", "50Mi", cpu="2")), root)
    assert (found["admitted"], found["doubt"]["decides"]) == (True, False)
    places = found["containers"]["app"], found["doubt"]["elsewhere"]["app"]
    assert [(one["cpusetMems"], one["cpus"]) for one in places] == [([2], "4-5"), ([1], "2-3")]
    assert text.splitlines()[1].endswith(
        " It is admitted either way; without them app: 50Mi of memory on node 1; CPUs 2-3; hint 1 (preferred)."
    )


def test_a_node_that_is_out_of_cpus_says_so_and_what_helps(capsys: Capture, tmp_path: Path) -> None:
    found, text = explained(capsys, manifest(tmp_path, pod("wide", "50Mi", cpu="700m")), TREE, "--make-room")
    assert (found["admitted"], found["reason"]) == (False, "OutOfcpu")
    assert found["message"] == "Node didn't have enough resource: cpu, requested: 700, used: 7000, capacity: 7500"
    assert found["shortage"] == {"resource": "cpu", "requested": 700, "used": 7000, "capacity": 7500}
    assert "The node has 7500m of cpu for pods; its pods request 7000m of it, and this one 700m." in text
    assert found["notAddedUp"] is None
    ways = [one["change"] for one in found["admittingChanges"]]
    assert "Requesting 500m of cpu instead of 700m in container app" in ways
    assert any(one.startswith("Deleting pod work/g-huge (frees ") for one in ways)
    (leaving,) = found["makeRoom"]["pods"]
    assert found["makeRoom"]["exact"]
    assert not leaving["returns"]


def test_pods_that_hold_nothing_make_room_as_well(capsys: Capture, tmp_path: Path) -> None:
    root = tmp_path / "node"
    shutil.copytree(TREE, root, symlinks=True)
    listed = json.loads((root / "numaudit/pods.json").read_text())
    agent = next(one for one in listed["items"] if one["metadata"]["namespace"] == "numaudit")
    agent["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    agent["status"]["containerStatuses"][0].get("allocatedResources", {})["cpu"] = "500m"
    (root / "numaudit/pods.json").write_text(json.dumps(listed))
    found, _ = explained(capsys, manifest(tmp_path, pod("wide", "50Mi", cpu="100m")), root, "--make-room")
    assert found["reason"] == "OutOfcpu"
    (leaving,) = found["makeRoom"]["pods"]
    assert leaving["command"].startswith("kubectl delete pod -n numaudit numaudit-")
    assert leaving["holds"] == "500m of cpu and 96Mi of memory"


def test_where_free_devices_are_is_of_interest_only_to_a_pod_that_asks_for_one(capsys: Capture, tmp_path: Path) -> None:
    root = tmp_path / "node"
    shutil.copytree(TREE, root, symlinks=True)
    (root / "var/lib/kubelet/device-plugins").mkdir(exist_ok=True)
    checkpoint = checkpoints.write(DeviceCheckpoint.of(None, {"example.com/nic": ("nic0",)}))
    (root / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint").write_bytes(checkpoint)
    for more, is_said in (({}, False), ({"example.com/nic": "1"}, True)):
        found, _ = explained(capsys, manifest(tmp_path, pod("a", "50Mi", cpu="100m", **more)), root)
        assert any("on which nodes free devices are" in one for one in found["notices"]) is is_said


def test_storage_is_left_out_where_nobody_knows_how_much_there_is(capsys: Capture, tmp_path: Path) -> None:
    wanted = manifest(tmp_path, pod("a", "50Mi", cpu="100m", **{"ephemeral-storage": "1Gi"}))
    found, text = explained(capsys, wanted, TREE)
    assert found["notAddedUp"] == "how much ephemeral storage the node has is not known"
    assert text.startswith("default/a: fits here by NUMA rules only: admitted, ")
