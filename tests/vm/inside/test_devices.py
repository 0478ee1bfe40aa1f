"""Devices on known nodes: a container that has those of its promised node, and one that has those of the other.

The machine's command line is the truth: it gives each node an adapter and a disk that carry the node's number in their
hardware address and serial number, and plugs them in behind a PCI bus of that node (guest.py).
"""

from __future__ import annotations

import contextlib
import json
import lzma
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kernels
from container import Container, container
from guest import adapter_address
from numaudit.checkpoints.formats import device
from numaudit.checkpoints.formats.device import DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.file import DEVICES, MEMORY
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.cli.main import call
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.kubelet.sources import checkpoints
from numaudit.memorymanager.admission import admit
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.manager import fresh_state, start
from workload import eventually

pytestmark = pytest.mark.devices

PCI = Path("/sys/bus/pci/devices")
RESOURCE = "vendor.example/disk"
CONFIGURATION = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "memoryManagerPolicy": "Static",
    "evictionHard": {"memory.available": "100Mi"},
    "reservedMemory": [{"numaNode": 1, "limits": {"memory": "100Mi"}}],
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """The adapter and the disk that the machine's command line gives a node."""

    node: int

    @property
    def interface(self) -> Path:
        """In sysfs; only while it is in our namespace."""
        (found,) = [
            one.parent
            for one in Path("/sys/class/net").glob("*/address")
            if one.read_text().strip() == adapter_address(self.node)
        ]
        return found

    @property
    def disk(self) -> Path:
        """Its controller in sysfs."""
        (found,) = [
            one.parent
            for one in Path("/sys/class/nvme").glob("*/serial")
            if one.read_text().strip() == f"node{self.node}"
        ]
        return found


@dataclass(frozen=True, slots=True)
class Pod:
    """A running pod that was promised memory of node 0, and its devices of `hardware.node`."""

    name: str
    hardware: Hardware
    running: Container
    interface: str
    adapter: str
    disk: str
    """PCI addresses."""

    def send(self) -> None:
        """Ask for an address that nobody has: the other pod's adapter receives it, and its interrupt fires."""
        arguments = ["busybox", "arping", "-D", "-c", "1", "-w", "1", "-I", self.interface, "10.1.2.3"]
        subprocess.run([*_in_network(self.running), *arguments], check=False, stdout=subprocess.DEVNULL)


def _in_network(of: Container) -> list[str]:
    return ["nsenter", "-t", str(of.pid), "-n"]


def _address(device_in_sysfs: Path) -> str:
    """The PCI address: the folder of an adapter of virtio is below it."""
    folder = (device_in_sysfs / "device").resolve()
    return folder.name if (PCI / folder.name).exists() else folder.parent.name


def _load(*modules: str) -> None:
    kernel = kernels.find(os.environ["NUMAUDIT_GUEST"])
    for file in kernels.module_files(kernel, modules):
        with tempfile.NamedTemporaryFile(suffix=".ko") as module:
            packed = file.read_bytes()
            module.write(lzma.decompress(packed) if file.suffix == ".xz" else packed)
            module.flush()
            done = subprocess.run(["busybox", "insmod", module.name], capture_output=True, text=True, check=False)
            assert not done.returncode or "File exists" in done.stderr, done.stderr


@contextlib.contextmanager
def _pod(name: str, uid: str, hardware: Hardware) -> Iterator[Pod]:
    disk = hardware.disk
    file = Path("/dev") / disk.name
    hold = ["sh", "-c", f"exec /bin/busybox sleep 100000 <{file}"]
    with container(uid, name, hold, cpus="0", mems="0", devices=[file]) as running:
        interface = hardware.interface
        found = Pod(name, hardware, running, interface.name, _address(interface), _address(disk))
        subprocess.run(["ip", "link", "set", interface.name, "netns", str(running.pid)], check=True)
        subprocess.run([*_in_network(running), "ip", "link", "set", interface.name, "up"], check=True)
        yield found


@pytest.fixture(scope="module")
def pods() -> Iterator[dict[str, Pod]]:
    """`near` has the devices of node 0, `far` those of node 1, which its plugin says are on node 0."""
    _load("virtio_net")
    host = Host()
    uids = {"near": "0d5f0000-0000-4000-8000-00000000000a", "far": "0d5f0000-0000-4000-8000-00000000000b"}
    with contextlib.ExitStack() as stack:
        found = {
            name: stack.enter_context(_pod(name, uid, Hardware(node))) for node, (name, uid) in enumerate(uids.items())
        }
        _write_promises(host, uids, found)
        stack.callback((host.kubelet / MEMORY).unlink)
        yield found


def _write_promises(host: Host, uids: dict[str, str], found: dict[str, Pod]) -> None:
    (host.kubelet / "device-plugins").mkdir(parents=True, exist_ok=True)
    (host.kubelet / "config.yaml").write_text(json.dumps(CONFIGURATION))
    kubelet, _ = read_kubelet(CONFIGURATION, read_machine(host))
    state = fresh_state(kubelet)
    for name, uid in uids.items():
        resources = {"cpu": "100m", "memory": "32Mi"}
        containers = [{"name": name, "resources": {"requests": resources, "limits": resources}}]
        pod = {"metadata": {"name": name, "namespace": "prod", "uid": uid}, "spec": {"containers": containers}}
        admission = admit(kubelet, state, read_pod(pod))
        assert admission.rejection is None
        state, pins = start(kubelet, admission.state, uid, name)
        assert pins.cpuset_mems == "0"
    checkpoints.write_file(host.kubelet / MEMORY, MemoryCheckpoint.of("Static", state.memory.state))
    entries = tuple(PodDevices(uid, name, RESOURCE, {0: (found[name].disk,)}, b"") for name, uid in uids.items())
    registered = {RESOURCE: tuple(one.disk for one in found.values())}
    written = device.write(DeviceCheckpoint.of(entries, registered))
    (host.kubelet / "device-plugins" / DEVICES).write_bytes(written)


def _report(capsys: pytest.CaptureFixture[str], pod: Pod) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Its devices by address, and the messages of each finding."""
    assert call(["report", f"*{pod.running.id}*", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = report["containers"]
    findings: dict[str, list[str]] = {}
    for one in report["findings"]:
        if one["id"] == row["id"]:
            findings.setdefault(one["name"], []).append(one["message"])
    assert not row["devices"]["unread"], row["devices"]["unread"]
    return {one["address"]: one for one in row["devices"]["items"]}, findings


def test_each_holds_the_devices_of_its_node_and_only_the_misaligned_is_remote(
    pods: dict[str, Pod], capsys: pytest.CaptureFixture[str]
) -> None:
    reports = {name: _report(capsys, pod) for name, pod in pods.items()}
    for name, pod in pods.items():
        found = {
            address: (one["kind"], one["numaNode"], set(one["heldBy"]), one["interfaces"])
            for address, one in reports[name][0].items()
        }
        assert found == {
            pod.disk: ("storage", pod.hardware.node, {"descriptor", "device-list"}, []),
            pod.adapter: ("network", pod.hardware.node, {"network-namespace"}, [pod.interface]),
        }
    assert not {"device-remote", "device-node-disagrees"} & reports["near"][1].keys()
    far, findings = pods["far"], reports["far"][1]
    assert findings["device-node-disagrees"] == [
        f"{RESOURCE} ({far.disk}) is on node 0 by the device plugin, on node 1 by sysfs ({far.disk})"
    ]
    assert sorted(findings["device-remote"]) == sorted(
        f"{what} is on node 1 by sysfs, but the promised memory is on node 0"
        for what in (f"{RESOURCE} ({far.disk})", f"its network adapter {far.adapter} ({far.interface})")
    )


def test_interrupts_on_another_node_are_found_until_they_are_moved(
    pods: dict[str, Pod], capsys: pytest.CaptureFixture[str]
) -> None:
    near, far = pods["near"], pods["far"]

    def all_on(cpu: int) -> None:
        for number in (PCI / near.adapter / "msi_irqs").iterdir():
            Path(f"/proc/irq/{number.name}/smp_affinity_list").write_text(f"{cpu}\n")

    def is_found(expected: bool) -> None:
        far.send()  # an interrupt moves when it fires
        held, findings = _report(capsys, near)
        assert held[near.adapter]["interrupts"]["firedByNode"], "none has fired yet"
        assert ("interrupts-remote" in findings) == expected, held[near.adapter]["interrupts"]

    all_on(cpu=1)
    eventually(lambda: is_found(expected=True))
    all_on(cpu=0)  # the remedy
    eventually(lambda: is_found(expected=False))
