"""Names of containers: by their mounts, and as Docker and Podman gave them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.capture.tree import capture
from numaudit.cli.main import call
from numaudit.containers.container_names import MountFacts, parse_mountinfo
from numaudit.containers.inventory import Inventory
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host

CapturedHost = Callable[[str], Host]
UID = "01234567-89ab-4cde-8f01-23456789abcd"
SANDBOX = "0123456789abcdef" * 4
OTHER = "f" * 64


def _line(root: str, point: str) -> str:
    return f"251 242 0:34 {root} {point} rw,relatime master:2 - tmpfs tmpfs rw\n"


def test_a_real_container_of_containerd_has_its_name_and_sandbox(captured: CapturedHost) -> None:
    uid = "8e193a43d4362c1386fed20b209f1e29"
    text = (captured("kubernetes-four-nodes").proc / "602/mountinfo").read_text()
    sandbox = "8fb633904dac9cd8a1a0332e77a7b12606c3f891c84f9e1f6a0de4b2e5965cfe"
    assert parse_mountinfo(text, uid) == MountFacts("app", sandbox)
    assert parse_mountinfo(text, UID) == MountFacts(None, sandbox)


def test_the_kubelets_folder_may_be_anywhere_or_a_file_system_of_its_own() -> None:
    for root in ("/var/lib/kubelet", "", "/data/k8s/kubelet"):
        line = _line(f"{root}/pods/{UID}/containers/my-app.1/0cd14b1c", "/dev/termination-log")
        assert parse_mountinfo(line, UID).container_name == "my-app.1"


def test_the_sandbox_is_found_for_every_runtime() -> None:
    for root in (
        f"/io.containerd.grpc.v1.cri/sandboxes/{SANDBOX}/hostname",
        f"/containers/storage/overlay-containers/{SANDBOX}/userdata/hostname",
        f"/var/lib/docker/containers/{SANDBOX}/hostname",
    ):
        assert parse_mountinfo(_line(root, "/etc/hostname"), UID).sandbox_id == SANDBOX


def test_two_names_are_no_name() -> None:
    text = "".join(_line(f"/pods/{UID}/containers/{name}/0cd14b1c", f"/mnt/{name}") for name in ("a", "b"))
    assert parse_mountinfo(text, UID) == MountFacts(None, None)


def test_two_sandboxes_are_none() -> None:
    text = _line(f"/sandboxes/{SANDBOX}/hostname", "/etc/hostname") + _line(f"/sandboxes/{OTHER}/hosts", "/etc/hosts")
    assert parse_mountinfo(text, UID).sandbox_id is None


def test_a_folder_that_a_container_mounts_elsewhere_is_no_sandbox() -> None:
    assert parse_mountinfo(_line(f"/containers/{SANDBOX}/hostname", "/host/etc/hostname"), UID).sandbox_id is None


def test_another_pods_folder_gives_no_name() -> None:
    other = UID.replace("0", "1")
    text = _line(f"/pods/{other}/containers/spy/0cd14b1c", "/a") + _line(f"/pods/{UID}/containers/app/0cd1", "/b")
    assert parse_mountinfo(text, UID).container_name == "app"


def test_the_volumes_of_a_pod_are_no_containers() -> None:
    assert parse_mountinfo(_line(f"/pods/{UID}/volumes/kubernetes.io~secret/token", "/var/run"), UID) == MountFacts(
        None, None
    )
    assert parse_mountinfo(_line(f"/pods/{UID}/containers/app", "/x"), UID).container_name is None


@given(st.text(max_size=200))
def test_any_mountinfo_text_is_read(text: str) -> None:
    facts = parse_mountinfo(text, UID)
    assert facts.container_name is None or UID in text


DOCKER, INNER, PODMAN = "d1" * 32, "f1" * 32, "e1" * 32
SECRET = "PASSWORD=hunter2"
CONFIG = "var/lib/docker/containers/{}/config.v2.json"
STORAGE = "var/lib/containers/storage/overlay-containers/containers.json"


@pytest.fixture
def tree(fixtures: Path, tmp_path: Path) -> Path:
    """A host with containers of CRI-O, Docker and Podman; the state of the latter two as they write it."""
    tree = shutil.copytree(fixtures / "systemd-crio", tmp_path / "tree", symlinks=True)
    for id_, name in ((DOCKER, "/kind-worker"), (INNER, "/minikube")):
        file = tree / CONFIG.format(id_)
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"ID": id_, "Name": name, "Config": {"Env": [SECRET]}, "State": {"Pid": 1}}))
    (tree / STORAGE).parent.mkdir(parents=True)
    described = {"id": PODMAN, "names": ["web"], "metadata": SECRET, "layer": "x", "created": "2026-01-01T00:00:00Z"}
    (tree / STORAGE).write_text(json.dumps([described, {"id": "0" * 64}]))
    return tree


def _names(tree: Path) -> dict[str, str | None]:
    """By container id."""
    host = Host.under(tree)
    found = Inventory(host, find_hierarchies(host)).take().containers
    return {one.container_id: one.name for one in found if one.kind == "container" and one.container_id is not None}


def test_containers_of_docker_and_podman_have_their_names_and_pods_keep_theirs(tree: Path) -> None:
    names = _names(tree)
    assert (names[DOCKER], names[INNER], names[PODMAN]) == ("kind-worker", "minikube", "web")
    assert names["a1" * 32] == "nginx"


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"Name": 5}', b'[{"id": 1}]', b"\xff", b"[" * 5000])
def test_state_that_is_not_understood_gives_no_names(tree: Path, damage: bytes) -> None:
    (tree / STORAGE).write_bytes(damage)
    (tree / CONFIG.format(DOCKER)).write_bytes(damage)
    names = _names(tree)
    assert (names[DOCKER], names[INNER], names[PODMAN]) == (None, "minikube", None)


def test_a_container_is_shown_and_found_by_its_name(capsys: pytest.CaptureFixture[str], tree: Path) -> None:
    for which in ("kind-worker", "docker/kind-worker", "kind-*"):
        assert call(["report", which, "--root", str(tree), "-o", "json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["containers"]
        assert (found["container"], found["containerId"], found["pod"]) == ("kind-worker", DOCKER, None)
    assert call(["report", "podman/web", "--root", str(tree)]) == 0
    assert "\npodman/web " in capsys.readouterr().out


def test_a_capture_keeps_the_names_and_nothing_else_of_their_files(tree: Path, tmp_path: Path) -> None:
    (tree / CONFIG.format(INNER)).write_text("{")
    summary = capture(Host.under(tree), tmp_path / "copy")
    assert _names(tmp_path / "copy") == _names(tree)
    assert json.loads((tmp_path / "copy" / CONFIG.format(DOCKER)).read_text()) == {"Name": "/kind-worker"}
    assert all(SECRET.encode() not in file.read_bytes() for file in (tmp_path / "copy").rglob("*") if file.is_file())
    assert [one.what for one in summary.unread] == [f"/{CONFIG.format(INNER)}"]
