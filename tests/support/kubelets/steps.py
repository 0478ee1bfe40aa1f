"""Recorded moments of a kubelet v1.36.2 as trees for `--root`, with the containers that had a cgroup then."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from fixture_trees import FIXTURES
from numaudit.containers import cgroup_path
from numaudit.kernel.host import Host
from numaudit.snapshot import Container, ContainerId
from numaudit.topology.nodeset import CpuSet, NodeSet

RUNS = FIXTURES / "kubelet-1.36"
LOGS = {
    "standalone-log-verbosity-0/1": ("kubelet.k1.log",),
    "standalone-pod-level-resources/1": ("kubelet.k1.log",),
    "standalone-restart-errors/1": ("kubelet.k1.log",),
    "standalone-restricted/1-cross": ("kubelet.k1.log",),
    "standalone-restricted/2-more": ("kubelet.k1.log",),
    "standalone-single-numa-node/1-running": ("kubelet.k1.log",),
    "standalone-single-numa-node/2-rejected": ("kubelet.k1.log",),
    "standalone-single-numa-node/3-removed-gu-two": ("kubelet.k1.log",),
    "standalone-single-numa-node/4-kubelet-restarted": ("kubelet.k1.log", "kubelet.k2.log"),
}
"""Step -> the logs of the kubelets that ran until then (whole, so they may show later pods, too)."""
STEPS = tuple(LOGS)


@dataclass(frozen=True, slots=True)
class Cpuset:
    """What was written to a container's cpuset; a sandbox has nothing."""

    mems: NodeSet
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Step:
    """One moment."""

    name: str

    @property
    def folder(self) -> Path:
        return RUNS / self.name

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def tree(self, target: Path) -> Host:
        """Write what a capture of this moment would hold of the kubelet."""
        kubelet, answers, etc = target / "var/lib/kubelet", target / "numaudit", target / "etc/kubernetes"
        for folder in (target / "proc", kubelet, answers, etc):
            folder.mkdir(parents=True)
        for name in ("memory_manager_state", "cpu_manager_state"):
            shutil.copy(self.folder / name, kubelet)
        for name in ("pods.json", "podresources-list.pb", "kubelet-metrics.txt"):
            shutil.copy(self.folder / name, answers)
        shutil.copy(self.folder.parent / "kubelet-config.k1.yaml", etc / "kubelet.yaml")
        (answers / "kubelet.log").write_bytes(
            b"".join((self.folder.parent / log).read_bytes() for log in LOGS[self.name])
        )
        return Host.under(target)

    def containers(self) -> tuple[Container, ...]:
        """As an inventory finds them that can read no process: without names, sandboxes not told apart."""
        return tuple(container for container, _ in self._cgroups())

    def cpusets(self) -> dict[ContainerId, Cpuset]:
        return {container.id: cpuset for container, cpuset in self._cgroups()}

    def _cgroups(self) -> list[tuple[Container, Cpuset]]:
        lines = self.read("cgroup-cpusets.txt").decode().splitlines()
        return [_cgroup(1000 + index, line) for index, line in enumerate(lines)]


def _cgroup(id_: int, line: str) -> tuple[Container, Cpuset]:
    path, mems, cpus = line.split(" ")
    place = cgroup_path.parse(f"/{path}")
    container = Container(
        id=ContainerId(id_),
        path=f"/{path}",
        kind=place.kind,
        qos=place.qos,
        container_id=place.container_id,
        pod_uid=place.pod_uid,
    )
    return container, Cpuset(NodeSet.parse(mems.removeprefix("mems=")), CpuSet.parse(cpus.removeprefix("cpus=")))
