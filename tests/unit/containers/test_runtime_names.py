"""Docker and Podman containers carry the names that their runtimes gave them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from numaudit.capture.tree import capture
from numaudit.cli.main import call
from numaudit.containers.inventory import Inventory
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host

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
