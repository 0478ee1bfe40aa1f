"""Everything that was read from one host's kubelet by one tick, as values. None = not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.checkpoints.formats.file import CLAIMS, CPU, DEVICES, MEMORY, Checkpoint, CheckpointKind
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.intent.kubelet import KubeletConfig, SourceName, SourceState
from numaudit.intent.pods import Rejection
from numaudit.kubelet.parsers.admissions import LogFacts
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile
from numaudit.kubelet.parsers.metrics import KubeletMetrics
from numaudit.kubelet.parsers.pods import Pods
from numaudit.kubelet.sources.cdi_files import CdiSpecs
from numaudit.kubelet.sources.podresources import NodesOfDevices, PodResources
from numaudit.topology.machine import Machine

Question = Literal["/pods", "/configz", "/metrics", "podresources"]
"""Sources of a kubelet: three pages, and List of PodResources."""

_NAMES: Mapping[CheckpointKind, SourceName] = {
    MEMORY: "memory checkpoint",
    CPU: "cpu checkpoint",
    DEVICES: "device checkpoint",
    CLAIMS: "claim checkpoint",
}


class KubeletReadings(Struct, frozen=True):
    """The values of every source in use, those of earlier ticks included where a source does not answer now."""

    checkpoints: Mapping[CheckpointKind, CheckpointFile] = field(default_factory=dict)
    last_good_at: Mapping[CheckpointKind, float | None] = field(default_factory=dict)
    """Time when each of them was last good, seconds since the epoch."""
    config: KubeletConfig = KubeletConfig()
    """The kubelet's own settings, from /configz or from its files and flags."""
    pods: Pods | None = None
    pods_are_current: bool = False
    refused: Mapping[str, Rejection] = field(default_factory=dict)
    """UID -> refusal of pods that were listed in the last hour, deleted ones included."""
    strange_pods: int = 0
    """Parts of the list that were not understood."""
    resources: tuple[PodResources, ...] | None = None
    """None also when PodResources does not answer now: it has no last good value."""
    allocatable_devices: NodesOfDevices | None = None
    """None also where no plugin has registered devices."""
    cdi: CdiSpecs = CdiSpecs()
    """Empty where nothing has a resource claim."""
    log: LogFacts = LogFacts()
    metrics: KubeletMetrics | None = None
    metrics_read_at: float | None = None
    """Seconds since the epoch."""
    machine: Machine | None = None
    """None = it cannot be read whole."""
    machine_problem: str | None = None
    """Reason why it cannot."""
    folder: str = ""
    """The kubelet's root folder, as the host calls it."""
    cgroups_are_settled: bool = False
    """Were the checkpoints written long enough ago that every pod in them has its cgroup?"""
    polled_at: float | None = None
    """Time of the newest poll, in seconds since the epoch."""
    is_captured: bool = False
    """Of a captured host, whose answers have no age; one that was taken away since has."""
    polled: tuple[SourceState, ...] = field(default=())
    """The state of the sources beside the checkpoints."""
    unanswered: Mapping[Question, Exception] = field(default_factory=dict)
    """Reason why a question has no answer, or none that was understood."""

    @property
    def memory(self) -> MemoryCheckpoint | None:
        found = self._good(MEMORY)
        return found if isinstance(found, MemoryCheckpoint) else None

    @property
    def cpu(self) -> CpuCheckpoint | None:
        found = self._good(CPU)
        return found if isinstance(found, CpuCheckpoint) else None

    @property
    def devices(self) -> DeviceCheckpoint | None:
        found = self._good(DEVICES)
        return found if isinstance(found, DeviceCheckpoint) else None

    @property
    def claims(self) -> ClaimCheckpoint | None:
        found = self._good(CLAIMS)
        return found if isinstance(found, ClaimCheckpoint) else None

    def _good(self, kind: CheckpointKind) -> Checkpoint | None:
        return self.checkpoints[kind].good if kind in self.checkpoints else None

    @property
    def are_current(self) -> tuple[bool, bool, bool]:
        """Of the checkpoints of memory, CPUs and devices."""
        current = {kind for kind, file in self.checkpoints.items() if file.is_current}
        return MEMORY in current, CPU in current, DEVICES in current

    @property
    def sources(self) -> tuple[SourceState, ...]:
        """The state of every source, the checkpoints first."""
        any_is_current = any(self.are_current)
        files = [
            _state_of(kind, file, self.last_good_at.get(kind), any_is_current)
            for kind, file in self.checkpoints.items()
        ]
        return tuple([replace(one, age=self._age(one)) for one in (*files, *self.polled)])

    def _age(self, one: SourceState) -> float | None:
        if self.polled_at is None or one.read_at is None or (self.is_captured and one.state in {"ok", "partial"}):
            return None
        return max(0.0, self.polled_at - one.read_at)


def _state_of(
    kind: CheckpointKind, file: CheckpointFile, last_good_at: float | None, any_is_current: bool
) -> SourceState:
    name = _NAMES[kind]
    if file.is_current:
        return SourceState(name, "ok", None, last_good_at)
    if kind == DEVICES and file.good is None and file.is_absent and any_is_current:
        # The kubelet writes this file with its first device plugin. Where its others are, nothing is missing.
        return SourceState(name, "ok", f"{file.detail}: no device plugin has registered")
    return SourceState(name, "missing" if file.good is None else "old", file.detail, last_good_at)
