"""The state of the kubelet's sources, its checkpoint files among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from numaudit.checkpoints.start.findings import StartAnswer, StateFinding
    from numaudit.checkpoints.start.outlook import Outlook


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
