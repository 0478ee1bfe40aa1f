"""Will the kubelet start with these checkpoints, now and after a reboot? What stops it, and what helps?

Source: pkg/kubelet/cm/memorymanager/policy_static.go (validateState), state/state_checkpoint.go of
both managers, pkg/kubelet/cm/devicemanager/manager.go (Start), pkg/kubelet/cm/dra/{manager,claiminfo}.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats.claims import ClaimCheckpoint, DevelopmentFormat
from numaudit.checkpoints.formats.cpu import CpuCheckpoint, OldFormat
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.checkpoints.formats.file import DEVICES, Checkpoint, CheckpointKind, newer_format, verify
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.formats.seal import SINCE as SEALED_SINCE
from numaudit.checkpoints.formats.seal import NewerFormat, SealedCheckpoint
from numaudit.checkpoints.start.cpu_start import cpu_findings
from numaudit.checkpoints.start.findings import StartAnswer, StateFinding, Stops
from numaudit.checkpoints.start.memory_start import memory_findings, replayed
from numaudit.containermanager.cpu.topology import CPUPolicy
from numaudit.containermanager.memory.replay import Refusal
from numaudit.containermanager.memory.state import SystemReserved
from numaudit.containermanager.versions import DRA_GATE, DRIFT_OPTION, LATEST, KubernetesVersion, charges_pods_again
from numaudit.encoding.checksum import Verification
from numaudit.errors import ParseError
from numaudit.topology.machine import Machine

UNKNOWN_FORMAT = "the format is unknown, of a newer kubelet"
MOST_OF_A_NAME = 20
"""Findings of one name that are listed; a damaged file may give a million of them."""

_WORST_FIRST: tuple[StartAnswer, ...] = ("no", "at risk", "once", "unknown", "yes")


class KubeletAtStart(Struct, frozen=True):
    """The kubelet that is to start."""

    version: KubernetesVersion = LATEST
    pod_level: bool | None = None
    """Gate PodLevelResourceManagers; None = as it was when the file was written."""
    memory_policy: str | None = None
    """memoryManagerPolicy of its configuration; None = as in the file. So is `cpu_policy`."""
    cpu_policy: str | None = None
    reserved_memory: SystemReserved | None = None
    """Memory that its configuration reserves; None = as in the file."""
    cpu_manager: CPUPolicy | None = None
    """The static CPU Manager of its configuration on this machine; None = not known, or its policy is none."""
    reservation_problem: str | None = None
    """Reason why that could not be worked out from a configuration that is there."""
    configuration_problem: str | None = None
    """Reason why the kubelet refuses its configuration and so starts with no checkpoint; in its words where it has
    some."""
    drift_tolerance: str | None = None
    """Policy option memory-drift-tolerance (KEP-6232) with its gate: `auto` or a size. None = totals must be equal."""
    reads_claims: bool = True
    """Is the DRA Manager on (gate DynamicResourceAllocation)? Without it the kubelet does not read its file."""
    version_is_known: bool = True
    """False: `version` is an assumption, which gives way to a file that only a newer kubelet writes."""

    def assumed_for(self, checkpoint: Checkpoint) -> KubeletAtStart:
        """The same, of a version that could have written this file where the version is not known."""
        is_sealed = isinstance(checkpoint, SealedCheckpoint) and checkpoint.seal is not None
        if self.version_is_known or not is_sealed:
            return self
        return replace(self, version=max(self.version, SEALED_SINCE))


class Outlook(Struct, frozen=True):
    """The findings in one checkpoint, and whether the kubelet starts with it."""

    verification: Verification
    findings: tuple[StateFinding, ...]
    starts_now: StartAnswer
    starts_after_reboot: StartAnswer
    refusal: Refusal | None = None
    """The kubelet's objection to the replay of the file's promises: on the machine, or, where there is
    none, on the file's own totals. None = it agrees, or nothing was replayed (see `is_replayed`)."""
    is_replayed: bool = False
    read: Checkpoint | None = None
    """The file's content as this kubelet reads it: of a newer format only the part that it knows."""
    read_as: Verification | None = None

    @property
    def is_valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


def examine(
    checkpoint: Checkpoint, verification: Verification, machine: Machine | None, kubelet: KubeletAtStart
) -> Outlook:
    """All findings of one checkpoint. `machine` None = the file stands alone, as CPUs do when it names none."""
    if isinstance(checkpoint, CpuCheckpoint) and machine is not None and not machine.cpus:
        machine = None  # there is nothing to compare CPUs with
    kubelet = kubelet.assumed_for(checkpoint)
    read = checkpoint.as_read_by(kubelet.version) if isinstance(checkpoint, SealedCheckpoint) else checkpoint
    read_as = verification if read is checkpoint else verify(read)
    found = _findings(read, read_as, machine, kubelet)
    findings = most_of_each((*_of_the_file(checkpoint, verification, read), *found))
    now, later = outlook(findings, machine is not None or _needs_no_machine(read))
    result = Outlook(verification, findings, now, later, read=read, read_as=read_as)
    if not (isinstance(read, MemoryCheckpoint) and read_as.is_valid and read.policy_name == "Static"):
        return result
    pod_level = _counts_pods(read, read_as, kubelet)
    reserved = kubelet.reserved_memory
    refusal = replayed(read, machine, version=kubelet.version, pod_level=pod_level, reserved=reserved)
    return replace(result, refusal=refusal, is_replayed=True)


def unreadable(kind: CheckpointKind | None, error: ParseError) -> StateFinding:
    """The finding of a file that `parse` refuses."""
    if isinstance(error, NewerFormat):
        return StateFinding.of("format-unknown", f"{UNKNOWN_FORMAT}: {error}")
    if isinstance(error, DevelopmentFormat):
        return StateFinding.of("format-unknown", f"the format is unknown, of a development version: {error}")
    if isinstance(error, OldFormat):
        return StateFinding.of("format-old", str(error))
    return StateFinding.of("devices-lost" if kind == DEVICES else "unreadable", str(error))


def outlook(findings: Sequence[StateFinding], machine_known: bool) -> tuple[StartAnswer, StartAnswer]:
    """Does the kubelet start now, and after a reboot?"""
    stops = {finding.stops for finding in findings}
    if "start" in stops:
        return "no", "no"
    if "now" in stops:
        return "no", "at risk"
    if "maybe" in stops:
        return "at risk", "at risk"
    if "unknown" in stops or not machine_known:
        return "unknown", "unknown"
    now: StartAnswer = "once" if "second start" in stops else "yes"
    return now, "at risk" if "reboot" in stops else now


def worst(answers: Iterable[StartAnswer]) -> StartAnswer:
    """Of several files: the kubelet starts only if it starts with each of them."""
    return min(answers, key=_WORST_FIRST.index, default="yes")


def pod_level_gate(verification: Verification, kubelet: KubeletAtStart) -> bool:
    """Is the gate PodLevelResourceManagers on? When no source says, it is as it was for this file's format."""
    return verification.form in ("V2", "V3", "V4") if kubelet.pod_level is None else kubelet.pod_level


def _counts_pods(
    checkpoint: MemoryCheckpoint | CpuCheckpoint, verification: Verification, kubelet: KubeletAtStart
) -> bool:
    """Do pod-level entries count? Kubelets before 1.37 refuse them without their gate, later ones drop them."""
    with_pods = memory_checkpoint.WITH_PODS if isinstance(checkpoint, MemoryCheckpoint) else cpu_checkpoint.WITH_PODS
    return verification.form in with_pods and (kubelet.version < SEALED_SINCE or pod_level_gate(verification, kubelet))


def _needs_no_machine(checkpoint: Checkpoint) -> bool:
    """Policy none keeps no state, and devices and claims are not compared with the machine."""
    return not isinstance(checkpoint, SealedCheckpoint) or checkpoint.policy_name.casefold() == "none"


def most_of_each(findings: Sequence[StateFinding]) -> tuple[StateFinding, ...]:
    """Of each name the first ones, with a note how many more there are."""
    counts = Counter(finding.name for finding in findings)
    shown: Counter[str] = Counter()
    kept: list[StateFinding] = []
    for finding in findings:
        shown[finding.name] += 1
        if shown[finding.name] <= MOST_OF_A_NAME:
            kept.append(finding)
    for name, count in counts.items():
        if count > MOST_OF_A_NAME:
            kept.append(StateFinding.of("more-findings", f"at least {count - MOST_OF_A_NAME} more of {name}"))
    return tuple(kept)


def _of_the_file(checkpoint: Checkpoint, verification: Verification, read: Checkpoint) -> Iterator[StateFinding]:
    """Findings that hold for any kubelet, and the losses of one that knows only a part of the file."""
    # Only the checksum of a text, as of `data` and `Data`, covers keys that are none of the format's.
    of_a_text = verification.is_valid and isinstance(checkpoint, SealedCheckpoint | ClaimCheckpoint)
    places: dict[tuple[bool, str], list[str]] = {}
    for path in checkpoint.unknown:
        covered = of_a_text and path.casefold().startswith("data.")
        places.setdefault((covered, path.rpartition(".")[2]), []).append(path)
    for (covered, key), (path, *others) in places.items():
        what = "is not known here, but the checksum covers it" if covered else "is not a key of this format"
        same = f"; the same for {len(others)} more that end in .{key}" if others else ""
        yield StateFinding.of("newer-key" if covered else "unknown-key", f"{path} {what}{same}", path)
    if not isinstance(checkpoint, SealedCheckpoint) or not isinstance(read, SealedCheckpoint):
        return
    if read is not checkpoint and verification.is_valid and checkpoint.pod_entries:
        pods = ", ".join(checkpoint.pod_entries)
        yield StateFinding.of(
            "downgrade-loses-pods", f"this kubelet does not read podEntries of {pods}", "data.podEntries"
        )


def _findings(
    checkpoint: Checkpoint, verification: Verification, machine: Machine | None, kubelet: KubeletAtStart
) -> Iterator[StateFinding]:
    if isinstance(checkpoint, DeviceCheckpoint):
        yield from _device_findings(verification)
        return
    if isinstance(checkpoint, ClaimCheckpoint):
        yield from _claim_findings(checkpoint, verification, version=kubelet.version, reads_claims=kubelet.reads_claims)
        return
    newer = newer_format(checkpoint, verification)
    if newer is not None:
        yield StateFinding.of("format-unknown", f"{UNKNOWN_FORMAT}: {newer}")
        return
    if checkpoint.seal is not None and checkpoint.seal.problem and checkpoint.seal.checksum_fits:
        yield StateFinding.of("unreadable", checkpoint.seal.problem, "data")
        return
    if not verification.is_valid:
        yield StateFinding.of(
            "checksum-mismatch",
            f"the file says {verification.stored}, its content gives {verification.computed}",
            "checksum" if checkpoint.seal is None else "dataChecksum",
        )
        return
    if verification.form == "no checksum":
        yield StateFinding.of("checksum-missing", "the stored checksum is 0, which is not checked", "checksum")
    pod_level, counted = pod_level_gate(verification, kubelet), _counts_pods(checkpoint, verification, kubelet)
    yield from _policy_changes(checkpoint, kubelet)
    if isinstance(checkpoint, MemoryCheckpoint):
        accepted = memory_checkpoint.accepts(verification.form, version=kubelet.version, pod_level=pod_level)
        yield from _format_findings(verification, accepted, kubelet, pod_level)
        reserved = kubelet.reserved_memory
        found = memory_findings(
            checkpoint, verification, machine, version=kubelet.version, pod_level=counted, reserved=reserved
        )
        tolerance = kubelet.drift_tolerance
        yield from found if tolerance is None else (_tolerated(one, tolerance) for one in found)
        if checkpoint.policy_name == "Static" and kubelet.reservation_problem is not None:
            yield StateFinding.of("reservation-not-known", kubelet.reservation_problem, "machineState")
    else:
        accepted = cpu_checkpoint.accepts(verification.form, version=kubelet.version, pod_level=pod_level)
        yield from _format_findings(verification, accepted, kubelet, pod_level)
        manager = kubelet.cpu_manager
        yield from cpu_findings(
            checkpoint, verification, machine, version=kubelet.version, pod_level=counted, manager=manager
        )
    if pod_level and counted and checkpoint.pod_entries and charges_pods_again(kubelet.version):
        pods = ", ".join(checkpoint.pod_entries)
        yield StateFinding.of("pod-level-charged-again", f"pods with pod-level resources: {pods}", "podEntries")


def _policy_changes(checkpoint: MemoryCheckpoint | CpuCheckpoint, kubelet: KubeletAtStart) -> Iterator[StateFinding]:
    configured = kubelet.memory_policy if isinstance(checkpoint, MemoryCheckpoint) else kubelet.cpu_policy
    if configured is not None and configured != checkpoint.policy_name:
        message = f"the file is of policy {checkpoint.policy_name!r}, the kubelet's configuration says {configured!r}"
        yield StateFinding.of("policy-changed", message, "policyName")


def _format_findings(
    verification: Verification, accepted: bool, kubelet: KubeletAtStart, pod_level: bool
) -> Iterator[StateFinding]:
    if not accepted:
        yield StateFinding.of(
            "format-not-accepted",
            f"format {verification.form} is read as corrupt by Kubernetes {kubelet.version[0]}.{kubelet.version[1]} "
            f"with PodLevelResourceManagers {'on' if pod_level else 'off'}",
            "checksum",
        )


def _tolerated(finding: StateFinding, tolerance: str) -> StateFinding:
    """A drift that the kubelet may accept: up to what, and whether all promises fit then, is not worked out here."""
    if finding.name != "memory-total-drift":
        return finding
    message = (
        f"{finding.message}; with {DRIFT_OPTION} {tolerance} the kubelet may accept that, which cannot be told here"
    )
    return StateFinding.of(finding.name, message, finding.where, stops="unknown")


def _device_findings(verification: Verification) -> Iterator[StateFinding]:
    if not verification.is_valid:
        message = f"the file says {verification.stored}, its content gives {verification.computed}"
        yield StateFinding.of("devices-lost", f"checksum mismatch: {message}", "Checksum")


def _claim_findings(
    checkpoint: ClaimCheckpoint, verification: Verification, *, version: KubernetesVersion, reads_claims: bool
) -> Iterator[StateFinding]:
    """All findings of a file of a known format. `reads_claims`: see KubeletAtStart."""
    if verification.is_valid:
        return
    message = f"the file says {verification.stored}, its content gives {verification.computed}"
    if checkpoint.is_before_1_31:
        message = "the file has the form of Kubernetes 1.30, which newer kubelets read as corrupt"
    stops: Stops | None = None
    if checkpoint.is_before_1_31 and version < (1, 31):
        stops = "unknown"
    elif not reads_claims:
        message += f"; Kubernetes {version[0]}.{version[1]} without the gate {DRA_GATE} does not read it"
        stops = "nothing"
    yield StateFinding.of("checksum-mismatch", message, "Checksum", stops)
