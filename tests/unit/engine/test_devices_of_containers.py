"""PCI devices of containers: what leads to them, within a budget, and what could not be followed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hosts.node_tree import NodeTree
from hosts.sysfs_tree import SysfsTree
from numaudit.config.settings import Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.engine.collectors.base import DeviceRequest
from numaudit.engine.collectors.containers import devices
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.prometheus import ScrapeForm
from numaudit.kernel.devices import device_cgroup, network
from numaudit.kernel.devices.descriptors import HeldDevices
from numaudit.kernel.host import Host
from numaudit.ranks.declaration import HeldDevice
from numaudit.snapshot import CollectorOutcome, ContainerId, Snapshot
from numaudit.snapshot.processes import ContainerDevice, ContainerDevices, Interrupts, UnreadDevices

GPU, NIC = "0000:3b:00.0", "0000:af:02.1"
OWN, HOSTS = 4026532000, 4026531840
NO_DEVICES = ContainerDevices((), (), {})
NO_LIST = (UnreadDevices("device-list", "a capture of cgroup v2 has no device programs"),)


class Node:
    """A host with a container that has a GPU open, and one without devices."""

    def __init__(self, root: Path) -> None:
        self.tree, self.sysfs = NodeTree(root), SysfsTree(root)
        pod = self.tree.pod("prod", "train-0")
        self.train, self.idle = self.tree.container(pod, "train"), self.tree.container(pod, "idle")
        self.pid = self.tree.process_of(self.train)
        self.sysfs.pci(GPU, "030200", 1)
        self.sysfs.nvidia(GPU, 0)
        self.sysfs.open(self.pid, "char/195:0")
        self.observer = Observer.of(Host(root))

    def names(self, *paths: str) -> frozenset[ContainerId]:
        found = self.observer.observe().containers
        return frozenset(one.id for one in found if one.path in paths)

    def observe(self, *paths: str, seconds: float = 60.0) -> Snapshot:
        return self.observer.observe(devices=DeviceRequest(seconds, self.names(*paths)))

    def of(self, path: str) -> ContainerDevices | None:
        taken = self.observe(path)
        (id_,) = self.names(path)
        return taken.devices.get(id_)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def promised(captured: Callable[[str], Host], tmp_path: Path) -> Path:
    """A captured node with a kubelet, on which a container with a promise has a GPU of its node open."""
    root = tmp_path / "node"
    shutil.copytree(captured("kubernetes-four-nodes").root, root, symlinks=True)
    found = Observer.of(Host(root))
    (folder,) = [
        found.inventory.take().folder(one.id)
        for one in found.observe().containers
        if (one.pod, one.name, one.kind) == ("gu-small-numanode", "app", "container")
    ]
    pid = int((root / f"sys/fs/cgroup{folder}/cgroup.procs").read_text().split()[0])
    sysfs = SysfsTree(root)
    sysfs.pci(GPU, "030200", 0)
    sysfs.nvidia(GPU, 0)
    sysfs.open(pid, "char/195:0")
    return root


def outcome(taken: Snapshot) -> CollectorOutcome:
    (found,) = [one for one in taken.outcomes if one.source == "devices"]
    return found


def test_an_open_file_leads_to_a_device_with_its_node_and_interrupts(node: Node) -> None:
    node.sysfs.interrupts(GPU, {40: "0", 41: "5"})
    gpu = ContainerDevice("gpu", GPU, 1, ("descriptor",), (), Interrupts(2, {0: 1, 1: 1}, {}))
    assert node.of(node.train) == ContainerDevices((gpu,), NO_LIST, {})
    assert node.of(node.idle) == ContainerDevices((), NO_LIST, {})


def test_an_interface_of_a_namespace_of_its_own_leads_to_a_device(node: Node) -> None:
    node.sysfs.pci(NIC, "020000", 0)
    node.sysfs.namespace(1, HOSTS)
    node.sysfs.namespace(node.pid, OWN)
    folder = node.tree.root / "numaudit"
    folder.mkdir()
    (folder / f"network-{OWN}.txt").write_text(f"net1 pci {NIC}\nnet2 pci 0000:ff:00.0\n")
    found = node.of(node.train)
    assert found is not None
    assert [one for one in found.items if one.address == NIC] == [
        ContainerDevice("network", NIC, 0, ("network-namespace",), ("net1",))
    ]


def test_a_container_in_the_host_s_namespace_holds_no_adapter_by_that(node: Node) -> None:
    node.sysfs.pci(NIC, "020000", 0)
    for pid in (1, node.pid):
        node.sysfs.namespace(pid, HOSTS)
    folder = node.tree.root / "numaudit"
    folder.mkdir()
    (folder / f"network-{HOSTS}.txt").write_text(f"eth0 pci {NIC}\n")
    found = node.of(node.train)
    assert found is not None
    assert [one.address for one in found.items] == [GPU]


def test_a_namespace_that_may_not_be_entered_is_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: Host, pid: int, number: int) -> tuple[network.Interface, ...]:
        raise PermissionError(1, "setns: Operation not permitted")

    monkeypatch.setattr(network, "interfaces", refuse)
    node.sysfs.namespace(1, HOSTS)
    node.sysfs.namespace(node.pid, OWN)
    found = node.of(node.train)
    assert found is not None
    assert UnreadDevices("network-namespace", "CAP_SYS_ADMIN is missing") in found.unread
    assert [one.address for one in found.items] == [GPU]


def test_descriptors_that_may_not_be_read_are_named(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(held: HeldDevices, pid: int) -> tuple[HeldDevice, ...]:
        raise PermissionError(13, "Permission denied", f"/proc/{pid}/fd")

    monkeypatch.setattr(HeldDevices, "of", refuse)
    found = node.of(node.train)
    assert found is not None
    assert found.unread[0].what == "descriptor"
    assert found.unread[0].reason.startswith(f"cannot read /proc/{node.pid}/fd: Permission denied")


def test_a_process_that_ends_meanwhile_leads_nowhere(node: Node) -> None:
    shutil.rmtree(node.tree.root / f"proc/{node.pid}/fd")
    assert node.of(node.train) == ContainerDevices((), NO_LIST, {})


def test_without_a_request_nothing_is_read_and_what_is_known_stays(node: Node) -> None:
    assert "devices" not in {one.source for one in node.observer.observe().outcomes}
    taken = node.observe(node.train)
    node.sysfs.open(node.pid, "char/246:0")
    assert node.observer.observe().devices == taken.devices


def test_a_container_that_is_gone_is_forgotten(node: Node) -> None:
    assert node.observe(node.train, node.idle).devices.keys() == node.names(node.train, node.idle)
    idle = node.names(node.idle)
    node.tree.kill(node.train)
    assert node.observer.observe().devices.keys() == idle


def test_within_a_budget_those_read_longest_ago_come_first(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(devices, "monotonic", lambda: next(clock))
    both = node.names(node.train, node.idle)
    first = node.observe(node.train, node.idle, seconds=2)
    assert len(first.devices) == 1
    assert outcome(first).reason == "the time for devices ran out after 1 of 2 containers"
    assert node.observe(node.train, node.idle, seconds=2).devices.keys() == both
    for path in (node.train, node.idle):
        (node.tree.root / f"proc/{node.tree.process_of(path)}/fd").mkdir(exist_ok=True)
        node.sysfs.open(node.tree.process_of(path), "block/259:0")
    node.sysfs.pci("0000:d8:00.0", "010802", 0)
    node.sysfs.file("block", 259, 0, "0000:d8:00.0", "nvme/nvme0/nvme0n1")
    news = [_with_a_disk(node.observe(node.train, node.idle, seconds=2)) for _ in range(2)]
    assert (len(news[0]), len(news[1])) == (1, 2), "each has its turn"


def _with_a_disk(taken: Snapshot) -> list[ContainerId]:
    return [id_ for id_, one in taken.devices.items() if any(device.kind == "storage" for device in one.items)]


def test_a_host_without_pci_has_no_devices(node: Node) -> None:
    shutil.rmtree(node.tree.root / "sys/bus")
    taken = node.observe(node.train)
    assert (outcome(taken).state, taken.devices) == ("ok", {})


def test_a_list_leads_to_devices_that_are_not_open(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_cgroup, "allowed", lambda host, hierarchies, group, files: files())
    found = node.of(node.idle)
    assert found is not None
    assert found.items == (ContainerDevice("gpu", GPU, 1, ("device-list",)),)


def test_without_names_only_containers_with_a_promise_are_read(promised: Path) -> None:
    observer = Observer.of(Host(promised))
    taken = observer.observe(devices=DeviceRequest(60.0))
    assert taken.intent is not None
    read = {one.name for one in taken.containers if one.id in taken.devices}
    assert read == {one.name for one in taken.intent.containers if one.promise.memory_nodes}
    (found,) = [one for one in taken.containers if taken.devices.get(one.id, NO_DEVICES).items]
    assert (found.pod, found.name) == ("gu-small-numanode", "app")


def test_the_agent_reads_devices_in_its_first_tick_and_every_twentieth_after(
    promised: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numaudit.daemon.ticks.publisher._DEVICES_SECONDS", 600.0)
    agent = Agent.of(Settings(listen=("127.0.0.1", 0)), Engine(Observer.of(Host(promised))), RateLimit())
    with closing(agent.server.socket):
        (process,) = [file.parent for file in promised.glob("proc/*/fd")]
        seen = []
        for _ in range(21):
            agent.ticker.tick()
            body = agent.ticker.pages.get(ScrapeForm("text", gzip=False))
            assert body is not None
            seen.append("numaudit_container_device_node{" in body.decode())
            shutil.rmtree(process / "fd", ignore_errors=True)
    assert seen == [*(True,) * 20, False]
