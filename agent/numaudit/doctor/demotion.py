"""Demotion: memory of a known process that the kernel moves to a slower tier, in our figures and in its page table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from numaudit.api.document import CheckState, SelfTestCheck
from numaudit.doctor.near_and_far import MIB, Worker
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies, Reader
from numaudit.kernel.host import Host
from numaudit.kernel.memory import numa_maps, tiers
from numaudit.snapshot import Resident
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet

_SLACK = MIB // 2
"""Bytes by which two accounts may differ: the kernel keeps a batch of pages of its counters with each CPU."""
_PATIENCE = 10.0
"""Seconds for memory.numa_stat to follow, which the kernel adds up every two seconds."""
_ON_LISTS = ("anon", "shmem", "file")
"""Types of pages that the kernel reclaims, and so demotes."""


class DemotedMemory(NamedTuple):
    """Bytes on slower nodes since the test began, and how they came there."""

    in_page_table: int
    """Anonymous pages of the process, by its page table."""
    in_file_mappings: int
    """Pages of files that it maps, also by its page table, which does not say how many are copies of its own (anon)."""
    anon: int
    """The cgroup's anon, by memory.numa_stat."""
    of_cgroup: int
    """The cgroup's anon, shmem and file."""
    counted: int | None
    """By the cgroup's own counters; None = this kernel (before Linux 6.12) has none."""

    @property
    def state(self) -> CheckState:
        """Inconclusive where the kernel has moved nothing."""
        if self.in_page_table < _SLACK:
            return "inconclusive"
        agree = self.in_page_table - _SLACK <= self.anon <= self.in_page_table + self.in_file_mappings + _SLACK
        agree = agree and (self.counted is None or abs(self.counted - self.of_cgroup) <= _SLACK)
        return "passed" if agree else "failed"

    @property
    def result(self) -> SelfTestCheck:
        expected = f"{_mib(self.in_page_table)} on slower nodes, by the page table"
        if self.in_file_mappings:
            expected += f", and copies of at most {_mib(self.in_file_mappings)} of files"
        if self.state == "inconclusive":
            return SelfTestCheck("demotion", self.state, "", "the kernel moved no memory when it was asked to")
        counters = "this kernel does not count by cgroup" if self.counted is None else f"{_mib(self.counted)} counted"
        seen = f"{_mib(self.anon)} of anon there and {_mib(self.of_cgroup - self.anon)} of files; {counters}"
        return SelfTestCheck("demotion", self.state, expected, seen)


def check_demotion(host: Host, machine: Machine, hierarchies: Hierarchies, worker: Worker) -> SelfTestCheck:
    """Have half of the worker's memory reclaimed, which demotes it, and compare. It may use slower nodes meanwhile.

    Raises Unavailable where nothing can be demoted, OSError.
    """
    if machine.tiers is None or not machine.tiers.are_several:
        raise Unavailable("there is one memory tier, so there is nothing to test")
    if not tiers.read_settings(host).demotion:
        raise Unavailable("demotion is off (/sys/kernel/mm/numa/demotion_enabled), so there is nothing to test")
    if worker.memory_node is None or not hierarchies.is_v2:
        raise Unavailable("cpuset and memory are no controllers of cgroup version 2 here, so no memory can be placed")
    slower = machine.tiers.below(NodeSet.of(worker.memory_node))
    if not slower:
        raise Unavailable(f"node {worker.memory_node} is in the slowest tier")
    worker.work.order("rest")
    before = _resident(machine, hierarchies, worker), _in_page_table(host, worker, slower)
    worker.group.write("cpuset.mems", str(slower | NodeSet.of(worker.memory_node)))
    try:
        _reclaim(worker)
        deadline = time.monotonic() + _PATIENCE
        while True:
            found = _since(before, host, machine, hierarchies, worker, slower)
            if found.state == "passed" or time.monotonic() > deadline:
                return found.result
            time.sleep(0.2)
    finally:
        worker.group.write("cpuset.mems", str(worker.memory_node))


def _reclaim(worker: Worker) -> None:
    try:
        worker.group.write("memory.reclaim", str(worker.work.size // 2))
    except BlockingIOError:  # the kernel has reclaimed less
        return
    except FileNotFoundError:
        raise Unavailable("this kernel has no memory.reclaim (Linux 5.19)") from None


def _since(
    before: tuple[Resident, tuple[int, int]],
    host: Host,
    machine: Machine,
    hierarchies: Hierarchies,
    worker: Worker,
    slower: NodeSet,
) -> DemotedMemory:
    resident, (earlier, mapped_before) = _resident(machine, hierarchies, worker), before
    mapped = [now - then for now, then in zip(_in_page_table(host, worker, slower), mapped_before, strict=True)]
    anon, of_cgroup = (
        _on(resident.sum_of(types), slower) - _on(earlier.sum_of(types), slower) for types in (("anon",), _ON_LISTS)
    )
    counted = None
    if resident.demoted is not None:
        counted = sum(resident.demoted.values()) - sum((earlier.demoted or {}).values())
    return DemotedMemory(mapped[0], max(0, mapped[1]), anon, of_cgroup, counted)


def _resident(machine: Machine, hierarchies: Hierarchies, worker: Worker) -> Resident:
    path = f"/{worker.group.path.relative_to(hierarchies.memory)}"
    return Reader(hierarchies, page_size=machine.page_size, is_tiered=True).resident(path)


def _in_page_table(host: Host, worker: Worker, nodes: NodeSet) -> tuple[int, int]:
    """Bytes of the process on these nodes: of anonymous mappings, and of mappings of files."""
    mapped = numa_maps.read(host, worker.work.process.pid)
    own = sum(_on(one.bytes_by_node, nodes) for one in mapped if one.kind in ("anon", "heap", "stack"))
    return own, sum(_on(one.bytes_by_node, nodes) for one in mapped if one.kind == "file")


def _on(by_node: Mapping[int, int], nodes: NodeSet) -> int:
    return sum(size for node, size in by_node.items() if node in nodes)


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
