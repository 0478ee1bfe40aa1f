"""The output of `numaudit state` as values: the JSON documents and the base of its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.file import Checkpoint, CheckpointKind
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.formats.seal import SealedCheckpoint
from numaudit.checkpoints.start.findings import StartAnswer, StateFinding
from numaudit.containermanager.memory.headroom import headroom_of, holders_of
from numaudit.containermanager.pod.spec import PodName
from numaudit.encoding.value import Value
from numaudit.errors import InputError
from numaudit.kubelet.questions.examination import ExaminedFile
from numaudit.report.memory_manager import MemoryManagerReport, of_map

Content = dict[str, Any]
"""A checkpoint in its own words, as JSON reads it."""


class StartingKubelet(Value, frozen=True):
    """The kubelet that is to start with the file. None = not known: it counts as it is in the file."""

    version: str
    """Such as 1.36."""
    policy: str | None
    """Of the file's manager."""
    pod_level_resource_managers: bool | None
    """The feature gate."""
    sources: dict[str, str]
    """Source of each value: option, configz, flag, file, default, log or metrics."""


class StateVerification(Value, frozen=True):
    """One checkpoint file judged. None = not known: the file could not be read, or there was nothing to compare."""

    file: str
    """The file's name."""
    checkpoint: CheckpointKind | None
    """Kind of checkpoint; null = none that is known."""
    kubelet: StartingKubelet
    """The kubelet that is to start with it."""
    format: str | None
    """Format whose checksum fits: V1, V2, ...; None = none does."""
    policy_name: str | None
    stored_checksum: int | None
    """The checksum in the file."""
    computed_checksum: int | None
    """The checksum of its content."""
    valid: bool
    replayed_on: str | None
    """`machine`, or `file` when only the file's own totals were there; None = nothing to replay."""
    machine_problem: str | None
    """Reason why it was not compared with the machine that it belongs to; None = it was, or the file stands alone."""
    refusal: str | None
    """The kubelet's words when it does not start with the file; None = it does, or they are not known."""
    first_difference: str | None
    """First difference between the replay and the file; None = nothing, or nothing was replayed."""
    starts_now: StartAnswer
    starts_after_reboot: StartAnswer
    findings: tuple[StateFinding, ...]
    pods: Mapping[str, PodName]
    """UID -> who the pods of its entries are, as far as the host's kubelet or its log tells."""


class StateVerificationList(Value, frozen=True):
    """All checkpoints of a host."""

    valid: bool
    """Nothing is wrong with any."""
    items: tuple[StateVerification, ...]


class DecodedState(Value, frozen=True):
    """One checkpoint file decoded and judged."""

    verification: StateVerification
    """Result of checking the file."""
    content: Content | None
    """Content of the file; null = it cannot be decoded."""
    headroom: MemoryManagerReport | None
    """Room that a memory_manager_state leaves to new containers; null = of another file, or it has no memory map. Only
    a file of a host's kubelet is known to be judged by some policy, and what has no promise is never known here."""


class DecodedStateList(Value, frozen=True):
    """All checkpoints of a host."""

    items: tuple[DecodedState, ...]


class Change(Value, frozen=True):
    """One value that differs. None = the side has no such value."""

    where: str
    """The path to the value in the file."""
    left: Any
    """The value on the one side."""
    right: Any
    """The value on the other side."""


class StateDifference(Value, frozen=True):
    """The differences between two checkpoints, without their checksums."""

    left: str
    """The one side's name."""
    right: str
    """The other side's name."""
    differences: tuple[Change, ...]
    """Value by value."""
    pods: Mapping[str, PodName]
    """UID -> who the pods of both are, as far as the host's kubelet or its log tells."""


def verification(file: ExaminedFile) -> StateVerification:
    """One examined file; of one that is absent, no checkpoint, or no longer one, hardly anything is known."""
    start, found = file.start, file.start.compared
    checkpoint = file.checkpoint
    replay = None if found is None else found.refusal
    return StateVerification(
        file=file.path,
        checkpoint=file.file.kind,
        kubelet=_kubelet(file, file.file.kind),
        format=None if found is None else found.verification.form,
        policy_name=checkpoint.policy_name if isinstance(checkpoint, SealedCheckpoint) else None,
        stored_checksum=None if found is None else found.verification.stored,
        computed_checksum=None if found is None else found.verification.computed,
        valid=start.valid is not False,
        replayed_on=("machine" if file.with_machine else "file") if found is not None and found.is_replayed else None,
        machine_problem=None if found is None else file.machine_problem,
        refusal=start.refusal,
        first_difference=None if replay is None else str(replay.difference or replay.message),
        starts_now=start.starts_now,
        starts_after_reboot=start.starts_after_reboot,
        findings=start.findings,
        pods=file.pods,
    )


def _kubelet(file: ExaminedFile, kind: CheckpointKind | None) -> StartingKubelet:
    kubelet, sources = file.starting.kubelet, file.starting.sources
    if file.checkpoint is not None:
        kubelet = kubelet.assumed_for(file.checkpoint)
    fields: dict[CheckpointKind, str] = {checkpoints.MEMORY: "memory_policy", checkpoints.CPU: "cpu_policy"}
    field = "" if kind is None else fields.get(kind, "")
    policy = getattr(kubelet, field, None)
    named = {"version": "version", "policy": field, "podLevelResourceManagers": "pod_level"}
    return StartingKubelet(
        f"{kubelet.version[0]}.{kubelet.version[1]}",
        policy,
        kubelet.pod_level,
        {shown: sources[name] for shown, name in named.items() if name in sources},
    )


def verifications(files: Sequence[ExaminedFile]) -> StateVerificationList:
    """All checkpoints of a host."""
    items = tuple([verification(one) for one in files])
    return StateVerificationList(all(one.valid for one in items), items)


def decoded(file: ExaminedFile) -> DecodedState:
    """One examined file with all that it says."""
    return DecodedState(
        verification(file), None if file.checkpoint is None else content(file.checkpoint), headroom(file)
    )


def headroom(file: ExaminedFile) -> MemoryManagerReport | None:
    """The room that the memory map of a file leaves to new containers; None = it has none."""
    checkpoint = file.checkpoint
    if not isinstance(checkpoint, MemoryCheckpoint) or not checkpoint.machine:
        return None
    try:
        left = headroom_of(checkpoint.machine, file.topology_policy)
    except InputError:  # a node without any memory; a finding says so
        return None
    return of_map(checkpoint.machine, left, holders_of(checkpoint.state), file.pods, {})


def difference(
    left: str, right: str, a: Checkpoint, b: Checkpoint, pods: Mapping[str, PodName] | None = None
) -> StateDifference:
    """Two checkpoints compared, by the names that they are shown with."""
    return StateDifference(left, right, (*compare(content(a), content(b)), *_of_unknown_keys(a, b)), pods or {})


def content(checkpoint: Checkpoint) -> Content:
    """The checkpoint in the words of its file."""
    return msgspec.json.decode(msgspec.json.encode(checkpoints.plain_content(checkpoint)), type=Content)


def _of_unknown_keys(a: Checkpoint, b: Checkpoint) -> Iterator[Change]:
    """Of keys that are none of the format's; a seal is not part of their path."""
    left, right = ({path.removeprefix("data."): value for path, value in one.unknown.items()} for one in (a, b))
    for path in [*left, *(path for path in right if path not in left)]:
        if path not in left or path not in right or left[path] != right[path]:
            yield Change(path, _writable(left.get(path)), _writable(right.get(path)))


def _writable(value: object) -> object:
    """The value without half surrogate pairs, which no UTF-8 holds: a question mark is in their place."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


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
    elif (named := _by_name(left)) is not None and (other := _by_name(right)) is not None:
        yield from _changes(where, named, other)
    elif left != right:
        yield Change(where, left, right)


_NAMES = (("ClaimUID",), ("PodUID", "ContainerName", "ResourceName"), ("PoolName", "DeviceName", "ShareID"))
"""Keys that tell an entry of a list from the others: of a claim, of devices that a container holds, of a device."""


def _by_name(entries: object) -> Content | None:
    """The entries of a list by what tells them apart; None = nothing does. In Go they come from a map, in any order."""
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        return None
    for keys in _NAMES:
        if all(keys[0] in one for one in entries):
            named = {"/".join(str(one[key]) for key in keys if one.get(key) is not None): one for one in entries}
            return named if len(named) == len(entries) else None
    return None
