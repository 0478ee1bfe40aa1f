"""The fate of each pod of the node when the kubelet restarts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from numaudit.memorymanager.admission import Admission, NodeState


class Fate(StrEnum):
    """The fate of a pod."""

    KEPT = "kept"
    """It is admitted, with what it had."""
    ELSEWHERE = "elsewhere"
    """It is admitted, but with other nodes, CPUs or devices than it runs on."""
    REFUSED = "refused"
    """It is not admitted; none of its containers had started."""
    EVICTED = "evicted"
    """It is not admitted, so its containers are killed."""
    UNKNOWN = "unknown"
    """It is not known what this kubelet does with it: see `Admission.problem`."""


class Readmission(Struct, frozen=True):
    """One pod's admission after a restart."""

    admission: Admission
    fate: Fate

    @property
    def admitted(self) -> bool | None:
        """None = that is not known."""
        return None if self.fate == Fate.UNKNOWN else self.admission.admitted


def fates(
    before: NodeState,
    admissions: Sequence[Admission],
    running: Mapping[str, Collection[str]],
) -> tuple[Readmission, ...]:
    """`running`: the containers that had started, by pod UID."""
    return tuple(_readmission(before, one, bool(running.get(one.pod.uid))) for one in admissions)


def _readmission(before: NodeState, admission: Admission, was_running: bool) -> Readmission:
    is_known = admission.problem is None
    return Readmission(admission, _fate(before, admission, was_running) if is_known else Fate.UNKNOWN)


def _fate(before: NodeState, admission: Admission, was_running: bool) -> Fate:
    if not admission.admitted:
        return Fate.EVICTED if was_running else Fate.REFUSED
    uid = admission.pod.uid
    had, has = _held(before, uid), _held(admission.state, uid)
    moved = any(has.get(part) != held for part, held in had.items())
    return Fate.ELSEWHERE if moved else Fate.KEPT


def _held(state: NodeState, uid: str) -> dict[tuple[str, str], object]:
    """Memory, CPUs and devices of a pod's containers, by container and kind."""
    held: dict[tuple[str, str], object] = {}
    for name, blocks in state.memory.state.entries.get(uid, {}).items():
        held[name, "memory"] = {block.numa_affinity for block in blocks}
    for name, cpus in ({} if state.cpu is None else state.cpu.entries.get(uid, {})).items():
        held[name, "cpu"] = cpus
    for name, devices in state.devices.entries.get(uid, {}).items():
        held[name, "devices"] = dict(devices)
    return held
