"""Real containers for tests in the guest: runc and busybox, in a pod's cgroup as the kubelet lays it out."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workload import CGROUPS, Cgroup, remove_cgroup

KUBELET_PODS = Path("/var/lib/kubelet/pods")
BUNDLES = Path("/run/containerd/io.containerd.runtime.v2.task/k8s.io")
"""Of containerd's containers."""


@dataclass(frozen=True, slots=True)
class Container:
    """A running container."""

    id: str
    """64 hexadecimal digits, as containerd gives them."""
    pid: int
    """Of its first process, seen from outside."""
    cgroup: Cgroup


@contextlib.contextmanager
def container(
    pod_uid: str,
    name: str,
    command: Sequence[str],
    cpus: str = "",
    mems: str = "",
    memory_max: int | None = None,
    qos: str = "",
    devices: Sequence[Path] = (),
    runtime: Sequence[str] = ("runc",),
    memory_policy: Mapping[str, str] | None = None,
) -> Iterator[Container]:
    """Run a busybox command as a container of a Guaranteed pod, or of one that is `burstable` or `besteffort`;
    killed and removed at the end.

    Its cgroup is `kubepods.slice/kubepods-podUID.slice/cri-containerd-ID.scope`, with the UID's dashes as
    underscores (the kubelet's systemd driver; below a slice of its QoS where it has one). Its termination log is
    mounted from the pod's folder below /var/lib/kubelet, so mountinfo names pod and container. A fresh 32 MiB that
    stays in use: `["dd", "if=/dev/zero", "of=/dev/null", "bs=32M"]`.
    """
    full_id = hashlib.sha256(f"{pod_uid}/{name}".encode()).hexdigest()
    log = KUBELET_PODS / pod_uid / "containers" / name / full_id[:8]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.touch()
    tier = f"kubepods-{qos}" if qos else "kubepods"
    above = CGROUPS / "kubepods.slice" / (f"{tier}.slice" if qos else "")
    group = above / f"{tier}-pod{pod_uid.replace('-', '_')}.slice/cri-containerd-{full_id}.scope"
    with contextlib.ExitStack() as stack:
        if memory_policy is None:
            bundle = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/run")))
        else:
            bundle = BUNDLES / full_id
            stack.callback(shutil.rmtree, bundle)
        _write_bundle(bundle, command, group, log, _resources(cpus, mems, memory_max))
        _allow_devices(bundle / "config.json", devices)
        _set_policy(bundle / "config.json", memory_policy)
        pid_file = bundle / "pid"
        try:
            _run(*runtime, "run", "--detach", "--bundle", str(bundle), "--pid-file", str(pid_file), full_id)
            yield Container(full_id, int(pid_file.read_text()), Cgroup(group))
        finally:
            _run(*runtime, "delete", "--force", full_id)
            for parent in group.parents:  # runc removes the container's own cgroup only
                if parent.is_dir() and CGROUPS in parent.parents:
                    remove_cgroup(Cgroup(parent))


def _resources(cpus: str, mems: str, memory_max: int | None) -> dict[str, dict[str, object]]:
    cpu = {key: value for key, value in (("cpus", cpus), ("mems", mems)) if value}
    return {"cpu": dict(cpu), "memory": {} if memory_max is None else {"limit": memory_max}}


def _write_bundle(
    bundle: Path, command: Sequence[str], group: Path, log: Path, resources: dict[str, dict[str, object]]
) -> None:
    """config.json and rootfs of the OCI runtime specification."""
    programs = bundle / "rootfs/bin"
    programs.mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox, "no busybox in the guest"
    shutil.copy(busybox, programs)
    (programs / Path(command[0]).name).symlink_to("busybox")
    _run("runc", "spec", "--bundle", str(bundle))
    file = bundle / "config.json"
    config = json.loads(file.read_text())
    config["process"]["args"] = list(command)
    config["process"]["terminal"] = False
    config["linux"]["cgroupsPath"] = f"/{group.relative_to(CGROUPS)}"
    config["linux"]["resources"] |= resources
    config["mounts"].append(
        {"destination": "/dev/termination-log", "type": "bind", "source": str(log), "options": ["bind", "rw"]}
    )
    file.write_text(json.dumps(config))


def _allow_devices(file: Path, devices: Sequence[Path]) -> None:
    """Let the container have these character devices, as the kubelet does for a device plugin."""
    config = json.loads(file.read_text())
    for one in devices:
        number = one.stat().st_rdev
        device = {"type": "c", "major": os.major(number), "minor": os.minor(number)}
        config["linux"].setdefault("devices", []).append({"path": str(one), "fileMode": 0o666, **device})
        config["linux"]["resources"].setdefault("devices", []).append({"allow": True, "access": "rwm", **device})
    file.write_text(json.dumps(config))


def _set_policy(file: Path, policy: Mapping[str, str] | None) -> None:
    if policy is not None:
        config = json.loads(file.read_text())
        config["linux"]["memoryPolicy"] = dict(policy)
        file.write_text(json.dumps(config))


def _run(*command: str) -> None:
    # A detached container keeps its runtime's outputs open, so they are not piped: that would wait for its end.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        output.seek(0)
        assert not done.returncode, f"{' '.join(command)}: {output.read()}"
