"""What is on the node beside the agent's pod: the kubelet's folder, other pods' volumes and processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters import manifests
from clusters.pod_bundle import Image
from confinement.agent import CHECKOUT, SECCOMP_NOW, Pod, run_inside, this_node

CHECKPOINT = CHECKOUT / "tests/fixtures/memory-manager-state/stale-pod-entries/memory_manager_state"
SECRETS = ("pki/kubelet-client-current.pem", "pods/of-another/volumes/token")
OTHER_USER = 12345
ENTRYPOINT, PATH = "numaudit", "/opt/numaudit/bin:/usr/sbin:/usr/bin"

LOADED_WITHIN = 900.0
"""Seconds for the probes, in a guest on a crowded host."""
_PROBES = f"""
import json
from numaudit.probes.kinds import KINDS
from numaudit.doctor.checks import probe_checks
from numaudit.kernel.host import Host
from numaudit.probes.session import Session
with Session.open(Host(), KINDS, cgroups=100, nodes=4, deadline={LOADED_WITHIN}) as session:
    print(json.dumps([[one.name.removeprefix("bpf "), one.reason] for one in probe_checks(session)]))
"""
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")

PROFILES: Mapping[str, Sequence[str]] = {
    "restricted": (),
    "pages": ("pages",),
    "privileged": ("privileged",),
    "passive": ("passive",),
}
"""Name of a profile -> components of deploy/components."""


@dataclass(frozen=True, slots=True)
class NodeHere:
    """The surroundings of a pod."""

    image: Image
    volumes: Mapping[str, Path]
    others: Sequence[int]
    """Process ids: of another user, of root, of root without capabilities."""

    def pod(self, *components: str, seccomp: str = SECCOMP_NOW, **environment: str) -> Pod:
        return Pod(manifests.build(*components), self.image, this_node(seccomp), self.volumes, environment)

    def tried(self, pod: Pod) -> dict[str, str]:
        """What is tried -> `yes`, or the error's name."""
        program = (Path(__file__).parent / "tries.py").read_text()
        found = run_inside(pod, ["python3", "-c", program, *map(str, self.others)])
        return dict(json.loads(found))

    def probes(self, pod: Pod) -> dict[str, str | None]:
        """BPF probe -> why it does not run, as `numaudit doctor` says; None = it runs."""
        return dict(json.loads(run_inside(pod, ["python3", "-c", _PROBES], LOADED_WITHIN)))


@contextlib.contextmanager
def paranoid(level: int) -> Iterator[None]:
    """With this kernel.perf_event_paranoid."""
    before = PARANOID.read_text()
    PARANOID.write_text(str(level))
    try:
        yield
    finally:
        PARANOID.write_text(before)


@contextlib.contextmanager
def node_here(root: Path) -> Iterator[NodeHere]:
    """The surroundings, with the image's unpacked root. PERFMON opens perf events, which Debian's default denies."""
    with (
        paranoid(2),
        tempfile.TemporaryDirectory(dir="/run", prefix="numaudit-node-") as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        folder.chmod(0o755)
        image = Image(root, (ENTRYPOINT,), {"PATH": PATH, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"})
        volumes = {"kubelet": folder / "kubelet", "pod-logs": folder / "logs"}
        _make_kubelets_folder(volumes["kubelet"])
        volumes["pod-logs"].mkdir()
        sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(10**6)"]
        user = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
        bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        others = [stack.enter_context(_running([*before, *sleep])) for before in (user, [], bare)]
        yield NodeHere(image, volumes, others)


def _make_kubelets_folder(folder: Path) -> None:
    """As a kubelet leaves it: its own files are for root alone."""
    for name in ("pods", "plugins", "pki", "device-plugins", "pod-resources"):
        (folder / name).mkdir(parents=True)
    shutil.copy(CHECKPOINT, folder / "memory_manager_state")
    for name in SECRETS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "of-another-user").write_text("theirs")
    for file in folder.rglob("*"):
        if file.is_file():
            file.chmod(0o600)
    os.chown(folder / "of-another-user", OTHER_USER, OTHER_USER)


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[int]:
    process = subprocess.Popen(command)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
