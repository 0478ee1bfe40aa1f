"""What `numaudit state` prints, as values: the JSON documents and the base of its tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from numaudit.memorymanager.checkpoint import file as checkpoints
from numaudit.memorymanager.checkpoint.device import DeviceCheckpoint
from numaudit.memorymanager.checkpoint.file import Checkpoint, Kind
from numaudit.memorymanager.restart.findings import StateFinding
from numaudit.memorymanager.restart.outlook import Outlook

Content = dict[str, Any]
"""A checkpoint in its own words, as JSON reads it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in a checkpoint."""

    name: str
    severity: str
    message: str
    remedy: str
    where: str


@dataclass(frozen=True, slots=True)
class StateVerification:
    """One checkpoint file judged. None = not known: the file could not be read, or there was nothing to compare."""

    file: str
    checkpoint: Kind | None
    format: str | None
    """Whose checksum fits: V1, V2, ...; None = none does."""
    policy_name: str | None
    stored_checksum: int | None
    computed_checksum: int | None
    valid: bool
    replayed_on: str | None
    """`machine`, or `file` when only the file's own totals were there; None = nothing to replay."""
    machine_problem: str | None
    """Why it was not compared with the machine that it belongs to; None = it was, or the file stands alone."""
    refusal: str | None
    """The kubelet's words when it does not start with the file; None = it does, or they are not known."""
    first_difference: str | None
    """What the replay stumbles over; None = nothing, or nothing was replayed."""
    starts_now: str
    starts_after_reboot: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class StateVerificationList:
    """All checkpoints of a host."""

    valid: bool
    items: tuple[StateVerification, ...]


@dataclass(frozen=True, slots=True)
class State:
    """One checkpoint file decoded and judged."""

    verification: StateVerification
    content: Content | None


@dataclass(frozen=True, slots=True)
class StateList:
    """All checkpoints of a host."""

    items: tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs. None = the side has no such value."""

    where: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class StateDifference:
    """What differs between two checkpoints, their checksums left out."""

    left: str
    right: str
    differences: tuple[Change, ...]


def verification(
    file: str,
    checkpoint: Checkpoint,
    outlook: Outlook,
    *,
    with_machine: bool,
    machine_problem: str | None = None,
    refusal: str | None,
) -> StateVerification:
    """A checkpoint that could be read."""
    replay = outlook.refusal
    return StateVerification(
        file=file,
        checkpoint=checkpoints.kind(checkpoint),
        format=outlook.verification.form,
        policy_name=None if isinstance(checkpoint, DeviceCheckpoint) else checkpoint.policy_name,
        stored_checksum=outlook.verification.stored,
        computed_checksum=outlook.verification.computed,
        valid=outlook.is_valid,
        replayed_on=("machine" if with_machine else "file") if outlook.is_replayed else None,
        machine_problem=machine_problem,
        refusal=refusal,
        first_difference=None if replay is None else str(replay.difference or replay.message),
        starts_now=outlook.starts_now,
        starts_after_reboot=outlook.starts_after_reboot,
        findings=tuple(_finding(one) for one in outlook.findings),
    )


def unreadable(file: str, kind: Kind | None, finding: StateFinding, refusal: str | None) -> StateVerification:
    """A file that is no checkpoint, or no longer one."""
    starts = {"start": "no", "unknown": "unknown"}.get(finding.what_it_stops, "yes")
    return StateVerification(
        file, kind, None, None, None, None, False, None, None, refusal, None, starts, starts, (_finding(finding),)
    )


def content(checkpoint: Checkpoint) -> Content:
    """The checkpoint in the words of its file."""
    return msgspec.json.decode(msgspec.json.encode(checkpoints.plain_content(checkpoint)), type=Content)


def compare(left: Content, right: Content) -> tuple[Change, ...]:
    """Value by value, in the order of the left side; the checksums are left out."""
    without_checksum = [
        {k: v for k, v in side.items() if k.casefold() not in ("checksum", "datachecksum")} for side in (left, right)
    ]
    return tuple(_changes("", *without_checksum))


def _changes(where: str, left: object, right: object) -> Iterator[Change]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            path = f"{where}.{key}" if where else str(key)
            if key in left and key in right:
                yield from _changes(path, left[key], right[key])
            else:
                yield Change(path, left.get(key), right.get(key))
    elif left != right:
        yield Change(where, left, right)


def _finding(finding: StateFinding) -> Finding:
    return Finding(finding.name, finding.severity, finding.message, finding.remedy, finding.where)
