"""Common parts of the probes that charge what a CPU did since its last event to the cgroup that did it.

Their programs run where tasks of different cgroups take turns on a CPU (bpf/cgroup_switch.bpf.h). The software event
cgroup-switches (include/uapi/linux/perf_event.h, PERF_COUNT_SW_CGROUP_SWITCHES) was seen on 6.1, 6.12 and 6.18.
"""

from __future__ import annotations

import errno
import os
from functools import cache
from typing import ClassVar, Literal

from numaudit.errors import Unavailable
from numaudit.kernel import files
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import bpf, perf_event
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.bpf_map import sum_per_cpu
from numaudit.probes import reasons
from numaudit.probes.bpf_probe import FIRST, BpfProbe
from numaudit.probes.loading import function_entry
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe
from numaudit.probes.probe import Loss
from numaudit.probes.reasons import ProbeRefusal
from numaudit.topology.nodeset import CpuSet

Hook = Literal["cgroup-switches", "sched_switch"]

CPU_STATE = "cgroup_switch_cpu"
"""Map that the text's ProbeRequest names beside its own: one struct cgroup_switch_cpu for each CPU."""
_SWITCHES, _CHARGES, _FIELDS = 1, 2, 7
"""Places of fields in struct cgroup_switch_cpu, and how many it has."""


def programs(name: str) -> tuple[BpfProgram, ...]:
    """Programs in the text of such a probe."""
    return (
        BpfProgram(f"{name}_on_cgroup_switch", ProgramType.PERF_EVENT),
        BpfProgram(f"{name}_on_sched_switch", ProgramType.RAW_TRACEPOINT),
        BpfProgram(f"{name}_charge", ProgramType.RAW_TRACEPOINT),
        BpfProgram(f"{name}_restart", ProgramType.RAW_TRACEPOINT),
        BpfProgram(f"{name}_on_attach_task", ProgramType.RAW_TRACEPOINT),
    )


def numbers(host: Host) -> dict[str, int]:
    """Numbers that such a text needs beside its own."""
    return {"CGROUP_SWITCH_CGROUPS_OF_TASK": find_cgroups_of_task(host)}


@cache
def find_cgroups_of_task(host: Host) -> int:
    """Offset in struct task_struct of the pointer to a task's cgroups, in bytes; 0 = BTF does not say.

    With it a program finds that a switch is within a cgroup, and sched_switch is the cheaper hook.
    """
    types = function_entry.read_btf(host)
    found = None if isinstance(types, ProbeRefusal) else types.member("task_struct", "cgroups")
    return 0 if found is None else found.bits // 8


class CgroupSwitchProbe(BpfProbe):
    """Holds the tracepoint sched_switch, or one event cgroup-switches on each CPU. Subclasses read the tables."""

    usual_hook: ClassVar[Hook] = "cgroup-switches"
    """For a probe whose work costs less than the event does, sched_switch is the cheaper one."""
    flush: ClassVar[str] = "charge"
    """The program that a reading runs on each CPU."""
    hook: Hook

    def __init__(self, host: Host, loaded: LoadedProbe, hook: Hook | None = None) -> None:
        """Attach to `hook`, or to the usual one if it works here. Raises ProbeRefusal, and OSError."""
        self._wanted = hook
        self._events: dict[int, int] = {}
        """CPU -> its event cgroup-switches."""
        self._past_switches = 0
        """Counts of events that are closed because their CPU went offline."""
        self._returned = 0
        super().__init__(host, loaded)

    def pause(self) -> None:
        for event in self._events.values():
            self._past_switches += perf_event.read_count(event)
            os.close(event)
        self._events.clear()
        super().pause()

    def _flush(self) -> None:
        """Charge the interval that is open on each CPU. Raises OSError.

        With the hook cgroup-switches a CPU that comes online is watched from the next flush on; what it did until
        then is lost.
        """
        if self.hook == "cgroup-switches":
            self._follow_online_cpus()
        for cpu in self._online():
            self._run(self.flush, cpu)

    def _count_runs(self) -> int:
        """Number of times that the program ran, at switches and for flushes. Raises OSError."""
        return self._sum(_SWITCHES) + self._sum(_CHARGES)

    def _lost(self) -> dict[Loss, int]:
        """`busy`: switches for which the kernel did not run the program. `cpu-away`: as often a CPU came back online
        and its switches were lost until the next flush. Raises OSError.
        """
        missed = self._missed({self._name_of(one) for one in ("charge", self.flush, "on_sched_switch")})
        fired = self._past_switches + sum(perf_event.read_count(event) for event in self._events.values())
        missed += max(0, fired - self._sum(_SWITCHES))
        return {"busy": missed, "cpu-away": self._returned}

    def _sum(self, field: int) -> int:
        """Of one field of struct cgroup_switch_cpu, over all CPUs."""
        state = self._maps[CPU_STATE]
        found = state.lookup(FIRST) or b""
        return sum_per_cpu(found, state.cpus, field, fields=_FIELDS)[0]

    def _attach(self) -> None:
        self.hook = self._attach_switches()
        self._attach_raw_tracepoint("cgroup_notify_populated", self._name_of("charge"))
        self._attach_raw_tracepoint("cgroup_attach_task", self._name_of("on_attach_task"))

    def _attach_switches(self) -> Hook:
        if (self._wanted or self._choose_hook()) == "cgroup-switches":
            try:
                for cpu in self._online():
                    self._watch(cpu)
            except OSError as error:
                self.pause()
                if self._wanted is not None:
                    raise reasons.of_perf_event("cannot attach to the event cgroup-switches", error) from error
            else:
                return "cgroup-switches"
        for cpu in self._online():
            self._run("restart", cpu)
        self._attach_raw_tracepoint("sched_switch", self._name_of("on_sched_switch"))
        return "sched_switch"

    def _choose_hook(self) -> Hook:
        if self.usual_hook == "sched_switch":
            return "sched_switch"
        return choose_hook(read_text(self._host.proc / "cgroups"), has_perf_groups(self._host))

    def _try_out(self, times: int) -> None:
        """Close the open interval of this CPU again and again: the sums stay right."""
        for _ in range(times):
            bpf.run(self._program("charge"))

    def _follow_online_cpus(self) -> None:
        """Have one event that counts on each CPU that is online: once its CPU was away, it never does again.

        Raises OSError.
        """
        online = self._online()
        gone = [cpu for cpu, event in self._events.items() if cpu not in online or not perf_event.is_counting(event)]
        for cpu in gone:
            event = self._events.pop(cpu)
            self._past_switches += perf_event.read_count(event)
            os.close(event)
        for cpu in online:
            if cpu not in self._events:
                self._watch(cpu)
                self._returned += cpu in self._events

    def _watch(self, cpu: int) -> None:
        self._run("restart", cpu)
        try:
            event = perf_event.open_event(perf_event.CGROUP_SWITCHES, cpu=cpu)
        except OSError as error:
            if error.errno == errno.ENODEV:  # gone offline this moment
                return
            raise
        self._events[cpu] = event
        perf_event.set_program(event, self._program("on_cgroup_switch"))
        perf_event.enable(event)

    def _run(self, program: str, cpu: int) -> None:
        try:
            bpf.run_on_cpu(self._program(program), cpu)
        except OSError as error:
            if error.errno != errno.ENXIO:  # gone offline this moment
                raise

    def _program(self, name: str) -> int:
        return self._loaded.programs[self._name_of(name)]

    def _name_of(self, program: str) -> str:
        return f"{self._loaded.name}_{program}"

    def _online(self) -> CpuSet:
        return CpuSet.parse(read_text(self._host.cpus / "online"))


def choose_hook(cgroups: str, perf_groups: bool = True) -> Hook:
    """By /proc/cgroups: the event cgroup-switches follows the perf_event controller, wherever that is mounted.

    The event opens on every kernel, but fires only when the controller is there, and shows switches between
    cgroups of version 2 only when the controller is not mounted as version 1 (hierarchy 0) and these groups have it
    (`perf_groups`).
    """
    if not perf_groups:
        return "sched_switch"
    for line in cgroups.splitlines():
        name, _, rest = line.partition("\t")
        if name == "perf_event":
            hierarchy, _, enabled = rest.split("\t")
            return "cgroup-switches" if hierarchy == "0" and enabled == "1" else "sched_switch"
    return "sched_switch"


def has_perf_groups(host: Host) -> bool:
    """Do the groups of cgroup v2 have the perf_event controller? True where that cannot be found out.

    It comes to all groups with the first controller that the root hands down, and stays when that is taken back. So an
    answer stays good enough: where it was no and would be yes now, sched_switch goes on being right.
    Source: kernel/cgroup/cgroup.c (cgroup_calc_subtree_ss_mask), kernel/events/core.c (perf_cgroup_connect).
    """
    try:
        found = find_hierarchies(host)
        if found.unified is None or not found.is_whole:
            return True
        groups = files.folders(found.unified)
        if not groups:
            return bool(read_text(found.unified / "cgroup.subtree_control").strip())
        return _has_perf(host, f"{found.unified}/{groups[0][0]}")
    except (Unavailable, OSError):
        return True


def _has_perf(host: Host, group: str) -> bool:
    """Raises OSError."""
    folder = files.open_file(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.close(perf_event.open_event(perf_event.CGROUP_SWITCHES, cpu=perf_event.any_cpu(host), cgroup=folder))
    except OSError as error:
        return error.errno != errno.ENOENT
    finally:
        os.close(folder)
    return True
