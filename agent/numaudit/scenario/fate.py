"""The fate of each pod of the node when the kubelet restarts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from numaudit.containermanager.versions import KubeletFeatures
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
    """It is not known what this version of the kubelet does with it; the admission is that of a later version."""


class Readmission(Struct, frozen=True):
    """One pod's admission after a restart."""

    admission: Admission
    fate: Fate
    problem: str | None = None
    """The reason why its fate is not known."""

    @property
    def admitted(self) -> bool | None:
        """None = that is not known."""
        return None if self.fate == Fate.UNKNOWN else self.admission.admitted


def fates(
    features: KubeletFeatures,
    before: NodeState,
    admissions: Sequence[Admission],
    running: Mapping[str, Collection[str]],
) -> tuple[Readmission, ...]:
    """`features`: of the kubelet that started; `running`: the containers that had started, by pod UID."""
    return tuple(_readmission(features, before, one, bool(running.get(one.pod.uid))) for one in admissions)


def _readmission(features: KubeletFeatures, before: NodeState, admission: Admission, was_running: bool) -> Readmission:
    problem = features.readmission_problem if before.holds_as_a_whole(admission.pod.uid) else None
    fate = _fate(before, admission, was_running) if problem is None else Fate.UNKNOWN
    return Readmission(admission, fate, problem)


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
