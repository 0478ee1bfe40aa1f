"""One checkpoint file as it was read, whatever is wrong with it. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.file import Checkpoint, CheckpointKind
from numaudit.checkpoints.formats.seal import SealedCheckpoint
from numaudit.checkpoints.start import outlook as restart
from numaudit.checkpoints.start.findings import StateFinding
from numaudit.checkpoints.start.outlook import UNKNOWN_FORMAT
from numaudit.encoding.checksum import Verification
from numaudit.errors import ParseError
from numaudit.intent.kubelet import CheckpointHealth, StartOutlook

Problem = Literal["absent", "unreadable", "not understood", "checksum", "newer format"]


class CheckpointFile(Struct, frozen=True):
    """A file and its content. It has no clock: as long as the file stays as it is, so does this value."""

    kind: CheckpointKind | None
    """None = neither its name nor its keys say which checkpoint it is."""
    shown: str = ""
    """The path, with which messages begin; empty = they begin without one."""
    data: bytes | None = None
    """None = it is absent or cannot be read."""
    content: tuple[Checkpoint, Verification] | None = None
    """None = it is no checkpoint, no longer one, or of a format not known here."""
    finding: StateFinding | None = None
    """Reason why there is no content though there is a file, without the path."""
    problem: Problem | None = None
    """Reason why its content is not good."""
    detail: str | None = None
    """The problem in words."""
    good: Checkpoint | None = None
    """The newest content whose checksum fitted: of an earlier moment where there is a problem now."""
    written_at: float | None = None
    """Its modification time, seconds since the epoch."""

    @property
    def is_current(self) -> bool:
        """Is `good` what the file says now?"""
        return self.good is not None and self.problem is None

    @property
    def is_absent(self) -> bool:
        return self.problem == "absent"

    def health(self, last_good_at: float | None, outlook: StartOutlook = StartOutlook()) -> CheckpointHealth:  # noqa: B008
        """Without the content. `last_good_at`: when it was last good, seconds since the epoch."""
        policy = form = None
        if self.content is not None:
            found, verification = self.content
            policy = found.policy_name if isinstance(found, SealedCheckpoint) else None
            form = verification.form if self.problem is None else None
        kind, written_at = self.kind or "", self.written_at
        return CheckpointHealth(kind, policy, form, written_at, last_good_at, self.problem, self.detail, outlook)


def decode(kind: CheckpointKind | None, data: bytes, *, name: str = "", shown: str = "") -> CheckpointFile:
    """Decode a file's bytes. `kind` None = by the file's `name`, else by its keys. `shown`: see CheckpointFile."""
    begin = f"{shown}: " if shown else ""
    try:
        kind = kind or checkpoints.kind_of(name, data)
        checkpoint = checkpoints.parse(kind, data)
    except ParseError as error:
        finding = restart.unreadable(kind, error)
        problem: Problem = "newer format" if finding.name == "format-unknown" else "not understood"
        return CheckpointFile(kind, shown, data, finding=finding, problem=problem, detail=f"{begin}{finding.message}")
    verification = checkpoints.verify(checkpoint)
    file = CheckpointFile(kind, shown, data, (checkpoint, verification))
    newer = checkpoints.newer_format(checkpoint, verification)
    if newer is not None:
        return replace(file, problem="newer format", detail=f"{begin}{UNKNOWN_FORMAT}: {newer}")
    if not verification.is_valid:
        keys = f"; it has keys unknown here: {', '.join([*checkpoint.unknown][:3])}" if checkpoint.unknown else ""
        sums = f"the checksum is {verification.stored}, its content gives {verification.computed}"
        return replace(file, problem="checksum", detail=f"{begin}{sums}{keys}")
    return replace(file, good=checkpoint)
