"""A recorded moment of a kubelet with the machine on which it was recorded."""

from __future__ import annotations

from pathlib import Path

from kubelet_steps import Step
from numaudit.kernel.host import Host
from numaudit.topology.machine import Machine, Node
from recorded_kubelet import read_machine


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
