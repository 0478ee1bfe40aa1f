"""Every verdict on real containers: promised by our own memory manager, started by runc, then treated badly."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from container import Container, container
from numaudit.checkpoints.formats.file import MEMORY
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.cli.main import call
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet.sources import checkpoints
from numaudit.memorymanager.admission import NodeState, admit
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.manager import fresh_state, start
from workload import MIB, eventually

Document = dict[str, list[dict[str, Any]]]

HELD = 32 * MIB
CONFIGURATION = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "memoryManagerPolicy": "Static",
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 3, "limits": {"memory": "100Mi"}}],
}
HOLD = """
fill() { rm -f /dev/shm/held; busybox dd if=/dev/zero of=/dev/shm/held bs=1M count=32 2>/dev/null; }
trap fill USR1
rm() { busybox rm "$@"; }
fill
while :; do busybox sleep 1000 & wait $!; done
"""
"""Holds 32 MiB of shared memory, and gives them up for new ones on SIGUSR1. A change of cpuset.mems does not
move them, because no process maps them."""


@dataclass(slots=True)
class Patient:
    """One container and what becomes of it."""

    name: str
    memory: str = "64Mi"
    """Requested; some more than it holds."""
    promised: str = "0"
    """What the memory manager must give."""
    starts: str = "0"
    """cpuset.mems when it fills its memory."""
    mems: str = "0"
    """cpuset.mems when it is judged."""
    cpus: str = "0"
    qos: str = ""
    verdict: str = ""
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    running: Container | None = None

    @property
    def manifest(self) -> dict[str, object]:
        resources = {"cpu": "100m", "memory": self.memory}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "lab", "uid": self.uid},
            "spec": {"containers": [{"name": "app", "resources": {"requests": resources, "limits": resources}}]},
        }

    def write(self, name: str, value: str) -> None:
        assert self.running is not None
        self.running.cgroup.write(name, value)

    def refill(self) -> None:
        assert self.running is not None
        os.kill(self.running.pid, signal.SIGUSR1)

    def holds_its_bytes(self, *, on: str | None = None) -> None:
        assert self.running is not None
        held = {node: size for node, size in self.running.cgroup.numa_stat("shmem").items() if size}
        assert sum(held.values()) == HELD
        assert on is None or ",".join(map(str, held)) == on


def patients() -> dict[str, Patient]:
    found = (
        Patient("aligned", verdict="aligned"),
        Patient("drifted", mems="1", verdict="drifted"),
        Patient("cpu-remote", cpus="2", verdict="cpu-remote"),
        Patient("spilled", starts="1", verdict="spilled"),
        Patient("split", memory="600Mi", promised="1-2", starts="1-2", mems="1-2", cpus="1-2", verdict="split"),
        Patient("unmanaged", promised="", starts="", mems="0-3", cpus="0-3", qos="burstable", verdict="unmanaged"),
    )
    return {one.name: one for one in found}


NAMES = tuple(patients())


@pytest.fixture(scope="module")
def ward() -> Iterator[dict[str, Patient]]:
    """All containers, each promised its memory, holding 32 MiB, and then brought into its state."""
    host = Host()
    everyone = patients()
    with contextlib.ExitStack() as stack:
        write_promises(host, everyone)
        stack.callback((host.kubelet / MEMORY).unlink)
        for one in everyone.values():
            command = ["sh", "-c", HOLD]
            one.running = stack.enter_context(container(one.uid, "app", command, one.cpus, one.starts, qos=one.qos))
        for one in everyone.values():
            eventually(one.holds_its_bytes)
            if one.mems != one.starts and one.promised:
                one.write("cpuset.mems", one.mems)
        yield everyone


def write_promises(host: Host, everyone: Mapping[str, Patient]) -> None:
    """Admit the pods as a kubelet would on this machine, and write the files that it would."""
    host.kubelet.mkdir(parents=True, exist_ok=True)
    (host.kubelet / "config.yaml").write_text(json.dumps(CONFIGURATION))
    kubelet, _ = read_kubelet(CONFIGURATION, read_machine(host))
    state: NodeState = fresh_state(kubelet)
    for one in everyone.values():
        if not one.promised:
            continue
        admission = admit(kubelet, state, read_pod(one.manifest))
        assert admission.rejection is None
        state, pins = start(kubelet, admission.state, one.uid, "app")
        assert pins.cpuset_mems.replace(",", "-") == one.promised
    checkpoints.write_file(host.kubelet / MEMORY, MemoryCheckpoint.of("Static", state.memory.state))


def verdicts(capsys: pytest.CaptureFixture[str], everyone: Mapping[str, Patient]) -> dict[str, str]:
    """The words of `numaudit report`, by patient."""
    report = json_report(capsys)
    by_uid = {one.uid: one.name for one in everyone.values()}
    found = {}
    for one in report["containers"]:
        if one["podUid"] in by_uid and one["kind"] == "container":
            assert one["container"] == "app"
            found[by_uid[one["podUid"]]] = one["verdict"]["name"]
    return found


def json_report(capsys: pytest.CaptureFixture[str]) -> Document:
    assert call(["report", "-o", "json"]) == 0
    document: Document = json.loads(capsys.readouterr().out)
    return document


def test_each_verdict_is_right_and_right_again_after_healing(
    ward: dict[str, Patient], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdicts(capsys, ward) == {name: one.verdict for name, one in ward.items()}
    ward["drifted"].write("cpuset.mems", "0")
    ward["cpu-remote"].write("cpuset.cpus", "0")
    ward["spilled"].refill()
    eventually(lambda: ward["spilled"].holds_its_bytes(on="0"))
    expected = dict.fromkeys(NAMES, "aligned") | {"split": "split", "unmanaged": "unmanaged"}
    assert verdicts(capsys, ward) == expected


def test_the_kubelet_would_start_with_these_promises_until_its_huge_pages_change(
    ward: dict[str, Patient], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ward
    pool = Path("/sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages")
    before = pool.read_text()
    (memory,) = [one for one in json_report(capsys)["checkpoints"] if one["file"] == MEMORY]
    assert (memory["valid"], memory["startsNow"], memory["startsAfterReboot"]) == (True, "yes", "at risk")
    pool.write_text(str(int(before) + 2))
    try:
        report = json_report(capsys)
    finally:
        pool.write_text(before)
    (memory,) = [one for one in report["checkpoints"] if one["file"] == MEMORY]
    assert (memory["valid"], memory["startsNow"]) == (False, "no")
    (unsafe,) = [one for one in report["findings"] if one["name"] == "restart-unsafe"]
    assert "huge-pages-changed" in unsafe["message"]
