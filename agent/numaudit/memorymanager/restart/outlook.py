"""Will the kubelet start with these checkpoints, now and after a reboot? What stops it, and what helps?

Source: pkg/kubelet/cm/memorymanager/policy_static.go (validateState), state/state_checkpoint.go of
both managers, pkg/kubelet/cm/devicemanager/manager.go (Start).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from numaudit.errors import InputError, ParseError
from numaudit.memorymanager.checkpoint import cpu as cpu_checkpoint
from numaudit.memorymanager.checkpoint import memory as memory_checkpoint
from numaudit.memorymanager.checkpoint.cpu import CpuCheckpoint
from numaudit.memorymanager.checkpoint.device import DeviceCheckpoint
from numaudit.memorymanager.checkpoint.file import DEVICES, MEMORY, Checkpoint, Kind
from numaudit.memorymanager.checkpoint.memory import MemoryCheckpoint
from numaudit.memorymanager.cpu.hints import CPUPolicy
from numaudit.memorymanager.cpu.options import CPUOptions
from numaudit.memorymanager.cpu.start import start as start_cpu_manager
from numaudit.memorymanager.cpu.state import CPUState
from numaudit.memorymanager.cpu.topology import CPUInfo, CPUTopology
from numaudit.memorymanager.go.spew import Verification
from numaudit.memorymanager.memory.machine_state import SystemReserved
from numaudit.memorymanager.memory.replay import Refusal
from numaudit.memorymanager.restart.findings import StateFinding
from numaudit.memorymanager.restart.memory_start import memory_findings, replayed, reservation_changes
from numaudit.memorymanager.restart.restore import cpu_start_error, memory_start_error
from numaudit.memorymanager.versions import LATEST, KubernetesVersion
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet

Answer = Literal["yes", "no", "at risk", "unknown"]
"""`at risk`: it depends on chance, or on what the next boot makes of the machine. `unknown`: no machine to compare."""


@dataclass(frozen=True, slots=True)
class StartingKubelet:
    """The kubelet that is to start."""

    version: KubernetesVersion = LATEST
    pod_level: bool | None = None
    """Gate PodLevelResourceManagers; None = as it was when the file was written."""
    memory_policy: str | None = None
    """memoryManagerPolicy of its configuration; None = as in the file. So is `cpu_policy`."""
    cpu_policy: str | None = None
    reserved_memory: SystemReserved | None = None
    """What its configuration reserves; None = as in the file."""
    reservation_problem: str | None = None
    """Why that could not be worked out from a configuration that is there."""
    configuration_problem: str | None = None
    """Why the kubelet refuses its configuration and so starts with no checkpoint; in its words where it has some."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What was found in one checkpoint, and whether the kubelet starts with it."""

    verification: Verification
    findings: tuple[StateFinding, ...]
    starts_now: Answer
    starts_after_reboot: Answer
    refusal: Refusal | None = None
    """What the kubelet says to the replay of the file's assignments: on the machine, or, where there is
    none, on the file's own totals. None = it agrees, or nothing was replayed (see `is_replayed`)."""
    is_replayed: bool = False

    @property
    def is_valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


class _Gates(TypedDict):
    directory: str
    version: KubernetesVersion
    pod_level: bool


def examine(
    checkpoint: Checkpoint, verification: Verification, machine: Machine | None, kubelet: StartingKubelet
) -> Outlook:
    """All findings of one checkpoint. `machine` None = the file stands alone, as CPUs do when it names none."""
    if isinstance(checkpoint, CpuCheckpoint) and machine is not None and not machine.cpus:
        machine = None  # there is nothing to compare CPUs with
    findings = tuple(_findings(checkpoint, verification, machine, kubelet))
    now, later = outlook(findings, machine is not None or _needs_no_machine(checkpoint))
    if not (isinstance(checkpoint, MemoryCheckpoint) and verification.is_valid and checkpoint.policy_name == "Static"):
        return Outlook(verification, findings, now, later)
    refusal = replayed(checkpoint, verification, machine, version=kubelet.version)
    return Outlook(verification, findings, now, later, refusal, is_replayed=True)


def outlook(findings: Sequence[StateFinding], machine_known: bool) -> tuple[Answer, Answer]:
    """Does the kubelet start now, and after a reboot?"""
    stops = {finding.what_it_stops for finding in findings}
    if "start" in stops:
        return "no", "no"
    if "now" in stops:
        return "no", "at risk"
    if "maybe" in stops:
        return "at risk", "at risk"
    if not machine_known:
        return "unknown", "unknown"
    return "yes", "at risk" if "reboot" in stops else "yes"


def kubelet_says(
    kind: Kind, data: bytes, outlook: Outlook | None, kubelet: StartingKubelet, directory: str
) -> str | None:
    """The kubelet's words when it does not start with this file; None = it starts, or they are not known.

    `outlook` None = the file could not be read. `directory` is where the kubelet has the file.
    """
    pod_level = bool(kubelet.pod_level) if outlook is None else pod_level_gate(outlook.verification, kubelet)
    gates: _Gates = {"directory": directory, "version": kubelet.version, "pod_level": pod_level}
    try:
        if kind == MEMORY:
            not_restored = memory_start_error(data, policy=kubelet.memory_policy, **gates)
        else:
            not_restored = None if kind == DEVICES else cpu_start_error(data, policy=kubelet.cpu_policy, **gates)
    except ParseError:
        return None
    if not_restored is not None or outlook is None:
        return not_restored
    if outlook.refusal is not None:
        return outlook.refusal.message
    return next((one.message for one in outlook.findings if one.name == "cpu-state-refused"), None)


def pod_level_gate(verification: Verification, kubelet: StartingKubelet) -> bool:
    """Is the gate PodLevelResourceManagers on? When nobody says, it is as it was for this file's format."""
    return verification.form in ("V2", "V3") if kubelet.pod_level is None else kubelet.pod_level


def _needs_no_machine(checkpoint: Checkpoint) -> bool:
    """Policy none keeps no state, and devices are not compared with the machine."""
    return isinstance(checkpoint, DeviceCheckpoint) or checkpoint.policy_name.casefold() == "none"


def _findings(
    checkpoint: Checkpoint, verification: Verification, machine: Machine | None, kubelet: StartingKubelet
) -> Iterator[StateFinding]:
    for path in checkpoint.unknown:
        yield StateFinding("unknown-key", f"{path} is no key of this format", path)
    if isinstance(checkpoint, DeviceCheckpoint):
        yield from _device_findings(verification)
        return
    if not verification.is_valid:
        yield StateFinding(
            "checksum-mismatch",
            f"the file says {verification.stored}, its content gives {verification.computed}",
            "checksum",
        )
        return
    if verification.form == "no checksum":
        yield StateFinding("checksum-missing", "the stored checksum is 0, which is not checked", "checksum")
    pod_level = pod_level_gate(verification, kubelet)
    yield from _policy_changes(checkpoint, kubelet)
    if isinstance(checkpoint, MemoryCheckpoint):
        accepted = memory_checkpoint.accepts(verification.form, version=kubelet.version, pod_level=pod_level)
        yield from _format_findings(verification, accepted, kubelet, pod_level)
        yield from memory_findings(checkpoint, verification, machine, version=kubelet.version)
        yield from _reservations(checkpoint, kubelet)
    else:
        accepted = cpu_checkpoint.accepts(verification.form, version=kubelet.version, pod_level=pod_level)
        yield from _format_findings(verification, accepted, kubelet, pod_level)
        yield from _cpu_findings(checkpoint, verification, machine, kubelet.version)


def _policy_changes(checkpoint: MemoryCheckpoint | CpuCheckpoint, kubelet: StartingKubelet) -> Iterator[StateFinding]:
    configured = kubelet.memory_policy if isinstance(checkpoint, MemoryCheckpoint) else kubelet.cpu_policy
    if configured is not None and configured != checkpoint.policy_name:
        message = f"the file is of policy {checkpoint.policy_name!r}, the kubelet's configuration says {configured!r}"
        yield StateFinding("policy-changed", message, "policyName")


def _reservations(checkpoint: MemoryCheckpoint, kubelet: StartingKubelet) -> Iterator[StateFinding]:
    if checkpoint.policy_name != "Static":
        return
    if kubelet.reservation_problem is not None:
        yield StateFinding("reservation-not-known", kubelet.reservation_problem, "machineState")
    elif kubelet.reserved_memory is not None:
        yield from reservation_changes(checkpoint.state.machine, kubelet.reserved_memory)


def _format_findings(
    verification: Verification, accepted: bool, kubelet: StartingKubelet, pod_level: bool
) -> Iterator[StateFinding]:
    if not accepted:
        yield StateFinding(
            "format-not-accepted",
            f"format {verification.form} is read as corrupt by Kubernetes {kubelet.version[0]}.{kubelet.version[1]} "
            f"with PodLevelResourceManagers {'on' if pod_level else 'off'}",
            "checksum",
        )


def _device_findings(verification: Verification) -> Iterator[StateFinding]:
    if not verification.is_valid:
        message = f"the file says {verification.stored}, its content gives {verification.computed}"
        yield StateFinding("devices-lost", f"checksum mismatch: {message}", "Checksum")
    if verification.form == "before 1.20":
        yield StateFinding("format-old", "DeviceIDs are plain lists, as before Kubernetes 1.20", "Data")


def _cpu_findings(
    checkpoint: CpuCheckpoint, verification: Verification, machine: Machine | None, version: KubernetesVersion
) -> Iterator[StateFinding]:
    if checkpoint.policy_name not in ("none", "static"):
        yield StateFinding("policy-unknown", f"policyName is {checkpoint.policy_name!r}", "policyName")
        return
    if verification.form == "V1":
        yield StateFinding("format-old", "containers are known by their id, as until Kubernetes 1.17", "entries")
        return
    state, is_v3 = checkpoint.state, verification.form == "V3"
    yield from _cpu_pod_level_findings(state, is_v3)
    if checkpoint.policy_name == "static":
        read = state if is_v3 else CPUState(state.default_cpus, state.entries)
        yield from _cpu_start_findings(read, machine, version)


def _cpu_pod_level_findings(state: CPUState, is_v3: bool) -> Iterator[StateFinding]:
    if state.pod_entries and not is_v3:
        pods = ", ".join(state.pod_entries)
        yield StateFinding("stale-pod-entries", f"the checksum leaves out podEntries of {pods}", "podEntries")
        return
    for uid, cpus in state.pod_entries.items():
        containers = state.entries.get(uid, {})
        if not containers:
            message = f"pod {uid} holds CPUs {cpus}, but none of its containers has any"
            yield StateFinding("pod-level-incomplete", message, f"podEntries.{uid}")
        for name, own in containers.items():
            if not own <= cpus:
                message = f"container {name} of pod {uid} has CPUs {own - cpus} outside the pod's own"
                yield StateFinding("pod-level-incomplete", message, f"entries.{uid}.{name}")


def _cpu_start_findings(state: CPUState, machine: Machine | None, version: KubernetesVersion) -> Iterator[StateFinding]:
    """What the CPU Manager's own check says.

    The reserved CPUs are configuration, which is not in the file. Without strict-cpu-reservation they
    are in the shared pool and make no difference; with it they are in no set at all, so CPUs in no set
    are taken for the reserved ones, with a finding. Without a machine its CPUs are those of the file.
    """
    in_file = state.default_cpus
    for containers in state.entries.values():
        for cpus in containers.values():
            in_file |= cpus
    for cpus in state.pod_entries.values():
        in_file |= cpus
    online = in_file if machine is None else CpuSet.from_ids(cpu.id for cpu in machine.cpus)
    in_no_set = online - in_file if state.default_cpus else CpuSet()
    strict = bool(in_no_set) and version >= (1, 32)
    topology = CPUTopology({cpu: CPUInfo(0, 0, cpu, 0) for cpu in online})
    policy = CPUPolicy(topology, in_no_set if strict else CpuSet(), CPUOptions(strict_cpu_reservation=strict), version)
    try:
        start_cpu_manager(policy, state)
    except InputError as refused:
        yield StateFinding("cpu-state-refused", str(refused), "defaultCpuSet")
        return
    if strict:
        yield StateFinding(
            "cpus-not-in-state", f"CPUs {in_no_set} are online but in no set of the file", "defaultCpuSet"
        )
