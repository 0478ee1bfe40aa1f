"""The machine as the kubelet compares it with its checkpoints, read again only when its totals change."""

from __future__ import annotations

from time import monotonic

from msgspec import Struct, field

from numaudit.errors import Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.memory.node_cpus import online_cpus, online_nodes
from numaudit.kernel.node import read_counters, read_machine
from numaudit.kubelet.sources.polled import Inputs
from numaudit.topology.machine import Machine

MACHINE_EVERY = 60.0
"""Seconds between two readings of the machine's totals: huge pages, memory and CPUs may come and go while it runs."""


class MachineWatch(Struct):
    """Follows one host's machine."""

    host: Host
    problem: str | None = None
    """Reason why the machine cannot be read whole; None = it can."""
    _machine: Machine | None = None
    _totals: Inputs = field(default_factory=Inputs)
    _not_before: float = 0.0

    def machine(self) -> Machine | None:
        """None = it cannot be read whole, so there is nothing to compare with."""
        clock = monotonic()
        if clock >= self._not_before:
            self._not_before = clock + MACHINE_EVERY
            if self._totals.changed(*_totals(self.host)):
                self._machine, self.problem = None, None
                try:
                    self._machine = read_whole_machine(self.host)
                except Unavailable as reason:
                    self.problem = str(reason)
        return self._machine


def read_whole_machine(host: Host) -> Machine:
    """The machine as it is now. Raises Unavailable when it, or memory or CPUs of one of its nodes, cannot be read."""
    machine = read_machine(host)
    unknown = [node.id for node in machine.nodes if node.memory is None]
    if unknown:
        raise Unavailable(
            f"cannot read MemTotal of nodes {unknown} in {host.nodes}, so nothing can be compared with it"
        )
    if machine.cpu_problem is not None:
        raise Unavailable(f"{machine.cpu_problem}, so nothing can be compared with this machine")
    return machine


def _totals(host: Host) -> tuple[object, ...]:
    """All that the kubelet compares, in far fewer files than the whole machine."""
    nodes = [
        (one.node, (one.meminfo or {}).get("MemTotal"), [(page.page_size, page.total) for page in one.huge_pages])
        for one in read_counters(host, online_nodes(host))
    ]
    return nodes, online_cpus(host)
