"""cpu_time: on which node's CPUs each cgroup ran, and for how long (bpf/cpu_time.bpf.c).

Time is the wall clock's while the task was on the CPU: interrupts that hit it, and time that a hypervisor took,
are included. The root cgroup, where the idle task and kernel threads are, is left out.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from numaudit.kernel import bpf, perf_event
from numaudit.kernel.bpf import ProgramType
from numaudit.kernel.bpf_map import Entries, sum_per_cpu
from numaudit.kernel.host import Host, read_text
from numaudit.probes import reasons
from numaudit.probes.bpf_probe import BpfProbe
from numaudit.probes.loader import LoadedProbe, ProbeRequest, Program
from numaudit.probes.probe import Kind, Loss, Reading
from numaudit.topology.nodeset import CpuSet

_ON_CGROUP_SWITCH = "cpu_time_on_cgroup_switch"
_CHARGE = "cpu_time_charge"
_RESTART = "cpu_time_restart"
_ON_ATTACH_TASK = "cpu_time_on_attach_task"
_KEY = "=QQ"  # struct cpu_time_key

Hook = Literal["cgroup-switches", "sched_switch"]


@dataclass(frozen=True, slots=True)
class CpuTimes(Reading):
    """How long the tasks in each cgroup ran since load.

    `busy` in `lost`: switches for which the kernel did not run the program. Their time went to the cgroup that ran
    next on that CPU, and with the hook cgroup-switches any idle time before it too.
    """

    by_node: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Nanoseconds by node."""
    switches: int | None = None
    """How often the program ran; None where the hook does not show it."""

    @property
    def events(self) -> int | None:
        return self.switches


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load."""
    return ProbeRequest(
        name="cpu_time",
        programs=(
            Program(_ON_CGROUP_SWITCH, ProgramType.PERF_EVENT),
            Program(_CHARGE, ProgramType.RAW_TRACEPOINT),
            Program(_RESTART, ProgramType.RAW_TRACEPOINT),
            Program(_ON_ATTACH_TASK, ProgramType.RAW_TRACEPOINT),
        ),
        maps=("cpu_time_ns", "cpu_time_cpu"),
        defines={"CPU_TIME_ENTRIES": cgroups * nodes},
    )


class CpuTime(BpfProbe):
    """The running probe."""

    tables = ("ns",)

    def __init__(self, host: Host, loaded: LoadedProbe, hook: Hook | None = None) -> None:
        """Attach to `hook`, or to the cheaper one that works here. Raises Refusal, and OSError."""
        self._wanted = hook
        self._events: dict[int, int] = {}
        """CPU -> its event cgroup-switches."""
        self._past_switches = 0
        """What events counted that are closed because their CPU went offline."""
        super().__init__(host, loaded)

    def read(self) -> CpuTimes:
        """All time since load, the interval that is open on each CPU included.

        With the hook cgroup-switches a CPU that comes online is watched from the next read on.
        """
        if self.hook == "cgroup-switches":
            self._follow_online_cpus()
        for cpu in self._online():
            self._run(_CHARGE, cpu)
        fired = self._past_switches + sum(perf_event.read_count(event) for event in self._events.values())
        cpus = self._maps["cpu"]
        _, (seen,) = (sum_per_cpu(cpus.lookup(bytes(4)) or b"", cpus.cpus, field, fields=2) for field in range(2))
        by_events = self.hook == "cgroup-switches"
        missed = max(0, fired - seen) if by_events else self._missed([_CHARGE])
        lost: dict[Loss, int] = {"map-full": self._dropped(), "busy": missed}
        return decode(self._maps["ns"].read(), self._maps["ns"].cpus, lost, switches=seen if by_events else None)

    def pause(self) -> None:
        for event in self._events.values():
            self._past_switches += perf_event.read_count(event)
            os.close(event)
        self._events.clear()
        super().pause()

    def _attach(self) -> None:
        self.hook = self._attach_switches()
        self._attach_raw_tracepoint("cgroup_notify_populated", _CHARGE)
        self._attach_raw_tracepoint("cgroup_attach_task", _ON_ATTACH_TASK)

    def _attach_switches(self) -> Hook:
        hook = self._wanted or choose_hook(read_text(self._host.proc / "cgroups"))
        if hook == "cgroup-switches":
            try:
                self._follow_online_cpus()
            except OSError as error:
                self.pause()
                if self._wanted is not None:
                    raise reasons.of_perf_event("cannot attach to the event cgroup-switches", error) from error
            else:
                return hook
        for cpu in self._online():
            self._run(_RESTART, cpu)
        self._attach_raw_tracepoint("sched_switch", _CHARGE)
        return "sched_switch"

    def _try_out(self, times: int) -> None:
        """Close the open interval of this CPU again and again: the sums stay right."""
        for _ in range(times):
            bpf.run(self._loaded.programs[_CHARGE])

    def _follow_online_cpus(self) -> None:
        """Have one event on each CPU that is online. Raises OSError."""
        online = self._online()
        for cpu in [cpu for cpu in self._events if cpu not in online]:
            event = self._events.pop(cpu)
            self._past_switches += perf_event.read_count(event)
            os.close(event)
        for cpu in online:
            if cpu not in self._events:
                self._watch(cpu)

    def _watch(self, cpu: int) -> None:
        self._run(_RESTART, cpu)
        try:
            event = perf_event.open_event(perf_event.CGROUP_SWITCHES, cpu=cpu)
        except OSError as error:
            if error.errno == errno.ENODEV:  # gone offline this moment
                return
            raise
        self._events[cpu] = event
        perf_event.set_program(event, self._loaded.programs[_ON_CGROUP_SWITCH])
        perf_event.enable(event)

    def _run(self, program: str, cpu: int) -> None:
        try:
            bpf.run_on_cpu(self._loaded.programs[program], cpu)
        except OSError as error:
            if error.errno != errno.ENXIO:  # gone offline this moment
                raise

    def _online(self) -> CpuSet:
        return CpuSet.parse(read_text(self._host.cpus / "online"))


CPU_TIME = Kind("cpu_time", request, CpuTime, ns_per_event=260.0)


def decode(
    entries: Iterable[Entries], cpus: int, lost: Mapping[Loss, int] | None = None, switches: int | None = None
) -> CpuTimes:
    """Map entries as the kernel packs them, per-CPU values of `cpus` u64, into sums by cgroup and node."""
    by_node: dict[int, dict[int, int]] = {}
    for chunk in entries:
        keys = struct.iter_unpack(_KEY, chunk.keys)
        for (cgroup, node), nanoseconds in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            by_node.setdefault(cgroup, {})[node] = nanoseconds
    return CpuTimes(by_node, switches, lost=lost or {})


def choose_hook(cgroups: str) -> Hook:
    """By /proc/cgroups: the event cgroup-switches follows the perf_event controller, wherever that is mounted.

    The event opens on every kernel, but fires only when the controller is there, and shows switches between
    cgroups of version 2 only when the controller is not mounted as version 1 (hierarchy 0).
    """
    for line in cgroups.splitlines():
        name, _, rest = line.partition("\t")
        if name == "perf_event":
            hierarchy, _, enabled = rest.split("\t")
            return "cgroup-switches" if hierarchy == "0" and enabled == "1" else "sched_switch"
    return "sched_switch"
