"""/sys/devices/system/node and /sys/devices/system/cpu: the machine and each node's own counters.

Source: the kernel's drivers/base/{node,cpu,cacheinfo}.c, Documentation/admin-guide/numastat.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, number_at, numbered, text_at
from numaudit.kernel.memory import physical, tiers
from numaudit.kernel.memory.node_cpus import online_cpus, online_nodes, read_cpus, read_list
from numaudit.topology.machine import Cache, Cpu, HugePagePool, HugePages, Machine, Node, only_node_of
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemoryTiers

_KIB = 1024
_HUGE_DIR = re.compile(r"hugepages-([1-9]\d{0,11})kB", re.ASCII)
_MEMINFO = re.compile(r"Node\s+\d+\s+([^:]{1,64}):\s+(\d{1,19})( kB)?", re.ASCII)
_CACHE_SIZE = re.compile(r"(\d{1,12})K", re.ASCII)
_LOWEST_SHARED = 2
"""Level of a cache that cores may share; those of the first are a core's own."""
_CACHE = re.compile(r"index(\d{1,3})", re.ASCII)
_CPU_LIST_FILES = ("thread_siblings_list", "core_cpus_list")


class MachineNow(Struct):
    """One host's machine, read whole only when CPUs or nodes have come or gone, or are in other memory tiers."""

    host: Host
    _machine: Machine
    _online: _Online

    @classmethod
    def of(cls, host: Host) -> MachineNow:
        """Raises Unavailable when the kernel shows no NUMA node."""
        online = _online(host)
        return cls(host, read_machine(host), online)

    def read(self) -> Machine:
        """The machine as it is now; as it was, where the kernel shows no node any more."""
        online = _online(self.host)
        if online != self._online:
            self._online = online
            with suppress(Unavailable):
                self._machine = read_machine(self.host)
        return self._machine


class NodeCounters(Struct, frozen=True):
    """One node's own figures. None = the file was missing or unreadable."""

    node: int
    meminfo: Mapping[str, int] | None
    """By the kernel's name (MemTotal, AnonPages, ...): bytes, except HugePages_*: pages."""
    numastat: Mapping[str, int] | None
    """numa_hit, numa_miss, numa_foreign, interleave_hit, local_node, other_node: pages."""
    huge_pages: tuple[HugePages, ...]


def read_machine(host: Host) -> Machine:
    """The machine as sysfs shows it. Raises Unavailable when the kernel shows no NUMA node."""
    ids = online_nodes(host)
    if not ids:
        raise Unavailable(
            f"{host.nodes} shows no node: this kernel was built without NUMA or sysfs is not mounted; "
            "mount sysfs, or give --root a tree that holds sys/devices/system/node"
        )
    online = online_cpus(host)
    cpus_of = read_cpus(host, ids, online)
    nodes = tuple(_read_node(host.nodes / f"node{node}", node, ids, cpus_of[node]) for node in ids)
    node_of = only_node_of(nodes)
    cpus = tuple(_read_cpu(host, cpu, node_of.get(cpu)) for cpu in online or sorted(node_of))
    possible = read_list(host.nodes / "possible", NodeSet) or ids
    return Machine(nodes, cpus, possible, physical.read_page_size(host), tiers.read(host))


def largest_cache(host: Host) -> int | None:
    """Bytes of the largest cache that a CPU uses; None = the kernel does not say."""
    sizes = [
        int(match[1]) * _KIB
        for cpu in online_cpus(host) or ()
        for folder in files.glob(host.cpus, f"cpu{cpu}/cache/index*")
        if (match := _CACHE_SIZE.fullmatch(text_at(folder / "size") or "")) is not None
    ]
    return max(sizes, default=None)


def read_caches(host: Host) -> tuple[Cache, ...]:
    """Caches of the second level and above, the outermost first. Empty = the kernel shows none."""
    found = {}
    for cpu in online_cpus(host) or ():
        for folder in files.glob(host.cpus, f"cpu{cpu}/cache/index*"):
            level, cpus = number_at(folder / "level"), read_list(folder / "shared_cpu_list", CpuSet)
            if level is not None and level >= _LOWEST_SHARED and cpus and (level, cpus) not in found:
                kib = _CACHE_SIZE.fullmatch(text_at(folder / "size") or "")
                found[level, cpus] = Cache(level, cpus, None if kib is None else int(kib[1]) * _KIB)
    return tuple(sorted(found.values(), key=lambda one: (-one.level, min(one.cpus))))


def read_counters(host: Host, nodes: NodeSet) -> tuple[NodeCounters, ...]:
    """Every node's meminfo, numastat and huge pages now."""
    return tuple(_read_counters(host.nodes / f"node{node}", node) for node in nodes)


def read_huge_page_pools(host: Host) -> tuple[HugePagePool, ...]:
    """Counts of huge pages that the kernel keeps for the machine as a whole, by page size. Empty = it shows none."""
    folder = host.sys / "kernel/mm/hugepages"
    pools = [
        HugePagePool(
            kib * _KIB,
            number_at(folder / name / "resv_hugepages"),
            number_at(folder / name / "nr_overcommit_hugepages"),
        )
        for kib, name in numbered(folder, _HUGE_DIR)
    ]
    return tuple(sorted(pools, key=lambda one: one.page_size))


def parse_meminfo(text: str) -> dict[str, int]:
    """`Node 0 MemTotal: 1030452 kB` lines; values in bytes, HugePages_* in pages. Unknown lines are left out."""
    values: dict[str, int] = {}
    for line in text.splitlines():
        match = _MEMINFO.fullmatch(line.strip())
        if match is not None:
            values[match[1]] = int(match[2]) * (_KIB if match[3] else 1)
    return values


def parse_key_values(text: str) -> dict[str, int]:
    """`name value` lines as in numastat. Lines of another form are left out."""
    values: dict[str, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key and value.isascii() and value.strip().isdigit() and len(value) < 25:
            values[key] = int(value)
    return values


def parse_distances(text: str, nodes: NodeSet) -> dict[int, int]:
    """One SLIT row. The kernel prints one value per online node, in ascending order.

    Raises ParseError when the row does not have one value for each node.
    """
    values = text.split()
    if len(values) != len(nodes) or not all(value.isascii() and value.isdigit() for value in values):
        raise ParseError(f"{len(nodes)} nodes are online, but the distance row is {text.strip()[:80]!r}")
    return dict(zip(nodes, (int(value[:9]) for value in values), strict=True))


_Online = tuple[CpuSet | None, NodeSet, MemoryTiers | None]


def _online(host: Host) -> _Online:
    return online_cpus(host), online_nodes(host), tiers.read(host)


def _read_node(folder: Path, node: int, online: NodeSet, cpus: CpuSet | None) -> Node:
    meminfo = _meminfo(folder)
    distances, unused_row = _distances(folder / "distance", online)
    return Node(
        id=node,
        cpus=cpus,
        memory=None if meminfo is None else meminfo.get("MemTotal"),
        huge_pages=_read_huge_pages(folder / "hugepages"),
        distances=distances,
        unused_distances=unused_row,
        speed=tiers.read_speed(folder),
    )


def _read_counters(folder: Path, node: int) -> NodeCounters:
    return NodeCounters(
        node=node,
        meminfo=_meminfo(folder),
        numastat=_key_values(folder / "numastat"),
        huge_pages=_read_huge_pages(folder / "hugepages"),
    )


def _read_huge_pages(folder: Path) -> tuple[HugePages, ...]:
    pages = []
    for kib, name in numbered(folder, _HUGE_DIR):
        total = number_at(folder / name / "nr_hugepages")
        if total is not None:
            free = number_at(folder / name / "free_hugepages")
            surplus = number_at(folder / name / "surplus_hugepages")
            pages.append(HugePages(kib * _KIB, total, free, surplus))
    return tuple(sorted(pages, key=lambda one: one.page_size))


def _read_cpu(host: Host, cpu: int, node: int | None) -> Cpu:
    folder = host.cpus / f"cpu{cpu}"
    topology = folder / "topology"
    siblings = next((found for name in _CPU_LIST_FILES if (found := read_list(topology / name, CpuSet))), CpuSet())
    return Cpu(
        id=cpu,
        node=node,
        socket=number_at(topology / "physical_package_id"),
        core=number_at(topology / "core_id"),
        siblings=siblings,
        l3_cache=_l3_cache(folder / "cache"),
    )


def _l3_cache(folder: Path) -> int | None:
    for _, name in numbered(folder, _CACHE):
        if number_at(folder / name / "level") == 3:
            return number_at(folder / name / "id")
    return None


def _distances(path: Path, online: NodeSet) -> tuple[dict[int, int], str | None]:
    """The row, or the text that is none."""
    text = text_at(path)
    if not text:
        return {}, None
    try:
        return parse_distances(text, online), None
    except ParseError:
        return {}, text[:80]


def _meminfo(folder: Path) -> dict[str, int] | None:
    text = text_at(folder / "meminfo")
    return parse_meminfo(text) if text else None


def _key_values(path: Path) -> dict[str, int] | None:
    text = text_at(path)
    return parse_key_values(text) if text else None
