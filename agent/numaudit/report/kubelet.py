"""The part of the report about the kubelet: its settings, its checkpoints, and what a restart would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import convert
from msgspec.structs import replace

from numaudit.checkpoints.start.findings import StartAnswer, StateFinding
from numaudit.encoding.value import Timestamp, Value, timestamp
from numaudit.intent.kubelet import CheckpointHealth
from numaudit.intent.node import Intent
from numaudit.memorymanager.forecast import Forecast
from numaudit.topology.nodeset import CpuSet


class CheckpointReport(Value, frozen=True):
    """One of the kubelet's checkpoints, and whether the kubelet would start with it.

    CheckpointHealth in one level, without the problem's detail: the findings say it.
    """

    file: str
    """Its name."""
    policy_name: str | None
    format: str | None
    """The format whose checksum fits: V1, V2, ...; null = none does."""
    problem: str | None
    """absent, unreadable, not understood, checksum or newer format; null = it was read well."""
    written_at: Timestamp | None
    """Time when it was written; null = not known."""
    last_good_at: Timestamp | None
    """Time when it was last read without a problem."""
    valid: bool | None
    starts_now: StartAnswer
    starts_after_reboot: StartAnswer
    findings: tuple[StateFinding, ...]


class RestartReport(Value, frozen=True):
    """The effect of a restart on the pods of this node; `numaudit forecast` has each of them."""

    reboot: bool
    """Of the node, and not of the kubelet alone."""
    starts: StartAnswer
    """Does the kubelet start with its checkpoints? yes, no, at risk, once (and then no more) or unknown: the answer of
    the worst of them in `checkpoints`."""
    refused_pods: int | None
    """Number of pods that it would refuse; null = it does not start."""
    moved_pods: int | None
    """Admitted, with other nodes or CPUs than they have; null = it does not start, or what they have is not known."""


class KubeletReport(Value, frozen=True):
    """The kubelet's settings that decide about NUMA; null = not known.

    KubeletConfig without the documents that these were read from, and whose the CPUs are.
    """

    version: str | None
    """Such as v1.36.0."""
    memory_manager_policy: str | None
    """memoryManagerPolicy."""
    cpu_manager_policy: str | None
    """cpuManagerPolicy."""
    topology_manager_policy: str | None
    """topologyManagerPolicy."""
    topology_manager_scope: str | None
    """topologyManagerScope."""
    topology_manager_options: Mapping[str, str] | None
    """topologyManagerPolicyOptions; null = none are set, or it is not known."""
    cpu_manager_options: Mapping[str, str] | None
    """cpuManagerPolicyOptions; null = none are set, or it is not known."""
    feature_gates: Mapping[str, bool] | None
    """Those that are set."""
    shared_cpus: CpuSet | None = None
    """CPUs of the shared pool, those reserved for the system among them; null = the CPU Manager is not static, or not
    known."""
    reserved_cpus: CpuSet | None = None
    """CPUs that no container gets for itself, because they are reserved for the system; null as above."""


def kubelet_report(intent: Intent) -> KubeletReport:
    """Without the documents that the settings were read from."""
    cpu = None if intent.room is None else intent.room.kubelet.cpu
    return replace(
        convert(intent.config, KubeletReport, from_attributes=True),
        shared_cpus=intent.shared_cpus,
        reserved_cpus=None if cpu is None else cpu.reserved,
    )


def checkpoint_report(one: CheckpointHealth) -> CheckpointReport:
    return CheckpointReport(
        file=one.file,
        policy_name=one.policy,
        format=one.form,
        problem=one.problem,
        written_at=timestamp(one.written_at),
        last_good_at=timestamp(one.last_good_at),
        valid=one.outlook.valid,
        starts_now=one.outlook.starts_now,
        starts_after_reboot=one.outlook.starts_after_reboot,
        findings=one.outlook.findings,
    )


def restart_report(one: Forecast) -> RestartReport:
    if one.starts == "no":
        return RestartReport(one.reboot, one.starts, None, None)
    fates = Counter(pod.fate for pod in one.pods)
    moved = None if fates["unknown"] else fates["elsewhere"]
    return RestartReport(one.reboot, one.starts, fates["refused"], moved)
