"""cpu_time: on which node's CPUs each cgroup ran, and for how long (bpf/cpu_time.bpf.c).

Time is the wall clock's while the task was on the CPU: interrupts that hit it, and time that a hypervisor took,
are included. The root cgroup, where the idle task and kernel threads are, is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from numaudit.kernel.host import Host
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.bpf_map import MapEntries, sum_per_cpu
from numaudit.probes import cgroup_switches
from numaudit.probes.cgroup_switches import CgroupSwitchProbe
from numaudit.probes.loading.loader import BpfProgram, ProbeRequest
from numaudit.probes.probe import Loss, ProbeKind, Reading

_KEY = "=QQ"  # struct cpu_time_key


@dataclass(frozen=True, slots=True)
class CpuTimes(Reading):
    """Time that the tasks of each cgroup ran since load.

    `busy` in `lost`: switches for which the kernel did not run the program. Their time went to the cgroup that ran
    next on that CPU. While a CPU is offline, up to 10 ms of each cgroup that ran there last are missing.
    """

    by_node: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Nanoseconds by node."""
    switches: int = 0
    """Number of times that the program ran: at switches, and a few times for readings."""
    counted_by = ("switches",)

    @property
    def events(self) -> int:
        return self.switches


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """Request for the loader."""
    return ProbeRequest(
        name="cpu_time",
        programs=(*cgroup_switches.programs("cpu_time"), BpfProgram("cpu_time_flush", ProgramType.RAW_TRACEPOINT)),
        maps=("cpu_time_ns", "cpu_time_recent", cgroup_switches.CPU_STATE),
        entries={"cpu_time_ns": cgroups * nodes},
        numbers=cgroup_switches.numbers(host),
    )


class CpuTime(CgroupSwitchProbe):
    """The running probe."""

    tables = ("ns",)
    flush = "flush"

    def read(self) -> CpuTimes:
        """All time since load, the interval that is open on each CPU included. Raises OSError."""
        self._flush()
        lost: dict[Loss, int] = {"map-full": self._dropped(), "busy": self._missed_switches()}
        return decode(self._maps["ns"].read(), self._maps["ns"].cpus, lost, self._count_runs())

    def forget(self, cgroups: Collection[int]) -> int:
        """Forget these cgroups, also in the CPUs, so that no later reading has them. Raises OSError."""
        if cgroups:
            self._flush()
        return super().forget(cgroups)


CPU_TIME = ProbeKind("cpu_time", request, CpuTime, ns_per_event=260.0)


def decode(
    entries: Iterable[MapEntries], cpus: int, lost: Mapping[Loss, int] | None = None, switches: int = 0
) -> CpuTimes:
    """Map entries as the kernel packs them, per-CPU values of `cpus` u64, into sums by cgroup and node."""
    by_node: dict[int, dict[int, int]] = {}
    for chunk in entries:
        keys = struct.iter_unpack(_KEY, chunk.keys)
        for (cgroup, node), nanoseconds in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            by_node.setdefault(cgroup, {})[node] = nanoseconds
    return CpuTimes(by_node, switches, lost=lost or {})
