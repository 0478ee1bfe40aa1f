"""The files of a made-up host: what the kernel of such a machine would show.

They are well-formed in the kernel's own formats, and their accounts add up: a group's figures hold those
of the groups below it (cgroup v2) or not (its own rows in v1), and a node's meminfo holds every group's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
Bytes = Mapping[str, Mapping[int, int]]
"""anon, shmem, cache (page cache without shmem), locked (anon that is mlocked), stacks, tables, slab:
each byte in one of them -> node -> bytes."""

# A row of the kernel is the sum of these.
V2_ROWS = {
    "anon": ("anon", "locked"),
    "file": ("cache", "shmem"),
    "kernel_stack": ("stacks",),
    "pagetables": ("tables",),
    "sec_pagetables": (),
    "shmem": ("shmem",),
    "file_mapped": (),
    "anon_thp": (),
    "inactive_anon": ("shmem",),
    "active_anon": ("anon",),
    "inactive_file": (),
    "active_file": ("cache",),
    "unevictable": ("locked",),
    "slab_reclaimable": (),
    "slab_unreclaimable": ("slab",),
}
MOVES = ("pgdemote_kswapd", "pgdemote_direct", "pgdemote_khugepaged", "pgpromote_success")
"""Rows of kernels that count by cgroup what they move between memory tiers."""
V1_ROWS = {"file": ("cache",), "anon": ("anon", "shmem"), "unevictable": ("locked",)}
MEMINFO = {
    "Active(anon)": ("anon",),
    "Active(file)": ("cache",),
    "Unevictable": ("locked",),
    "FilePages": ("cache", "shmem"),
    "AnonPages": ("anon", "locked"),
    "Shmem": ("shmem",),
    "KernelStack": ("stacks",),
    "PageTables": ("tables",),
    "Slab": ("slab",),
}


@dataclass(frozen=True)
class HugePages:
    kib: int
    total: int
    free: int
    surplus: int = 0


@dataclass(frozen=True)
class Node:
    id: int
    cpus: str
    mib: int
    distances: str
    huge_pages: tuple[HugePages, ...] = ()
    speed: tuple[int, int] | None = None
    """By the firmware: nanoseconds and MiB in a second, for the node of `near`."""
    near: int = 0


@dataclass(frozen=True)
class Group:
    """One cgroup: what it holds itself, where it may run, and its processes."""

    path: str
    own: Bytes = field(default_factory=dict)
    huge: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """`2MB` -> node -> bytes."""
    mems: str | None = None
    cpus: str | None = None
    procs: tuple[int, ...] = ()
    moved: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Rows of memory.numa_stat of which MOVES has the names -> node -> pages."""


@dataclass(frozen=True)
class Process:
    pid: int
    comm: str
    cgroup: str
    """The lines of /proc/PID/cgroup."""
    numa_maps: str
    mountinfo: str = ""
    threads: tuple[Thread, ...] = ()
    """The main thread first; none = neither `stat` nor `status` is there."""
    namespace: str = ""
    """Its ids in the PID namespaces below the host's."""


@dataclass(frozen=True)
class Thread:
    """One thread, with the CPUs that it may run on and the one it ran on last."""

    id: int
    cpus: str
    last_cpu: int
    seconds: int = 0
    policy: str = "default"
    name: str = ""


@dataclass(frozen=True)
class Host:
    nodes: Sequence[Node]
    groups: Sequence[Group]
    """Parents first; the first is the root."""
    processes: Sequence[Process] = ()
    v1: bool = False
    cpuset_paths: frozenset[str] | None = None
    """cgroup v1: the groups that the cpuset hierarchy has too. None = all."""
    possible: str = ""
    huge_sizes: tuple[str, ...] = ()
    pod_logs: tuple[str, ...] = ()
    cpus_per_socket: int = 4
    threads: int = 1
    numa_balancing: int = 1
    tiers: Mapping[int, str] = field(default_factory=dict)
    """Number of a memory tier -> its nodes. Empty = an old kernel."""
    demotion: bool = False


def files_of(host: Host) -> dict[str, str]:
    """Path below the root -> text."""
    return {
        **_machine_files(host),
        **_node_files(host),
        **(_v1_files(host) if host.v1 else _v2_files(host)),
        **_process_files(host),
        **{f"var/log/pods/{name}/.keep": "" for name in host.pod_logs},
    }


def _machine_files(host: Host) -> dict[str, str]:
    online = _list(node.id for node in host.nodes)
    cpus = _list(cpu for node in host.nodes for cpu in _ids(node.cpus))
    mounts = ["proc /proc proc rw 0 0", "sysfs /sys sysfs rw 0 0"]
    if host.v1:
        mounts.append("tmpfs /sys/fs/cgroup tmpfs ro,mode=755 0 0")
        mounts += [f"cgroup /sys/fs/cgroup/{name} cgroup rw,{name} 0 0" for name in ("cpuset", "memory", "hugetlb")]
    else:
        mounts.append("cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0")
    files = {
        "proc/mounts": "\n".join(mounts) + "\n",
        "proc/version": "Linux version 6.6.0-made-up (builder@host) #1 SMP\n",
        "proc/sys/kernel/numa_balancing": f"{host.numa_balancing}\n",
        "sys/devices/system/node/online": f"{online}\n",
        "sys/devices/system/node/possible": f"{host.possible or online}\n",
        "sys/devices/system/node/has_cpu": f"{_list(node.id for node in host.nodes if node.cpus)}\n",
        "sys/devices/system/node/has_memory": f"{_list(node.id for node in host.nodes if node.mib)}\n",
        "sys/devices/system/cpu/online": f"{cpus}\n",
    }
    for tier, nodes in host.tiers.items():
        files[f"sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist"] = f"{nodes}\n"
        files["sys/kernel/mm/numa/demotion_enabled"] = f"{str(host.demotion).lower()}\n"
    for node in host.nodes:
        for cpu in _ids(node.cpus):
            core, folder = cpu // host.threads, f"sys/devices/system/cpu/cpu{cpu}"
            siblings = _list(range(core * host.threads, (core + 1) * host.threads))
            files[f"{folder}/topology/physical_package_id"] = f"{cpu // host.cpus_per_socket}\n"
            files[f"{folder}/topology/core_id"] = f"{core}\n"
            files[f"{folder}/topology/thread_siblings_list"] = f"{siblings}\n"
            files[f"{folder}/cache/index3/level"] = "3\n"
            files[f"{folder}/cache/index3/id"] = f"{node.id}\n"
    return files


def _node_files(host: Host) -> dict[str, str]:
    files = {}
    for node in host.nodes:
        folder = f"sys/devices/system/node/node{node.id}"
        files[f"{folder}/cpulist"] = f"{node.cpus}\n"
        files[f"{folder}/distance"] = f"{node.distances}\n"
        files[f"{folder}/meminfo"] = _meminfo(node, host.groups)
        files[f"{folder}/numastat"] = _numastat(node)
        if node.speed is not None:
            initiators = f"{folder}/access1/initiators"
            for name, figure in zip(("latency", "bandwidth"), node.speed, strict=True):
                files |= {f"{initiators}/{access}_{name}": f"{figure}\n" for access in ("read", "write")}
            files[f"{initiators}/node{node.near}/.keep"] = ""
        for pages in node.huge_pages:
            size = f"{folder}/hugepages/hugepages-{pages.kib}kB"
            files[f"{size}/nr_hugepages"] = f"{pages.total}\n"
            files[f"{size}/free_hugepages"] = f"{pages.free}\n"
            files[f"{size}/surplus_hugepages"] = f"{pages.surplus}\n"
    return files


def _meminfo(node: Node, groups: Sequence[Group]) -> str:
    used = sum(by_node.get(node.id, 0) for group in groups for by_node in group.own.values())
    used += sum(pages.total * pages.kib for pages in node.huge_pages) * KIB
    rows = {"MemTotal": node.mib * MIB, "MemFree": node.mib * MIB - used, "MemUsed": used}
    rows |= {key: _held(groups, parts).get(node.id, 0) for key, parts in MEMINFO.items()}
    lines = [f"Node {node.id} {key + ':':<15}{value // KIB:>8} kB" for key, value in rows.items()]
    default = next((pages for pages in node.huge_pages if pages.kib == 2048), HugePages(2048, 0, 0))
    counts = {"HugePages_Total": default.total, "HugePages_Free": default.free, "HugePages_Surp": default.surplus}
    lines += [f"Node {node.id} {key + ':':<16}{value:>6}" for key, value in counts.items()]
    return "\n".join(lines) + "\n"


def _numastat(node: Node) -> str:
    hit = (node.id + 1) * 1000 if node.mib else 0
    local = hit if node.cpus else 0
    rows = {"numa_hit": hit, "numa_miss": 0, "numa_foreign": 0, "interleave_hit": 0, "local_node": local}
    return "".join(f"{key} {value}\n" for key, value in {**rows, "other_node": hit - local}.items())


def _v2_files(host: Host) -> dict[str, str]:
    files = {"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n"}
    nodes = [node.id for node in host.nodes]
    inodes = []
    for number, group in enumerate(host.groups):
        path = group.path.rstrip("/")
        folder = f"sys/fs/cgroup{path}"
        below = _below(host, group)
        rows = [f"{key} {_by_node(_held(below, parts), nodes)}" for key, parts in V2_ROWS.items()]
        for row in MOVES if host.tiers else ():
            rows.append(f"{row} {_by_node(_sum(one.moved.get(row, {}) for one in below), nodes)}")
        files[f"{folder}/memory.numa_stat"] = "\n".join(rows) + "\n"
        files[f"{folder}/cgroup.procs"] = "".join(f"{pid}\n" for pid in group.procs)
        files[f"{folder}/cpuset.mems.effective"] = f"{_inherited(host, group, 'mems')}\n"
        files[f"{folder}/cpuset.cpus.effective"] = f"{_inherited(host, group, 'cpus')}\n"
        for size in host.huge_sizes if path else ():
            held = _sum(one.huge.get(size, {}) for one in below)
            files[f"{folder}/hugetlb.{size}.numa_stat"] = f"total={sum(held.values())} {_by_node(held, nodes)}\n"
        inodes.append(f"{_inode(number)} {_escape(f'/{folder}')}\n")
    files["cgroup-inodes.txt"] = "".join(inodes)
    return files


def _v1_files(host: Host) -> dict[str, str]:
    files = {}
    inodes = []
    nodes = [node.id for node in host.nodes]
    for number, group in enumerate(host.groups):
        path = group.path.rstrip("/")
        below = _below(host, group)
        rows = []
        for prefix, members in (("", [group]), ("hierarchical_", below)):
            for key, parts in (("total", sum(V1_ROWS.values(), ())), *V1_ROWS.items()):
                pages = {node: size // 4096 for node, size in _held(members, parts).items()}
                rows.append(f"{prefix}{key}={sum(pages.values())} {_by_node(pages, nodes)}")
        memory = f"sys/fs/cgroup/memory{path}"
        files[f"{memory}/memory.numa_stat"] = "\n".join(rows) + "\n"
        usage = sum(sum(by_node.values()) for one in below for by_node in one.own.values())
        files[f"{memory}/memory.usage_in_bytes"] = f"{usage}\n"
        files[f"{memory}/cgroup.procs"] = "".join(f"{pid}\n" for pid in group.procs)
        inodes.append(f"{_inode(number)} /{memory}\n")
        for size in host.huge_sizes:
            own, all_ = _sum([group.huge.get(size, {})]), _sum(one.huge.get(size, {}) for one in below)
            files[f"sys/fs/cgroup/hugetlb{path}/hugetlb.{size}.numa_stat"] = (
                f"total={sum(own.values())} {_by_node(own, nodes)}\n"
                f"hierarchical_total={sum(all_.values())} {_by_node(all_, nodes)}\n"
            )
        if host.cpuset_paths is None or group.path in host.cpuset_paths:
            cpuset = f"sys/fs/cgroup/cpuset{path}"
            files[f"{cpuset}/cpuset.effective_mems"] = f"{_inherited(host, group, 'mems')}\n"
            files[f"{cpuset}/cpuset.effective_cpus"] = f"{_inherited(host, group, 'cpus')}\n"
    files["cgroup-inodes.txt"] = "".join(inodes)
    return files


def _process_files(host: Host) -> dict[str, str]:
    files = {}
    for process in host.processes:
        folder = f"proc/{process.pid}"
        files[f"{folder}/comm"] = f"{process.comm}\n"
        files[f"{folder}/cgroup"] = process.cgroup
        files[f"{folder}/numa_maps"] = process.numa_maps
        if process.mountinfo:
            files[f"{folder}/mountinfo"] = process.mountinfo
        for thread in process.threads:
            own = f"{folder}/task/{thread.id}"
            files |= _thread_files(host, own, process, thread)
            files[f"{own}/numa_maps"] = f"55d000000000 {thread.policy} file=/usr/bin/rank N0=1 kernelpagesize_kB=4\n"
            if thread is process.threads[0]:
                files |= _thread_files(host, folder, process, thread)
    if any(process.threads for process in host.processes):
        files["proc/stat"] = "cpu 0\nbtime 1790000000\n"
    return files


def _thread_files(host: Host, folder: str, process: Process, thread: Thread) -> dict[str, str]:
    name = thread.name or process.comm
    nodes = _list(node.id for node in host.nodes if node.mib)
    return {
        f"{folder}/stat": f"{thread.id} ({name}) S 1 {'0 ' * 9}{100 * thread.seconds} 0 0 0 20 0 1 0 "
        f"{100 * process.pid} {'0 ' * 16}{thread.last_cpu} 0 0\n",
        f"{folder}/status": f"Name:\t{name}\nPid:\t{thread.id}\nNSpid:\t{thread.id} {process.namespace}\n"
        f"Threads:\t{len(process.threads)}\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n"
        f"Cpus_allowed_list:\t{thread.cpus}\nMems_allowed_list:\t{nodes}\n",
    }


def _below(host: Host, group: Group) -> list[Group]:
    prefix = group.path.rstrip("/") + "/"
    return [one for one in host.groups if one is group or one.path.startswith(prefix)]


def _inherited(host: Host, group: Group, name: str) -> str:
    """The effective set: the group's own, else that of the nearest group above, else all of the machine."""
    by_path = {one.path: one for one in host.groups}
    path = group.path
    while True:
        value = getattr(by_path[path], name)
        if value is not None:
            return str(value)
        if path == "/":
            break
        path = path.rpartition("/")[0] or "/"
    if name == "mems":
        return _list(node.id for node in host.nodes if node.mib)
    return _list(cpu for node in host.nodes for cpu in _ids(node.cpus))


def _held(groups: Iterable[Group], parts: Iterable[str]) -> dict[int, int]:
    parts = tuple(parts)
    return _sum(group.own.get(part, {}) for group in groups for part in parts)


def _sum(parts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for part in parts:
        for node, size in part.items():
            sums[node] = sums.get(node, 0) + size
    return sums


def _by_node(by_node: Mapping[int, int], nodes: Sequence[int]) -> str:
    return " ".join(f"N{node}={by_node.get(node, 0)}" for node in nodes)


def _inode(number: int) -> int:
    return 1 if number == 0 else 100 + 37 * number


def _escape(path: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in path)


def _ids(text: str) -> list[int]:
    bounds = [part.split("-") for part in text.split(",") if part]
    return [one for pair in bounds for one in range(int(pair[0]), int(pair[-1]) + 1)]


def _list(ids: Iterable[int]) -> str:
    """`0-1,3`, as the kernel writes it."""
    parts: list[list[int]] = []
    for one in sorted(ids):
        if parts and parts[-1][1] == one - 1:
            parts[-1][1] = one
        else:
            parts.append([one, one])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def write_tree(host: Host, folder: Path) -> None:
    """The files of the host below a new folder."""
    for path, text in files_of(host).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
