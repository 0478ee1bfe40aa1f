"""A made-up node that tests can grow and shrink: a captured tree with Kubernetes pods, cgroup v2."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
_PAGE_TYPES = (
    "anon", "file", "kernel_stack", "pagetables", "sec_pagetables", "shmem", "file_mapped", "file_dirty",
    "file_writeback", "swapcached", "anon_thp", "file_thp", "shmem_thp", "inactive_anon", "active_anon",
    "inactive_file", "active_file", "unevictable", "slab_reclaimable", "slab_unreclaimable",
    "workingset_refault_anon", "workingset_refault_file", "workingset_activate_anon", "workingset_activate_file",
    "workingset_restore_anon", "workingset_restore_file", "workingset_nodereclaim", "pgdemote_kswapd",
    "pgdemote_direct", "pgdemote_khugepaged", "pgpromote_success",
)  # fmt: skip
"""The rows of memory.numa_stat in Linux 6.12."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, as the kubelet would lay it out."""

    namespace: str
    name: str
    uid: str

    @property
    def slice(self) -> str:
        return f"/kubepods.slice/kubepods-pod{self.uid.replace('-', '_')}.slice"


@dataclass(slots=True)
class NodeTree:
    """Writes DIR/{proc,sys,var} for `--root DIR`."""

    root: Path
    nodes: int = 2
    cpus_per_node: int = 4
    _next_pid: int = 1000
    _pids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
        self._write("proc/version", "Linux version 6.12.0-made-up (builder@host) #1 SMP\n")
        self._write("proc/stat", "btime 1700000000\n")
        self._write("proc/sys/kernel/numa_balancing", "0\n")
        online = f"0-{self.nodes - 1}" if self.nodes > 1 else "0"
        for name in ("online", "possible", "has_cpu", "has_memory"):
            self._write(f"sys/devices/system/node/{name}", f"{online}\n")
        self._write("sys/devices/system/cpu/online", f"0-{self.nodes * self.cpus_per_node - 1}\n")
        for node in range(self.nodes):
            self._write_node(node)
        self._write_group("", mems=online, cpus=f"0-{self.nodes * self.cpus_per_node - 1}")
        self._write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory hugetlb\n")
        self._write_group("/kubepods.slice", mems=online, cpus=f"0-{self.nodes * self.cpus_per_node - 1}")

    def pod(self, namespace: str, name: str) -> Pod:
        """Make a pod's cgroup and log folder. Its UID follows from its name."""
        pod = Pod(namespace, name, str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{namespace}/{name}")))
        self._write_group(pod.slice)
        self._write(f"var/log/pods/{namespace}_{name}_{pod.uid}/.keep", "")
        return pod

    def container(self, pod: Pod, name: str, incarnation: int = 0, anon: tuple[int, ...] | None = None) -> str:
        """Start a container that runs on node 0 and holds `anon[i]` bytes on node i; its cgroup path."""
        container_id = hashlib.sha256(f"{pod.uid}/{name}/{incarnation}".encode()).hexdigest()
        path = f"{pod.slice}/cri-containerd-{container_id}.scope"
        self._next_pid += 1
        self._pids[path] = self._next_pid
        mount = f"/var/lib/kubelet/pods/{pod.uid}/containers/{name}/0a1b2c3d"
        line = f"300 200 259:1 {mount} /dev/termination-log rw,relatime - ext4 /dev/root rw\n"
        self._write(f"proc/{self._next_pid}/mountinfo", line)
        self._write_group(
            path, "0", f"0-{self.cpus_per_node - 1}", (3 * MIB,) * self.nodes if anon is None else anon, self._next_pid
        )
        return path

    def group(self, path: str, anon: tuple[int, ...]) -> None:
        """Make a cgroup of any name that holds these bytes on each node."""
        self._write_group(path, "", "", anon)

    def containers(self) -> list[str]:
        """The cgroup paths of those that run."""
        return list(self._pids)

    def process_of(self, path: str) -> int:
        """The process id of the one process of a container."""
        return self._pids[path]

    def hold(self, path: str, anon: tuple[int, ...]) -> None:
        """From now on a container holds these bytes on each node."""
        self._write_memory(path, anon, 4096)

    def kill(self, path: str) -> None:
        """End a container: its cgroup and process are gone."""
        shutil.rmtree(f"{self.root}/sys/fs/cgroup{path}")
        shutil.rmtree(f"{self.root}/proc/{self._pids.pop(path)}")

    def remove(self, pod: Pod) -> None:
        """Remove a pod's cgroup and its log folder."""
        shutil.rmtree(f"{self.root}/sys/fs/cgroup{pod.slice}")
        shutil.rmtree(f"{self.root}/var/log/pods/{pod.namespace}_{pod.name}_{pod.uid}")

    def fill(self, containers: int, per_pod: int = 4) -> None:
        """Pods `prod/app-N` with containers `c0`... until there are that many containers."""
        for number in range(containers // per_pod):
            pod = self.pod("prod", f"app-{number}")
            for one in range(per_pod):
                size = (number * per_pod + one + 1) * 4096
                self.container(pod, f"c{one}", anon=tuple(size * (node + 1) for node in range(self.nodes)))

    def _write_group(
        self, path: str, mems: str = "", cpus: str = "", anon: tuple[int, ...] | None = None, pid: int | None = None
    ) -> None:
        folder = f"sys/fs/cgroup{path}"
        self._write_memory(path, anon or (0,) * self.nodes, 4096 if anon else 0)
        self._write(f"{folder}/cpuset.mems.effective", f"{mems}\n")
        self._write(f"{folder}/cpuset.cpus.effective", f"{cpus}\n")
        self._write(f"{folder}/cgroup.procs", "" if pid is None else f"{pid}\n")

    def _write_memory(self, path: str, anon: tuple[int, ...], other: int) -> None:
        """`memory.numa_stat`: so much anon on each node, and `other` bytes or more of every other type."""
        lines = []
        for kind in _PAGE_TYPES:
            sizes = anon if kind == "anon" else [other * (node + 1) for node in range(self.nodes)]
            lines.append(f"{kind} {' '.join(f'N{node}={size}' for node, size in enumerate(sizes))}\n")
        self._write(f"sys/fs/cgroup{path}/memory.numa_stat", "".join(lines))

    def _write_node(self, node: int) -> None:
        folder = f"sys/devices/system/node/node{node}"
        first = node * self.cpus_per_node
        distances = " ".join("10" if other == node else "20" for other in range(self.nodes))
        self._write(f"{folder}/cpulist", f"{first}-{first + self.cpus_per_node - 1}\n")
        self._write(f"{folder}/distance", f"{distances}\n")
        sizes = {"MemTotal": 64 << 20, "MemFree": 32 << 20, "FilePages": 2048, "AnonPages": 4 << 20, "Shmem": 1024}
        meminfo = [f"Node {node} {key}: {kib} kB\n" for key, kib in sizes.items()]
        self._write(f"{folder}/meminfo", "".join(meminfo))
        hit = (node + 1) * 1000
        numastat = {"numa_hit": hit, "numa_miss": 5, "numa_foreign": 5, "interleave_hit": 0, "local_node": hit}
        self._write(
            f"{folder}/numastat", "".join(f"{key} {value}\n" for key, value in numastat.items()) + "other_node 0\n"
        )

    def _write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
