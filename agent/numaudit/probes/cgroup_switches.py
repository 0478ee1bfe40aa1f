"""Common parts of the probes that charge what a CPU did since its last event to the cgroup that did it.

Their programs run where tasks of different cgroups take turns on a CPU (bpf/cgroup_switch.bpf.h).
"""

from __future__ import annotations

import errno
from functools import cache
from typing import ClassVar

from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.kernel.tracing.bpf_map import sum_per_cpu
from numaudit.probes.bpf_probe import FIRST, BpfProbe
from numaudit.probes.loading import function_entry
from numaudit.probes.loading.loader import BpfProgram
from numaudit.probes.reasons import ProbeRefusal
from numaudit.topology.nodeset import CpuSet

CPU_STATE = "cgroup_switch_cpu"
"""Map that the text's ProbeRequest names beside its own: one struct cgroup_switch_cpu for each CPU."""
_RUNS, _FIELDS = 1, 6
"""Place of a field in struct cgroup_switch_cpu, and how many it has."""


def programs(name: str) -> tuple[BpfProgram, ...]:
    """Programs in the text of such a probe."""
    functions = ("on_sched_switch", "charge", "restart", "on_attach_task")
    return tuple(BpfProgram(f"{name}_{function}", ProgramType.RAW_TRACEPOINT) for function in functions)


def numbers(host: Host) -> dict[str, int]:
    """Numbers that such a text needs beside its own."""
    return {"CGROUP_SWITCH_CGROUPS_OF_TASK": _find_cgroups_of_task(host)}


@cache
def _find_cgroups_of_task(host: Host) -> int:
    """Offset in struct task_struct of the pointer to a task's cgroups, in bytes; 0 = BTF does not say.

    With it a program finds that a switch is within a cgroup, which it then leaves alone.
    """
    types = function_entry.read_btf(host)
    found = None if isinstance(types, ProbeRefusal) else types.member("task_struct", "cgroups")
    return 0 if found is None else found.bits // 8


class CgroupSwitchProbe(BpfProbe):
    """Holds the tracepoint sched_switch. Subclasses read the tables."""

    flush: ClassVar[str] = "charge"
    """The program that a reading runs on each CPU."""

    def _flush(self) -> None:
        """Charge the interval that is open on each CPU. Raises OSError."""
        for cpu in self._online():
            self._run(self.flush, cpu)

    def _count_runs(self) -> int:
        """Number of times that the program ran, at switches and for flushes. Raises OSError."""
        state = self._maps[CPU_STATE]
        return sum_per_cpu(state.lookup(FIRST) or b"", state.cpus, _RUNS, fields=_FIELDS)[0]

    def _missed_switches(self) -> int:
        """Switches for which the kernel did not run the program. Raises OSError."""
        return self._missed({self._name_of(one) for one in ("charge", self.flush, "on_sched_switch")})

    def _attach(self) -> None:
        for cpu in self._online():
            self._run("restart", cpu)
        self._attach_raw_tracepoint("sched_switch", self._name_of("on_sched_switch"))
        self._attach_raw_tracepoint("cgroup_notify_populated", self._name_of("charge"))
        self._attach_raw_tracepoint("cgroup_attach_task", self._name_of("on_attach_task"))

    def _run(self, program: str, cpu: int) -> None:
        try:
            bpf.run_on_cpu(self._loaded.programs[self._name_of(program)], cpu)
        except OSError as error:
            if error.errno != errno.ENXIO:  # gone offline this moment
                raise

    def _name_of(self, program: str) -> str:
        return f"{self._loaded.name}_{program}"

    def _online(self) -> CpuSet:
        return CpuSet.parse(read_text(self._host.cpus / "online"))
