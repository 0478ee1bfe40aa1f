"""The agent's pod under runc: on this host or in a guest, as the kubelet and containerd would start it on a node.

Its volumes are folders of the test, but for the kernel's own (cgroups, tracefs). The mounts that stand for the
runtime's work (the container's root, memory for emptyDir) are in a mount namespace of their own, and end with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import json
import os
import platform
import re
import shlex
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from clusters import manifests
from clusters.pod_bundle import Image, Json, Node, oci_config, volumes_of
from processes.agent_process import PATIENCE, Agent, eventually

CHECKOUT = Path(__file__).parents[3]
SECCOMP = CHECKOUT / "tests/fixtures/seccomp"
SECCOMP_NOW, SECCOMP_BEFORE_CAP_BPF = "moby-26.1.5", "moby-20.10.24"
CAPABILITIES = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
        *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
        *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
        *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
        *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
        "CHECKPOINT_RESTORE",
    )
)
"""By number. Source: include/uapi/linux/capability.h."""
_SCRATCH = "/run"
"""Not /tmp: in a guest that is an overlay, on which no other overlay can write."""
_TRACEFS = "/sys/kernel/tracing"
_CLONE_NEWNET = 0x40000000


def this_node(seccomp: str = SECCOMP_NOW) -> Node:
    """The machine that the test runs on, with a default seccomp profile by its name."""
    profile = json.loads((SECCOMP / f"{seccomp}.json").read_text())
    is_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    fields = {"spec.nodeName": "node-of-the-test", "status.hostIP": "127.0.0.1", "metadata.name": "numaudit-x7k2p"}
    return Node(platform.machine(), platform.release(), is_v2, _own_capabilities(), profile, fields)


def _own_capabilities() -> list[str]:
    """All that this process may hand on."""
    (mask,) = re.findall(r"^CapBnd:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    bits = int(mask, 16)
    return [name for number, name in enumerate(CAPABILITIES) if bits >> number & 1]


@dataclass(frozen=True, slots=True)
class Pod:
    """A template and what it runs on."""

    manifests: Sequence[Json]
    """What kustomize made of the base and some components."""
    image: Image
    node: Node = field(default_factory=this_node)
    volumes: Mapping[str, Path] = field(default_factory=dict)
    """Volume -> the folder that stands for it; others are the host's own, or empty where it has none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Settings that the tests need and that change no right, such as a short interval."""

    @property
    def template(self) -> Json:
        return dict(manifests.daemonset(self.manifests)["spec"]["template"])

    def settings(self, name: str) -> dict[str, str]:
        """The files of a ConfigMap."""
        found = manifests.of_kind(self.manifests, "ConfigMap")
        return next(dict(one["data"]) for one in found if one["metadata"]["name"] == name)


@dataclass(frozen=True, slots=True)
class ConfinedAgent(Agent):
    """One agent in a container; `process` is runc, which waits for it and ends with its exit code."""

    container: str = ""
    folder: Path = Path()
    pid: int = 0
    """Of the container's first process, seen from outside."""
    cgroup: str = ""

    def connection(self) -> http.client.HTTPConnection:
        return _ConnectionInside(self.pid, self.port)

    def kill(self, signal_name: str) -> int:
        """As the runtime stops a container; runc's exit code, which is the agent's or 128 + the signal's number."""
        _runc(self.folder, "kill", self.container, signal_name)
        return self.process.wait(PATIENCE)

    @property
    def memory_peak(self) -> int:
        """Bytes at most that were charged to the container."""
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            for place in cgroup_folders(self.cgroup):
                with contextlib.suppress(FileNotFoundError):
                    return int((place / file).read_text())
        raise AssertionError(f"no peak of memory in {cgroup_folders(self.cgroup)}")  # before Linux 5.19 with cgroup v2

    @property
    def written(self) -> list[str]:
        """What the container left in the layer over its image, but for the places that volumes were mounted on."""
        return files_below(self.folder / "layer/upper")


class _ConnectionInside(http.client.HTTPConnection):
    """A connection to the loopback interface of a container's network namespace."""

    def __init__(self, pid: int, port: int) -> None:
        super().__init__("127.0.0.1", port, timeout=PATIENCE)
        self.pid = pid

    def connect(self) -> None:
        with _network_of(self.pid):  # a socket belongs to the namespace that it is made in
            self.sock = socket.create_connection((self.host, self.port), self.timeout)


@contextlib.contextmanager
def _network_of(pid: int) -> Iterator[None]:
    """This thread in the network namespace of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as own, Path(f"/proc/{pid}/ns/net").open() as other:
        if libc.setns(other.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            assert not libc.setns(own.fileno(), _CLONE_NEWNET)


@contextlib.contextmanager
def running(pod: Pod) -> Iterator[ConfinedAgent]:
    """Start the agent and wait until it is ready; killed at the end if it still runs."""
    with _bundle(pod) as bundle:
        process = bundle.start()
        try:
            assert eventually(lambda: bundle.is_running or process.poll() is not None)
            assert process.poll() is None, f"runc ended with {process.returncode}:\n{bundle.log.read_text()}"
            agent = bundle.agent(process)
            assert eventually(lambda: _is_ready(agent), 2 * PATIENCE), f"not ready:\n{agent.log()}"
            yield agent
        finally:
            bundle.end(process)


def run_inside(pod: Pod, command: Sequence[str], timeout: float = PATIENCE) -> str:
    """What another command prints that runs in the agent's place, with exactly its rights; it must succeed."""
    with _bundle(pod, command) as bundle:
        process = bundle.start()
        try:
            code = process.wait(timeout)
        finally:
            bundle.end(process)
        errors = bundle.log.read_text()
        assert not code, f"{shlex.join(command)[:200]}: exit code {code}: {errors}"
        return bundle.output.read_text()


def _is_removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def cgroup_folders(path: str) -> list[Path]:
    """A cgroup in every hierarchy that has it."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    roots = [Path(mount[1]) for mount in mounts if mount[2] in ("cgroup", "cgroup2")]
    return [root / path.lstrip("/") for root in roots if (root / path.lstrip("/")).is_dir()]


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@dataclass(frozen=True, slots=True)
class _Bundle:
    folder: Path
    id: str
    cgroup: str
    port: int
    tmpfs: Mapping[str, str]
    """Folder -> size of the memory that is mounted there, for emptyDir."""
    tracefs: Sequence[Path]
    """Folders that it is mounted on, where the host has not mounted it."""
    image: Path

    @property
    def log(self) -> Path:
        return self.folder / "stderr"

    @property
    def output(self) -> Path:
        return self.folder / "stdout"

    @property
    def is_running(self) -> bool:
        return self._state().get("status") == "running"

    def start(self) -> subprocess.Popen[bytes]:
        layer = self.folder / "layer"
        options = f"lowerdir={self.image},upperdir={layer}/upper,workdir={layer}/work"
        mounts = [f"mount -t overlay overlay -o {options} {self.folder}/rootfs"]
        mounts += [f"mount -t tmpfs -o mode=0777,size={size} tmpfs {path}" for path, size in self.tmpfs.items()]
        mounts += [f"mount -t tracefs tracefs {path}" for path in self.tracefs]
        script = " && ".join([*mounts, f"exec runc --root {self.folder}/state run --bundle {self.folder} {self.id}"])
        command = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]
        with self.log.open("wb") as stderr, self.output.open("wb") as stdout:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)

    def agent(self, process: subprocess.Popen[bytes]) -> ConfinedAgent:
        pid = int(self._state()["pid"])
        return ConfinedAgent(
            process, self.log, self.port, container=self.id, folder=self.folder, pid=pid, cgroup=self.cgroup
        )

    def end(self, process: subprocess.Popen[bytes]) -> None:
        if self.is_running:
            _runc(self.folder, "kill", self.id, "KILL")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()
        process.wait()
        _runc(self.folder, "delete", "--force", self.id)
        for place in cgroup_folders(self.cgroup):  # runc stops trying when a process takes long on its way out
            eventually(partial(_is_removed, place))
        for parent in list(Path(self.cgroup).parents)[:-1]:  # the pod's and those above, which the kubelet would remove
            for place in cgroup_folders(str(parent)):
                with contextlib.suppress(OSError):  # another pod's, or a process is still on its way out
                    place.rmdir()

    def _state(self) -> Json:
        done = subprocess.run(
            ["runc", "--root", self.folder / "state", "state", self.id], capture_output=True, text=True, check=False
        )
        return {} if done.returncode else dict(json.loads(done.stdout))


@contextlib.contextmanager
def _bundle(pod: Pod, command: Sequence[str] = ()) -> Iterator[_Bundle]:
    template = pod.template
    uid, container = str(uuid.uuid4()), os.urandom(32).hex()
    cgroup = f"/kubepods/burstable/pod{uid}/{container}"
    with tempfile.TemporaryDirectory(dir=_SCRATCH, prefix="numaudit-pod-") as name:
        folder = Path(name)
        for one in ("rootfs", "layer/upper", "layer/work", "volumes"):
            (folder / one).mkdir(parents=True)
        volumes, memory = _place_volumes(pod, folder / "volumes")
        image = Image(folder / "rootfs", pod.image.entrypoint, pod.image.environment)
        config = oci_config(template, image, pod.node, volumes, cgroup)
        config["process"]["env"] += [f"{name}={value}" for name, value in pod.environment.items()]
        if command:
            config["process"]["args"] = list(command)
        (folder / "config.json").write_text(json.dumps(config, indent=1))
        port = template["spec"]["containers"][0]["ports"][0]["containerPort"]
        tracefs = [volumes[name] for name in _unmounted_tracefs(template) if name not in pod.volumes]
        yield _Bundle(folder, container, cgroup, port, memory, tracefs, pod.image.root)


def _unmounted_tracefs(template: Mapping[str, Any]) -> list[str]:
    paths = {name: source.get("hostPath", {}).get("path") for name, source in volumes_of(template).items()}
    return [name for name, path in paths.items() if path == _TRACEFS and not Path(path).is_mount()]


def _place_volumes(pod: Pod, folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Volume -> folder, and folder -> size of those that are memory."""
    found: dict[str, Path] = {}
    memory: dict[str, str] = {}
    unmounted = _unmounted_tracefs(pod.template)
    for name, source in volumes_of(pod.template).items():
        place = folder / name
        ((kind, details),) = source.items()
        if name in pod.volumes:
            found[name] = pod.volumes[name]
            continue
        if kind == "hostPath" and name not in unmounted and Path(details["path"]).is_dir():
            found[name] = Path(details["path"])
            continue
        found[name] = place
        place.mkdir()
        if kind == "emptyDir":
            memory[str(place)] = str(details.get("sizeLimit", "1Mi")).removesuffix("i")
        elif kind == "configMap":
            _write_as_kubelet(place, pod.settings(details["name"]))
    return found, memory


def _write_as_kubelet(folder: Path, files: Mapping[str, str]) -> None:
    """A ConfigMap's folder: real files in a dated folder, to which links lead by way of `..data`."""
    dated = folder / "..2026_01_01_00_00_00.000000001"
    dated.mkdir()
    (folder / "..data").symlink_to(dated.name)
    for name, text in files.items():
        (dated / name).write_text(text)
        (folder / name).symlink_to(f"..data/{name}")


def _is_ready(agent: ConfinedAgent) -> bool:
    assert agent.process.poll() is None, f"the agent ended with {agent.process.returncode}:\n{agent.log()}"
    try:
        return agent.get("/-/ready")[0] == 200
    except OSError:
        return False


def _runc(folder: Path, *arguments: str) -> None:
    command = ["runc", "--root", str(folder / "state"), *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{shlex.join(command)}: {done.stderr}"
