"""One checkpoint examined: decoded, verified, and compared with the machine and the kubelet that is to start. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from numaudit.errors import InputError, ParseError
from numaudit.intent import StartOutlook
from numaudit.memorymanager.checkpoint import file as checkpoints
from numaudit.memorymanager.checkpoint.file import MEMORY, Checkpoint, Kind
from numaudit.memorymanager.checkpoint.memory import WITH_PODS, MemoryCheckpoint
from numaudit.memorymanager.go.spew import Verification
from numaudit.memorymanager.memory.replay import replay
from numaudit.memorymanager.memory.state import Block, MachineState, MemoryState
from numaudit.memorymanager.restart import kubelet_words
from numaudit.memorymanager.restart import outlook as restart
from numaudit.memorymanager.restart.findings import CHECKPOINT_ABSENT, CONFIGURATION_REFUSED, StateFinding
from numaudit.memorymanager.restart.memory_start import default_state
from numaudit.memorymanager.restart.outlook import Outlook, StartingKubelet
from numaudit.topology.machine import Machine


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one file says. `content` None = it is no checkpoint, no longer one, or of a format not known here."""

    kind: Kind | None
    """None = neither its name nor its keys say which checkpoint it is."""
    content: tuple[Checkpoint, Verification] | None = None
    problem: StateFinding | None = None
    """Why there is no content."""
    data: bytes = b""
    """The file's bytes."""
    shown: str = ""
    """What a finding about a file without content begins with: the file's path as messages call it."""

    @property
    def error(self) -> str | None:
        return None if self.problem is None else self.problem.message

    @property
    def is_newer(self) -> bool:
        """It is of a format that no kubelet known here writes."""
        return self.problem is not None and self.problem.name == "format-unknown"


@dataclass(frozen=True, slots=True)
class Examined:
    """What a file says, and whether the kubelet starts with it."""

    decoded: Decoded
    start: StartOutlook
    replay: Outlook | None = None
    """The whole result of the comparison; None = there was nothing to compare."""


def decode(kind: Kind | None, data: bytes, *, name: str = "", shown: str = "") -> Decoded:
    """Read a file's bytes. `kind` None = by the file's `name`, else by its keys. `shown`: as in Decoded."""
    try:
        kind = kind or checkpoints.kind_of(name, data)
        checkpoint = checkpoints.parse(kind, data)
    except ParseError as error:
        return Decoded(kind, problem=restart.unreadable(kind, error), data=data, shown=shown)
    return Decoded(kind, (checkpoint, checkpoints.verify(checkpoint)), data=data, shown=shown)


def examine(decoded: Decoded, machine: Machine | None, kubelet: StartingKubelet, folder: str) -> Examined:
    """What `memorymanager.restart` says of a file. `machine` None = the file stands alone.

    `folder`: the kubelet's root folder, as the host calls it and the kubelet's words name it.
    """
    if decoded.content is None:
        found, start = None, _start(() if decoded.problem is None else (_named(decoded, decoded.problem),), kubelet)
    else:
        found = restart.examine(*decoded.content, machine, kubelet)
        start = StartOutlook(found.is_valid, found.starts_now, found.starts_after_reboot, found.findings)
        if kubelet.configuration_problem is not None:
            start = _start(found.findings, kubelet)
    return Examined(decoded, replace(start, refusal=_kubelet_says(decoded, found, kubelet, folder)), found)


def _named(decoded: Decoded, problem: StateFinding) -> StateFinding:
    return replace(problem, message=f"{decoded.shown}: {problem.message}") if decoded.shown else problem


def examine_absent(kind: Kind, shown: str, kubelet: StartingKubelet) -> StartOutlook:
    """Would the kubelet start without this file? `shown`: where it would be."""
    if kind == MEMORY and kubelet.memory_policy == "Static":
        text = f"no file {shown}, though the Memory Manager's policy is Static"
        return replace(_start((StateFinding(CHECKPOINT_ABSENT, text),), kubelet), valid=None)
    return replace(_start((), kubelet), valid=None)


def _start(findings: Sequence[StateFinding], kubelet: StartingKubelet) -> StartOutlook:
    """The outlook by the findings alone, and by what the kubelet says to its configuration."""
    if kubelet.configuration_problem is not None:
        findings = (StateFinding(CONFIGURATION_REFUSED, kubelet.configuration_problem), *findings)
    is_valid = not any(one.severity == "error" for one in findings)
    answers = restart.outlook(findings, machine_known=True)
    return StartOutlook(is_valid, *answers, tuple(findings), kubelet.configuration_problem)


def _kubelet_says(decoded: Decoded, found: Outlook | None, kubelet: StartingKubelet, folder: str) -> str | None:
    """The kubelet's words when it does not start with the file; None = it does, or they are not known."""
    if kubelet.configuration_problem is not None:
        return kubelet.configuration_problem
    if decoded.kind is None or decoded.is_newer:
        return None
    return kubelet_words.kubelet_says(decoded.kind, decoded.data, found, kubelet, folder)


def expected_on(checkpoint: Checkpoint, machine: Machine) -> MemoryCheckpoint:
    """What the Memory Manager expects on this machine with the file's assignments. Raises InputError.

    Those of a node or a type of memory that the machine does not have are left out.
    """
    if not isinstance(checkpoint, MemoryCheckpoint):
        raise InputError(f"a {checkpoints.kind(checkpoint)} can only be compared with a second file")
    pod_level = checkpoints.verify(checkpoint).form in WITH_PODS
    default = default_state(checkpoint.state, machine)
    fitting = _fitting(checkpoint.state, default)
    expected = replace(fitting, machine=replay(default, fitting, pod_level=pod_level))
    return MemoryCheckpoint.of(checkpoint.policy_name, expected, pod_level=pod_level)


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
