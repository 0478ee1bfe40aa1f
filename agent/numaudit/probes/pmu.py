"""pmu: how often each cgroup used near and far memory, as the processor counts it (bpf/pmu.bpf.c).

Every access is counted, not samples of them. The events are opened here, as one group on each CPU, for bcc can open no
event that has a config1; the program finds them in a map. Which events those are is the plan's (numaudit.pmu).
Where no BPF program may run, the kernel itself keeps the cgroups apart (numaudit.probes.counters.pmu_cgroups).
Source: kernel/events/core.c (perf_event_read_local), kernel/bpf/arraymap.c (perf_event_fd_array_get_ptr).
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Collection, Iterable, Sequence

from numaudit.kernel.host import Host, read_text
from numaudit.kernel.node import read_machine
from numaudit.kernel.tracing.bpf_map import MapEntries
from numaudit.pmu.choose import Plan
from numaudit.probes import cgroup_switches
from numaudit.probes.cgroup_switches import CgroupSwitchProbe
from numaudit.probes.counters.accesses import WORDS, AccessCounts, AccessSums
from numaudit.probes.counters.plan_events import (
    FindPlans,
    PlanEvents,
    cannot_open,
    choose_plan,
    plans_here,
    require_counts,
)
from numaudit.probes.counters.pmu_cgroups import PmuOfCgroups
from numaudit.probes.loading.loader import LoadedProbe, ProbeRequest
from numaudit.probes.probe import Loss, ProbeKind
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.topology.nodeset import CpuSet

_NAME = "pmu"


class PmuProbe(CgroupSwitchProbe):
    """The running probe."""

    tables = ("sums",)

    def __init__(self, host: Host, loaded: LoadedProbe, plan: Plan) -> None:
        """Open the plan's events and attach. Raises ProbeRefusal, and OSError."""
        self.plan = plan
        self._sums = AccessSums(plan)
        self._counters: dict[int, PlanEvents] = {}
        """By CPU."""
        self._places = [(0, cpu) for cpu in _possible_cpus(host)]
        """Node and number of each possible CPU; the node is known once the CPU has been online."""
        self._returned = 0
        """As often a CPU came back online, and its switches were lost until the next reading."""
        super().__init__(host, loaded)

    @property
    def how(self) -> str:
        return f"sched_switch, {self.plan.set.id}"

    def read(self) -> AccessCounts:
        """All accesses since load, the interval that is open on each CPU included. Raises OSError."""
        self._flush()
        missed = self._missed_switches()
        lost: dict[Loss, int] = {"map-full": self._dropped(), "busy": missed, "cpu-away": self._returned}
        decode(self._maps["sums"].read(), self._places, self._sums)
        sums = self._sums
        return AccessCounts(
            plan=self.plan,
            accesses=sums.accesses,
            times=sums.times,
            switches=self._count_runs(),
            lost=lost,
            watched=self._watched,
        )

    def forget(self, cgroups: Collection[int]) -> int:
        self._sums.forget(cgroups)
        return super().forget(cgroups)

    def pause(self) -> None:
        super().pause()
        for cpu in [*self._counters]:
            self._close_counters(cpu)

    def _prepare(self) -> None:
        slots = self._maps["events"].info.max_entries
        if slots != _slots(self._host, self.plan):
            raise ProbeRefusal(Reason.BUSY, "the events that can be opened changed while the program was loaded")

    def _attach(self) -> None:
        self._learn_nodes()
        for cpu in self._online():
            self._open_counters(cpu)
        require_counts(self.plan, self._counters.values())
        super()._attach()

    def _flush(self) -> None:
        self._follow_counters()
        super()._flush()

    def _follow_counters(self) -> None:
        """Have events that count on each CPU that is online: once it was away they never do again. Raises OSError."""
        online = self._online()
        for cpu in [cpu for cpu, one in self._counters.items() if cpu not in online or not one.are_counting()]:
            self._close_counters(cpu)
        new = [cpu for cpu in online if cpu not in self._counters]
        if new:
            self._learn_nodes()
        for cpu in new:
            self._open_counters(cpu)
            self._returned += 1

    def _learn_nodes(self) -> None:
        """Raises Unavailable, OSError."""
        nodes = read_machine(self._host).node_of_cpu
        self._places = [(nodes.get(cpu, node), cpu) for node, cpu in self._places]

    def _open_counters(self, cpu: int) -> None:
        try:
            counters = PlanEvents.open(self.plan, cpu)
        except OSError as error:
            if error.errno == errno.ENODEV:  # gone offline this moment
                return
            raise cannot_open(self.plan, error) from error
        self._counters[cpu] = counters
        first = cpu * len(self.plan.events)
        for number, descriptor in enumerate(counters.descriptors, first):
            self._maps["events"].update(struct.pack("=I", number), struct.pack("=I", descriptor))
        self._run("restart", cpu)

    def _close_counters(self, cpu: int) -> None:
        """The map holds the events too, so they go on for as long as they are in it."""
        first = cpu * len(self.plan.events)
        for number in range(first, first + len(self.plan.events)):
            self._maps["events"].delete(struct.pack("=I", number))
        self._counters.pop(cpu).close()


def request(plan: Plan, host: Host, cgroups: int) -> ProbeRequest:
    """Request for the loader, for the events of a plan."""
    return ProbeRequest(
        name=_NAME,
        programs=cgroup_switches.programs(_NAME),
        maps=("pmu_sums", "pmu_cpu", "pmu_events", "probe_narrowed", "probe_watched", cgroup_switches.CPU_STATE),
        entries={"pmu_sums": cgroups, "pmu_events": _slots(host, plan), "probe_watched": cgroups},
        numbers=cgroup_switches.numbers(host),
        defines={"PMU_EVENTS": len(plan.events)},
    )


def kind_of(find_plans: FindPlans) -> ProbeKind[AccessCounts]:
    """The probe that counts the best of some plans that this host can."""

    def requested(host: Host, cgroups: int, _nodes: int) -> ProbeRequest:
        return request(choose_plan(host, find_plans), host, cgroups)

    def start(host: Host, loaded: LoadedProbe) -> PmuProbe:
        return PmuProbe(host, loaded, choose_plan(host, find_plans))

    def without_bpf(host: Host) -> PmuOfCgroups:
        return PmuOfCgroups(host, choose_plan(host, find_plans))

    return ProbeKind(
        _NAME, requested, start, ns_per_event=800.0, pause_order=4, can_narrow=True, without_bpf=without_bpf
    )


PMU = kind_of(plans_here)


def decode(entries: Iterable[MapEntries], places: Sequence[tuple[int, int]], sums: AccessSums) -> None:
    """Add map entries as the kernel packs them: for each possible CPU, the words of each of the plan's events.

    `places`: node and number of each of those CPUs, in the kernel's order.
    """
    size = WORDS * len(sums.plan.events)
    for chunk in entries:
        rows = struct.iter_unpack(f"={len(places) * size}Q", chunk.values)
        for (cgroup,), row in zip(struct.iter_unpack("=Q", chunk.keys), rows, strict=True):
            for number, place in enumerate(places):
                words = row[number * size : (number + 1) * size]
                if words[1]:
                    sums.add(cgroup, place, words)


def _slots(host: Host, plan: Plan) -> int:
    return (max(_possible_cpus(host)) + 1) * len(plan.events)


def _possible_cpus(host: Host) -> CpuSet:
    return CpuSet.parse(read_text(host.cpus / "possible"))
