"""A recorded moment of a kubelet with the machine on which it was recorded."""

from __future__ import annotations

from pathlib import Path

from kubelets.recorded import read_machine
from kubelets.steps import Step
from numaudit.kernel.host import Host
from numaudit.topology.machine import Machine, Node


def with_machine(host: Host, machine: Machine) -> Host:
    """Add what sysfs says of a machine to a tree."""
    nodes = host.nodes
    for node in machine.nodes:
        write_node(host, node)
    online = str(machine.online)
    for name in ("online", "possible"):
        (nodes / name).write_text(f"{online}\n")
    host.cpus.mkdir(parents=True, exist_ok=True)
    (host.cpus / "online").write_text(f"0-{len(machine.cpus) - 1}\n")
    return host


def write_node(host: Host, node: Node) -> None:
    folder = host.nodes / f"node{node.id}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpulist").write_text(f"{node.cpus}\n")
    (folder / "meminfo").write_text(f"Node {node.id} MemTotal: {(node.memory or 0) // 1024} kB\n")
    for pages in node.huge_pages:
        size = folder / f"hugepages/hugepages-{pages.page_size // 1024}kB"
        size.mkdir(parents=True, exist_ok=True)
        (size / "nr_hugepages").write_text(f"{pages.total}\n")


def node_of(step: str, tmp_path: Path) -> Host:
    """The tree of a moment, with the machine on which it was recorded."""
    return with_machine(Step(step).tree(tmp_path / "tree"), read_machine(step.partition("/")[0]))


def running_node_of(step: str, tmp_path: Path) -> Host:
    """The same with the containers that ran then, and their cpusets: enough for a report."""
    host = node_of(step, tmp_path)
    top = tmp_path / "tree/sys/fs/cgroup"
    (tmp_path / "tree/proc/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    recorded = Step(step)
    cpusets = recorded.cpusets()
    for container in recorded.containers():
        folder = top / container.path.lstrip("/")
        folder.mkdir(parents=True)
        (folder / "cpuset.mems.effective").write_text(f"{cpusets[container.id].mems}\n")
        (folder / "cpuset.cpus.effective").write_text(f"{cpusets[container.id].cpus}\n")
    (top / "cgroup.controllers").write_text("cpuset cpu memory hugetlb\n")
    return host
