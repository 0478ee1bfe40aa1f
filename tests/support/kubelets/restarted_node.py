"""A real node just before its kubelet restarted, or before it rebooted; and what the kubelet said after that."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Literal

from fixture_trees import FIXTURES
from numaudit.kernel.host import Host

Event = Literal["restart", "reboot"]

_RECORDED = FIXTURES / "kubernetes-restarts"


def node_before(event: Event, target: Path) -> Host:
    """A capture of the node with its running kubelet."""
    shutil.copytree(_RECORDED / "node", target)
    kubelet = target / "var/lib/kubelet"
    kubelet.mkdir(parents=True)
    for name in ("memory_manager_state", "cpu_manager_state"):
        shutil.copy(_RECORDED / event / name, kubelet)
    shutil.copy(_RECORDED / event / "pods.json", target / "numaudit")
    return Host.under(target)


def reboot(host: Host) -> None:
    """Give the nodes the memory that they had after the reboot."""
    for node, total in json.loads((_RECORDED / "reboot/totals-after.json").read_text()).items():
        meminfo = host.nodes / f"node{node}/meminfo"
        text = meminfo.read_text()
        changed = re.sub(r"MemTotal: +\d+ kB", f"MemTotal: {total // 1024} kB", text)
        assert changed != text
        meminfo.write_text(changed)


def log_after(event: Event) -> str:
    """What the kubelet wrote then about the pods that it refused, or about itself."""
    return (_RECORDED / event / "kubelet-after.log").read_text()
