"""One checkpoint examined: decoded, verified, and compared with the machine and the kubelet that is to start. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec import Struct, field, structs
from msgspec.structs import replace

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.file import CLAIMS, MEMORY, Checkpoint, CheckpointKind
from numaudit.checkpoints.formats.memory import WITH_PODS, MemoryCheckpoint
from numaudit.checkpoints.start import outlook as restart
from numaudit.checkpoints.start import restore
from numaudit.checkpoints.start.findings import CHECKPOINT_ABSENT, CONFIGURATION_REFUSED, StateFinding
from numaudit.checkpoints.start.memory_start import default_state
from numaudit.checkpoints.start.outlook import KubeletAtStart, Outlook
from numaudit.containermanager.memory.replay import replay
from numaudit.containermanager.memory.state import Block, MachineState, MemoryState
from numaudit.containermanager.pod.spec import PodName
from numaudit.errors import InputError
from numaudit.intent.kubelet import StartOutlook
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile
from numaudit.kubelet.questions.starting import Starting
from numaudit.topology.machine import Machine


class ExaminedFile(Struct, frozen=True):
    """One file of a host, or one that somebody named."""

    path: str
    file: CheckpointFile
    start: StartOutlook
    starting: Starting
    """The kubelet that it was examined for."""
    with_machine: bool
    """Was it compared with the machine that it belongs to?"""
    machine_problem: str | None = None
    """Reason why it was not although it belongs to one."""
    pods: Mapping[str, PodName] = field(default_factory=dict)
    """UID -> who the pods of its entries are, as far as known."""
    topology_policy: str | None = None
    """The Topology Manager's, of the host's kubelet; None = not known, or the file stands alone."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        return None if self.file.content is None else self.file.content[0]

    @property
    def is_damaged(self) -> bool:
        """Is it there, but no checkpoint or no longer one?"""
        return self.file.finding is not None


def examine(file: CheckpointFile, machine: Machine | None, kubelet: KubeletAtStart, folder: str) -> StartOutlook:
    """Outlook of `memorymanager.restart` for a file that exists. `machine` None = the file stands alone.

    `folder`: the kubelet's root folder, as the host calls it and the kubelet's words name it.
    """
    if file.content is None:
        found, start = None, _start(() if file.finding is None else (_judged(file, file.finding, kubelet),), kubelet)
    else:
        found = restart.examine(*file.content, machine, kubelet)
        start = StartOutlook(found.is_valid, found.starts_now, found.starts_after_reboot, found.findings)
        if kubelet.configuration_problem is not None:
            start = _start(found.findings, kubelet)
    return replace(start, refusal=_kubelet_says(file, found, kubelet, folder), compared=found)


def _judged(file: CheckpointFile, finding: StateFinding, kubelet: KubeletAtStart) -> StateFinding:
    """With the file's name, if it has one; a file that the kubelet does not read stops no start."""
    if file.kind == CLAIMS and not kubelet.reads_claims:
        finding = structs.replace(finding, stops="nothing")
    return structs.replace(finding, message=f"{file.shown}: {finding.message}") if file.shown else finding


def examine_absent(kind: CheckpointKind, shown: str, kubelet: KubeletAtStart) -> StartOutlook:
    """Would the kubelet start without this file? `shown`: where it would be."""
    if kind == MEMORY and kubelet.memory_policy == "Static":
        text = f"no file {shown}, though the Memory Manager's policy is Static"
        return replace(_start((StateFinding.of(CHECKPOINT_ABSENT, text),), kubelet), valid=None)
    return replace(_start((), kubelet), valid=None)


def _start(findings: Sequence[StateFinding], kubelet: KubeletAtStart) -> StartOutlook:
    """The outlook by the findings alone, and by what the kubelet says to its configuration."""
    if kubelet.configuration_problem is not None:
        findings = (StateFinding.of(CONFIGURATION_REFUSED, kubelet.configuration_problem), *findings)
    is_valid = not any(one.severity == "error" for one in findings)
    answers = restart.outlook(findings, machine_known=True)
    return StartOutlook(is_valid, *answers, tuple(findings), kubelet.configuration_problem)


def _kubelet_says(file: CheckpointFile, found: Outlook | None, kubelet: KubeletAtStart, folder: str) -> str | None:
    """The kubelet's words when it does not start with the file; None = it does, or they are not known."""
    if kubelet.configuration_problem is not None:
        return kubelet.configuration_problem
    if file.kind is None or (file.finding is not None and file.finding.name == "format-unknown"):
        return None
    return restore.kubelet_says(file.kind, file.data or b"", found, kubelet, folder)


def expected_on(checkpoint: Checkpoint, machine: Machine) -> MemoryCheckpoint:
    """State that the Memory Manager expects on this machine with the file's assignments. Raises InputError.

    Those of a node or a type of memory that the machine does not have are left out; keys that are none of the format's
    stay, because the machine says nothing about them.
    """
    if not isinstance(checkpoint, MemoryCheckpoint):
        raise InputError(f"a {checkpoints.kind(checkpoint)} can only be compared with a second file")
    pod_level = checkpoints.verify(checkpoint).form in WITH_PODS
    default = default_state(checkpoint.state, machine)
    fitting = _fitting(checkpoint.state, default)
    expected = replace(fitting, machine=replay(default, fitting, pod_level=pod_level))
    own = MemoryCheckpoint.of(checkpoint.policy_name, expected, pod_level=pod_level)
    return dataclasses.replace(own, unknown=checkpoint.unknown)


def _fitting(state: MemoryState, default: MachineState) -> MemoryState:
    """With only those blocks whose nodes all have such memory."""

    def fitting(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        return tuple(
            [
                one
                for one in blocks
                if all(node in default and one.type in default[node].memory_map for node in one.numa_affinity or ())
            ]
        )

    entries = {uid: {name: fitting(held) for name, held in of.items()} for uid, of in state.entries.items()}
    return MemoryState(state.machine, entries, {uid: fitting(held) for uid, held in state.pod_entries.items()})
