"""Threads of one process, grouped by the nodes that they may run on and by their memory policy."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct, field

from numaudit.errors import printable
from numaudit.kernel.tasks import Thread
from numaudit.snapshot.processes import ThreadGroup, TimeSource
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet, NodeSet

_NAMES = 3
_Key = tuple[NodeSet | None, str | None, NodeSet | None]


class _Group(Struct):
    """Sums of one group."""

    first: int
    cpus: CpuSet | None
    threads: int = 0
    names: list[str] = field(default_factory=list)
    last_on: dict[int, int] = field(default_factory=dict)
    ticks: dict[int, int] = field(default_factory=dict)


class ThreadGroups(Struct):
    """The groups of one process; the first thread that is added is its main thread."""

    machine: Machine
    _groups: dict[_Key, _Group] = field(default_factory=dict)
    _estimates: bool = False
    """Is there CPU time of a thread that may run on several nodes?"""

    def add(self, thread: Thread, policy: str | None, ticks: int) -> None:
        """`ticks`: clock ticks of CPU time."""
        placing, machine = thread.placing, self.machine
        nodes = None if placing.cpus is None else machine.nodes_of_cpus(placing.cpus)
        key = (nodes, policy, placing.memory_nodes)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(thread.id, placing.cpus)
        elif group.cpus is not None and placing.cpus is not None:
            group.cpus |= placing.cpus
        group.threads += 1
        if len(group.names) < _NAMES:
            name = printable(thread.task.name.decode("utf-8", "surrogateescape"))
            if name not in group.names:
                group.names.append(name)
        last = machine.node_of_cpu.get(thread.task.last_cpu)
        if last is not None:
            group.last_on[last] = group.last_on.get(last, 0) + 1
        is_on_one = nodes is not None and len(nodes) == 1
        ran_on = next(iter(nodes)) if nodes is not None and is_on_one else last
        if ran_on is not None and ticks > 0:
            group.ticks[ran_on] = group.ticks.get(ran_on, 0) + ticks
            self._estimates |= not is_on_one

    @property
    def time_source(self) -> TimeSource | None:
        if not any(group.ticks for group in self._groups.values()):
            return None
        return "last-cpu" if self._estimates else "affinity"

    @property
    def seconds(self) -> dict[int, float]:
        """CPU time by node, of all groups."""
        sums: dict[int, int] = {}
        for group in self._groups.values():
            for node, ticks in group.ticks.items():
                sums[node] = sums.get(node, 0) + ticks
        return _in_seconds(sums)

    def values(self) -> tuple[ThreadGroup, ...]:
        """The main thread's, then the largest."""
        groups = list(self._groups.items())
        order = [*groups[:1], *sorted(groups[1:], key=lambda pair: (-pair[1].threads, pair[1].first))]
        return tuple(_value(key, group) for key, group in order)


def _value(key: _Key, group: _Group) -> ThreadGroup:
    nodes, policy, memory_nodes = key
    return ThreadGroup(
        threads=group.threads,
        first_thread=group.first,
        names=tuple(group.names),
        cpus=group.cpus,
        cpu_nodes=nodes,
        memory_nodes=memory_nodes,
        policy=policy,
        last_on=_sorted(group.last_on),
        cpu_seconds=_in_seconds(group.ticks),
    )


def _sorted(by_node: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(by_node.items()))


def _in_seconds(ticks: Mapping[int, int]) -> dict[int, float]:
    return {node: count / os.sysconf("SC_CLK_TCK") for node, count in _sorted(ticks).items()}
