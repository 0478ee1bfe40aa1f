"""cpu_time: on which node's CPUs each cgroup ran, and for how long (bpf/cpu_time.bpf.c).

Time is the wall clock's while the task was on the CPU: interrupts that hit it, and time that a hypervisor took,
are included. The root cgroup, where the idle task and kernel threads are, is left out.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from numaudit.kernel import bpf, perf_event
from numaudit.kernel.bpf import ProgramType
from numaudit.kernel.bpf_map import Entries, Map, sum_per_cpu
from numaudit.kernel.host import Host, read_text
from numaudit.probes import counters, reasons
from numaudit.probes.loader import LoadedProbe, ProbeRequest, Program
from numaudit.probes.reasons import Refusal
from numaudit.topology.nodeset import CpuSet

NAME = "cpu_time"
_ON_CGROUP_SWITCH = "cpu_time_on_cgroup_switch"
_CHARGE = "cpu_time_charge"
_RESTART = "cpu_time_restart"
_ON_ATTACH_TASK = "cpu_time_on_attach_task"
_KEY = "=QQ"  # struct cpu_time_key

Hook = Literal["cgroup-switches", "sched_switch"]


@dataclass(frozen=True, slots=True)
class CpuTimeByNode:
    """How long the tasks in each cgroup itself ran since load, by cgroup id. Descendants are not added."""

    by_node: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Nanoseconds by node."""
    dropped: int = 0
    """Intervals not counted because the map was full."""
    missed: int = 0
    """Switches for which the kernel did not run the program: their time went to the cgroup that ran next on that CPU,
    and with the hook cgroup-switches any idle time before it too."""

    switches: int | None = None
    """How often the program ran; None where the hook does not tell."""

    @property
    def events(self) -> int | None:
        """How often the program ran for what is counted here; None = not known."""
        return self.switches

    def since(self, earlier: CpuTimeByNode) -> CpuTimeByNode:
        """What came between two reads. A cgroup without news is left out."""
        return CpuTimeByNode(
            counters.added(self.by_node, earlier.by_node),
            self.dropped - earlier.dropped,
            self.missed - earlier.missed,
            None if self.switches is None or earlier.switches is None else self.switches - earlier.switches,
        )


def request(host: Host, cgroups: int, nodes: int) -> ProbeRequest:
    """What to load for so many cgroups and nodes."""
    return ProbeRequest(
        name=NAME,
        programs=(
            Program(_ON_CGROUP_SWITCH, ProgramType.PERF_EVENT),
            Program(_CHARGE, ProgramType.RAW_TRACEPOINT),
            Program(_RESTART, ProgramType.RAW_TRACEPOINT),
            Program(_ON_ATTACH_TASK, ProgramType.RAW_TRACEPOINT),
        ),
        maps=("cpu_time_ns", "cpu_time_cpu"),
        defines={"CPU_TIME_ENTRIES": cgroups * nodes},
    )


class CpuTime:
    """The running probe. Reading raises OSError."""

    def __init__(self, host: Host, loaded: LoadedProbe, hook: Hook | None = None) -> None:
        """Attach to `hook`, or to the cheaper one that works here. Raises Refusal, and OSError."""
        self._host = host
        self._loaded = loaded
        self._time = Map.of(loaded.maps["cpu_time_ns"], host)
        self._cpus = Map.of(loaded.maps["cpu_time_cpu"], host)
        self._events: dict[int, int] = {}
        """CPU -> its event cgroup-switches."""
        self._past_switches = 0
        """What events counted that are closed because their CPU went offline."""
        self._raw_tracepoints: list[int] = []
        try:
            self.hook = self._attach(hook or choose_hook(read_text(host.proc / "cgroups")), may_fall_back=hook is None)
            self._attach_raw("cgroup_notify_populated", _CHARGE)
            self._attach_raw("cgroup_attach_task", _ON_ATTACH_TASK)
        except (Refusal, OSError):
            self._detach()
            raise

    def read(self) -> CpuTimeByNode:
        """All time since load, the interval that is open on each CPU included.

        With the hook cgroup-switches a CPU that comes online is watched from the next read on.
        """
        if self.hook == "cgroup-switches":
            self._follow_online_cpus()
        for cpu in self._online():
            self._run(_CHARGE, cpu)
        fired = self._past_switches + sum(perf_event.read_count(event) for event in self._events.values())
        cpus = self._cpus.lookup(bytes(4)) or b""
        _, (seen,), (dropped,) = (sum_per_cpu(cpus, self._cpus.cpus, field, fields=3) for field in range(3))
        if self.hook == "cgroup-switches":
            missed = max(0, fired - seen)
        else:
            missed = bpf.read_program_info(self._loaded.programs[_CHARGE]).misses
        counted = decode(self._time.read(), self._time.cpus, dropped, missed)
        return replace(counted, switches=seen) if self.hook == "cgroup-switches" else counted

    def read_run_time(self) -> bpf.RunTime:
        """The kernel's account of what counts here. Raises OSError."""
        return bpf.read_run_time(self._loaded.programs.values())

    def try_out(self, times: int) -> None:
        """Close the open interval of this CPU so many times: the sums stay right. Raises OSError."""
        for _ in range(times):
            bpf.run(self._loaded.programs[_CHARGE])

    def forget_all_but(self, cgroups: Collection[int]) -> int:
        """Delete the counters of every other cgroup, so that dead ones do not fill the map; how many went."""
        return sum(
            self._time.delete(key) for key in self._time.read_keys() if struct.unpack_from("=Q", key)[0] not in cgroups
        )

    def close(self) -> None:
        self._detach()
        self._loaded.close()

    def _attach(self, hook: Hook, may_fall_back: bool) -> Hook:
        if hook == "cgroup-switches":
            try:
                self._follow_online_cpus()
            except OSError as error:
                self._detach()
                if not may_fall_back:
                    raise reasons.of_error("cannot attach to the event cgroup-switches", error) from error
            else:
                return hook
        for cpu in self._online():
            self._run(_RESTART, cpu)
        self._attach_raw("sched_switch", _CHARGE)
        return "sched_switch"

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

    def _attach_raw(self, tracepoint: str, program: str) -> None:
        try:
            self._raw_tracepoints.append(bpf.open_raw_tracepoint(tracepoint, self._loaded.programs[program]))
        except OSError as error:
            raise reasons.of_error(f"cannot attach to the raw tracepoint {tracepoint}", error) from error

    def _run(self, program: str, cpu: int) -> None:
        try:
            bpf.run_on_cpu(self._loaded.programs[program], cpu)
        except OSError as error:
            if error.errno != errno.ENXIO:  # gone offline this moment
                raise

    def _online(self) -> CpuSet:
        return CpuSet.parse(read_text(self._host.cpus / "online"))

    def _detach(self) -> None:
        for descriptor in (*self._events.values(), *self._raw_tracepoints):
            os.close(descriptor)
        self._events.clear()
        self._raw_tracepoints.clear()


def decode(entries: Iterable[Entries], cpus: int, dropped: int = 0, missed: int = 0) -> CpuTimeByNode:
    """Map entries as the kernel packs them, per-CPU values of `cpus` u64, into sums by cgroup and node."""
    by_node: dict[int, dict[int, int]] = {}
    for chunk in entries:
        keys = struct.iter_unpack(_KEY, chunk.keys)
        for (cgroup, node), nanoseconds in zip(keys, sum_per_cpu(chunk.values, cpus), strict=True):
            by_node.setdefault(cgroup, {})[node] = nanoseconds
    return CpuTimeByNode(by_node, dropped, missed)


def choose_hook(cgroups: str) -> Hook:
    """By /proc/cgroups: the event cgroup-switches follows the perf_event controller, wherever that is mounted.

    The event opens on every kernel, but fires only when the controller is there, and tells switches between
    cgroups of version 2 only when the controller is not mounted as version 1 (hierarchy 0).
    """
    for line in cgroups.splitlines():
        name, _, rest = line.partition("\t")
        if name == "perf_event":
            hierarchy, _, enabled = rest.split("\t")
            return "cgroup-switches" if hierarchy == "0" and enabled == "1" else "sched_switch"
    return "sched_switch"
