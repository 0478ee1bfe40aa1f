"""The kubelet's settings that decide about NUMA, the names of its counters, and the state of the sources that tell of
it, its checkpoint files among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field

if TYPE_CHECKING:
    from numaudit.checkpoints.start.findings import StartAnswer, StateFinding
    from numaudit.checkpoints.start.outlook import Outlook


class KubeletConfig(Struct, frozen=True):
    """The kubelet's settings that decide about NUMA. Defaults are filled in only where the configuration was read."""

    version: str | None = None
    """v1.36.2"""
    memory_manager_policy: str | None = None
    cpu_manager_policy: str | None = None
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    feature_gates: Mapping[str, bool] | None = None
    """Only those that were set."""
    document: Mapping[str, object] | None = None
    """The KubeletConfiguration in force, drop-in files and flags folded in; `memorymanager.kubelet.read_kubelet`
    reads it. It has only the fields that were set somewhere."""
    ignored: tuple[str, ...] = ()
    """Fields of its configuration files that a kubelet does not have and that are near to one it has, in words."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Field of this class -> `flag`, `file`, `configz`, `default`, `log`, `checkpoint` or `metrics`."""

    @property
    def topology_manager_options(self) -> Mapping[str, str] | None:
        """topologyManagerPolicyOptions; None = none are set, or it is not known."""
        return self._options("topologyManagerPolicyOptions")

    @property
    def cpu_manager_options(self) -> Mapping[str, str] | None:
        """cpuManagerPolicyOptions; None = none are set, or it is not known."""
        return self._options("cpuManagerPolicyOptions")

    def _options(self, key: str) -> Mapping[str, str] | None:
        found = (self.document or {}).get(key)
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, Mapping) else None


class KubeletSeries(NamedTuple):
    """One series of the kubelet's own metrics; its labels as names and values, in the kubelet's order."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


REJECTIONS = "kubelet_admission_rejections_total"
"""Of pods that the kubelet refused, by reason."""
SourceName = Literal[
    "memory checkpoint",
    "cpu checkpoint",
    "device checkpoint",
    "claim checkpoint",
    "cdi",
    "podresources",
    "allocatable devices",
    "pods",
    "kubelet configuration",
    "kubelet log",
    "kubelet metrics",
]


class SourceState(Struct, frozen=True):
    """The state of one of the kubelet's sources.

    `ok`: read now. `partial`: read now, but not all of it was understood. `old`: could not be read now, its last good
    values are used. `missing`: nothing is known from it.
    """

    name: SourceName
    state: Literal["ok", "partial", "old", "missing"]
    reason: str | None = None
    """Reason why it is not `ok`; what an `ok` source left out."""
    read_at: float | None = None
    """Time when the values in use were read, seconds since the epoch."""
    age: float | None = None
    """Seconds since then; None = not known, or of a captured host."""
    lost: int = 0
    """Bytes of log that were passed over because there were too many, since the start."""


class StartOutlook(Struct, frozen=True):
    """Would the kubelet start with a checkpoint on this machine, with the configuration that is known?"""

    valid: bool | None = None
    """Nothing is wrong with it; None = it is absent or was not read."""
    starts_now: StartAnswer = "unknown"
    starts_after_reboot: StartAnswer = "unknown"
    findings: tuple[StateFinding, ...] = ()
    refusal: str | None = None
    """The kubelet's words when it does not start with it now; None = it does, or they are not known."""
    compared: Outlook | None = None
    """The whole comparison; None = there was nothing to compare."""


class CheckpointHealth(Struct, frozen=True):
    """One checkpoint file."""

    file: str
    """`memory_manager_state`, `cpu_manager_state`, `kubelet_internal_checkpoint` or `dra_manager_state`."""
    policy: str | None = None
    form: str | None = None
    """The format whose checksum fits: V1, V2, ... None = none does."""
    written_at: float | None = None
    """The file's modification time, seconds since the epoch. Of the file as it is, even when it is corrupt."""
    last_good_at: float | None = None
    """Time when a file with a fitting checksum was last seen."""
    problem: Literal["absent", "unreadable", "not understood", "checksum", "newer format"] | None = None
    detail: str | None = None
    """The problem in words."""
    outlook: StartOutlook = StartOutlook()
