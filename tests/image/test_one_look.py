"""A report without an install: the image under runc with the mounts, namespaces and rights of a one-off container.

What each gives: kubectl, pkg/cmd/debug/profiles.go, and the documentation of `docker run`. The host's root is a folder
with the real /proc and /sys of this machine, and a captured kubelet's files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from confinement import image
from confinement.agent import this_node
from fixture_trees import unpack
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine

DEFAULT = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE"),
        *("NET_RAW", "SYS_CHROOT", "MKNOD", "AUDIT_WRITE", "SETFCAP"),
    )
)
"""Of containerd and Docker. Source: containerd, pkg/oci/spec.go (defaultUnixCaps)."""
_SECONDS = 300


@dataclass(frozen=True)
class Way:
    """Rights of a container."""

    privileged: bool
    host_is_readonly: bool = False
    host_network: bool = True


WAYS = {
    "kubectl debug --profile=sysadmin": Way(privileged=True),
    "kubectl debug --profile=general": Way(privileged=False),
    "docker run --privileged": Way(privileged=True, host_is_readonly=True, host_network=False),
    "kubectl numaudit --debug": Way(privileged=True, host_is_readonly=True, host_network=False),
}


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubelet's folder, whose files only their owner may read, as on a node."""
    folder = tmp_path_factory.mktemp("kubelet") / "kubelet"
    shutil.copytree(unpack() / "misaligned-node/var/lib/kubelet", folder)
    for path in folder.rglob("*_state"):
        path.chmod(0o600)
    return folder


def look(root: Path, kubelet: Path, way: Way, *words: str) -> subprocess.CompletedProcess[str]:
    """Run numaudit in such a container."""
    with _bundle(kubelet, way, words) as folder:
        layer = f"lowerdir={root},upperdir={folder}/upper,workdir={folder}/work"
        script = (
            f"mount -t overlay overlay -o {layer} {folder}/rootfs && "
            f"exec runc --root {folder}/state run --bundle {folder} {folder.name}"
        )
        command = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )


@contextmanager
def _bundle(kubelet: Path, way: Way, words: tuple[str, ...]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/run", prefix="numaudit-look-") as name:
        folder = Path(name)
        for one in ("rootfs", "upper", "work", "host/proc", "host/sys", "host/etc", "host/var/lib/kubelet"):
            (folder / one).mkdir(parents=True)
        (folder / "host/etc/hostname").write_text("worker-7\n")
        subprocess.run(["runc", "spec"], cwd=folder, check=True)
        spec = json.loads((folder / "config.json").read_text())
        _change(spec, folder, kubelet, way, words)
        (folder / "config.json").write_text(json.dumps(spec))
        try:
            yield folder
        finally:
            delete = ["runc", "--root", str(folder / "state"), "delete", "--force", folder.name]
            subprocess.run(delete, stderr=subprocess.DEVNULL, check=False)


def _change(spec: dict[str, Any], folder: Path, kubelet: Path, way: Way, words: tuple[str, ...]) -> None:
    capabilities = this_node().capabilities if way.privileged else DEFAULT
    sets = ("bounding", "effective", "permitted")
    own = image.config()["config"]
    spec["root"] = {"path": str(folder / "rootfs"), "readonly": False}
    spec["process"] |= {"args": ["numaudit", *words], "env": own["Env"], "terminal": False, "cwd": "/"}
    spec["process"]["capabilities"] = {one: [*capabilities] for one in sets}
    spec["process"]["noNewPrivileges"] = False
    namespaces = ["mount", "uts", *([] if way.host_network else ["network", "ipc"])]
    spec["linux"]["namespaces"] = [{"type": one} for one in (*namespaces, *([] if way.privileged else ["cgroup"]))]
    if way.privileged:
        spec["linux"] |= {"maskedPaths": [], "readonlyPaths": []}
    binds = ["rbind", "ro"] if way.host_is_readonly else ["rbind"]
    places = {"": folder / "host", "/proc": Path("/proc"), "/sys": Path("/sys"), "/var/lib/kubelet": kubelet}
    spec["mounts"] += [
        {"destination": f"/host{at}", "source": str(source), "type": "bind", "options": binds}
        for at, source in places.items()
    ]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


def test_one_look_reports_on_the_host_and_its_kubelet(root: Path, kubelet: Path, way: Way) -> None:
    done = look(root, kubelet, way, "report", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    here = read_machine(Host())
    assert found["host"] == "worker-7"
    assert [one["numaNode"] for one in found["nodes"]] == [one.id for one in here.nodes]
    assert [one["totalBytes"] for one in found["nodes"]] == [one.memory for one in here.nodes]
    assert {one["file"]: one["problem"] for one in found["checkpoints"]}["memory_manager_state"] is None
    assert found["memoryManager"] is not None
    groups = [one["path"] for one in found["containers"]]
    assert groups, "the host's groups, and not this container's alone"
    assert {one["source"]: one["state"] for one in found["sources"]}["residency"] == "ok"


def test_one_look_says_what_it_could_not_read(root: Path, kubelet: Path, way: Way) -> None:
    done = look(root, kubelet, way, "doctor", "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert checks["residency"]["state"] == "ok"
    assert checks["kubelet"]["state"] == "ok"
    lacking = {name: one for name, one in checks.items() if one["state"] not in ("ok", "absent")}
    assert all(one["detail"] for one in lacking.values())
    program = checks["bpf cpu_time"]
    if not way.privileged:
        assert program["state"] != "ok"
        assert "run as root, or with the capabilities BPF and PERFMON" in f"{program['detail']} {program['hint']}"


def test_the_checkpoints_are_verified_in_one_look(root: Path, kubelet: Path, way: Way) -> None:
    done = look(root, kubelet, way, "state", "verify", "-o", "json")
    assert done.returncode in (0, 1), done.stderr
    files = {Path(one["file"]).name: one["checkpoint"] for one in json.loads(done.stdout)["items"]}
    assert files["memory_manager_state"] == "memory_manager_state"
