"""The state of the static CPU Manager.

Source: pkg/kubelet/cm/cpumanager/state/state.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from numaudit.topology.nodeset import CpuSet

CPUEntries = Mapping[str, Mapping[str, CpuSet]]
"""Pod UID -> container name -> its exclusive CPUs."""


class CPUState(Struct, frozen=True):
    """All that `cpu_manager_state` keeps, and `reusable`, which is lost when the kubelet restarts."""

    default_cpus: CpuSet
    """The shared pool. Reserved CPUs are in it, except with strict-cpu-reservation."""
    entries: CPUEntries = field(default_factory=dict)
    pod_entries: Mapping[str, CpuSet] = field(default_factory=dict)
    """Pod UID -> CPUs of the whole pod; used with PodLevelResourceManagers only."""
    reusable: Mapping[str, CpuSet] = field(default_factory=dict)
    """Pod UID -> CPUs of its ordinary init containers that no later container took over."""

    @property
    def in_any_set(self) -> CpuSet:
        """All CPUs that it knows."""
        held = (cpus for containers in self.entries.values() for cpus in containers.values())
        return CpuSet.from_ids(cpu for cpus in (self.default_cpus, *self.pod_entries.values(), *held) for cpu in cpus)
