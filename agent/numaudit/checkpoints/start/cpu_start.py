"""Obstacles to the CPU Manager's start with a given `cpu_manager_state`.

Source: pkg/kubelet/cm/cpumanager/policy_static.go (validateState).
"""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.checkpoints.formats.cpu import WITH_PODS, CpuCheckpoint
from numaudit.checkpoints.start.findings import StateFinding
from numaudit.containermanager.cpu.start import start as start_cpu_manager
from numaudit.containermanager.cpu.topology import CPUInfo, CPUOptions, CPUPolicy, CPUState, CPUTopology
from numaudit.containermanager.versions import KubernetesVersion
from numaudit.encoding.checksum import Verification
from numaudit.errors import InputError
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet


def cpu_findings(
    checkpoint: CpuCheckpoint,
    verification: Verification,
    machine: Machine | None,
    *,
    version: KubernetesVersion,
    pod_level: bool,
    manager: CPUPolicy | None = None,
) -> Iterator[StateFinding]:
    """All findings of a file whose checksum fits. `machine` None = the file stands alone.

    `manager`: the CPU Manager that is to start; None = its reserved CPUs and options are not known.
    """
    if checkpoint.policy_name not in ("none", "static"):
        yield StateFinding.of("policy-unknown", f"policyName is {checkpoint.policy_name!r}", "policyName")
        return
    state, has_pods = checkpoint.state, verification.form in WITH_PODS
    yield from _pod_level_findings(state, has_pods)
    if checkpoint.policy_name == "static":
        read = state if has_pods and pod_level else CPUState(state.default_cpus, state.entries)
        if machine is None or manager is None:
            yield from _start_findings(read, machine, version)
        else:
            yield from _refusal(manager, read)


def _pod_level_findings(state: CPUState, has_pods: bool) -> Iterator[StateFinding]:
    if state.pod_entries and not has_pods:
        pods = ", ".join(state.pod_entries)
        yield StateFinding.of("stale-pod-entries", f"the checksum leaves out podEntries of {pods}", "podEntries")
        return
    for uid, cpus in state.pod_entries.items():
        containers = state.entries.get(uid, {})
        if not containers:
            message = f"pod {uid} holds {cpus.in_words}, but none of its containers has any"
            yield StateFinding.of("pod-level-incomplete", message, f"podEntries.{uid}")
        for name, own in containers.items():
            if not own <= cpus:
                message = f"container {name} of pod {uid} has {(own - cpus).in_words} outside the pod's own"
                yield StateFinding.of("pod-level-incomplete", message, f"entries.{uid}.{name}")


def _start_findings(state: CPUState, machine: Machine | None, version: KubernetesVersion) -> Iterator[StateFinding]:
    """Findings of the CPU Manager's own check where its configuration is not known.

    The reserved CPUs are configuration, which is not in the file. Without strict-cpu-reservation they
    are in the shared pool and make no difference; with it they are in no set at all, so CPUs in no set
    are taken for the reserved ones, with a finding. Without a machine its CPUs are those of the file.
    """
    in_file = state.in_any_set
    online = in_file if machine is None else CpuSet.from_ids(cpu.id for cpu in machine.cpus)
    in_no_set = online - in_file if state.default_cpus else CpuSet()
    strict = bool(in_no_set) and version >= (1, 32)
    topology = CPUTopology({cpu: CPUInfo(0, 0, cpu, 0) for cpu in online})
    policy = CPUPolicy(topology, in_no_set if strict else CpuSet(), CPUOptions(strict_cpu_reservation=strict), version)
    refused = tuple(_refusal(policy, state))
    yield from refused
    if strict and not refused:
        are = "is" if len(in_no_set) == 1 else "are"
        message = f"{in_no_set.in_words} {are} online but in no set of the file"
        yield StateFinding.of("cpus-not-in-state", message, "defaultCpuSet")


def _refusal(policy: CPUPolicy, state: CPUState) -> Iterator[StateFinding]:
    try:
        start_cpu_manager(policy, state)
    except InputError as refused:
        yield StateFinding.of("cpu-state-refused", str(refused), "defaultCpuSet")
