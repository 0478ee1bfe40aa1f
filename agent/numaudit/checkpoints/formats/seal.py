"""`data` and `dataChecksum`: the form of the memory and CPU checkpoints since Kubernetes 1.37.

The content is a text of JSON in the file, and the checksum is that of the text. Beside it the file repeats
the content as older kubelets know it, with their checksum. A kubelet of 1.37 ignores that part, an older
kubelet ignores `data`, so a file is read after an upgrade and after a downgrade.

Source: pkg/kubelet/cm/{memorymanager,cpumanager}/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from numaudit.containermanager.versions import KubernetesVersion
from numaudit.encoding import go_json
from numaudit.encoding.checksum import Verification, checksum
from numaudit.encoding.go_json import Reader
from numaudit.encoding.go_syntax import GoRefusal, NotJson, load
from numaudit.errors import ParseError

SINCE: KubernetesVersion = (1, 37)


class Seal(Struct, frozen=True):
    """The two keys as they are in the file."""

    data: str
    checksum: int
    problem: str | None = None
    """Reason why `data` cannot be read; None = it can."""
    go_problem: str | None = None
    """The same in Go's words, where they are known."""
    is_json: bool = True

    @classmethod
    def of(cls, content: object) -> Seal:
        """The seal that a kubelet would write."""
        data = go_json.dump(content).decode()
        return cls(data, _checksum(data))

    def unread(self, error: ParseError) -> Seal:
        """The same, of data that cannot be read."""
        in_go = error.in_go if isinstance(error, GoRefusal) else None
        return Seal(self.data, self.checksum, str(error), in_go, not isinstance(error, NotJson))

    @property
    def computed(self) -> int:
        return _checksum(self.data)

    @property
    def checksum_fits(self) -> bool:
        return self.checksum == self.computed

    @property
    def is_foreign(self) -> bool:
        """Does the checksum fit JSON that cannot be read here? Then a newer kubelet wrote it."""
        return self.problem is not None and self.is_json and self.checksum_fits


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCheckpoint(ABC):
    """Common parts of the memory and the CPU checkpoint; the other fields are the content, of `data` where it is
    sealed."""

    checksum: int
    unknown: Mapping[str, object] = field(default_factory=dict)
    """Path -> value of keys that are none of the format's; the kubelet passes over them."""
    seal: Seal | None = None
    """None = an older format."""
    outside: Self | None = None
    """Content of a sealed file outside of `data`, all that a kubelet before 1.37 reads."""

    @property
    @abstractmethod
    def content(self) -> Struct:
        """The content as it is written, whatever the format, without checksums."""

    def as_read_by(self, version: KubernetesVersion) -> Self:
        """The file's content as a kubelet of this version reads it."""
        return self if self.outside is None or version >= SINCE else self.outside


Checkpoint = TypeVar("Checkpoint", bound=SealedCheckpoint)


def with_checksums(
    checkpoint: Checkpoint, outside: Checkpoint, version: KubernetesVersion, render: Callable[[Checkpoint], str]
) -> Checkpoint:
    """The checkpoint with the checksums of a kubelet of this version. `outside`: what older kubelets know of it;
    `render`: the text that their checksum is taken over.
    """
    if version < SINCE:
        return replace(checkpoint, checksum=checksum(render(checkpoint)))
    outside = replace(outside, checksum=checksum(render(outside)))
    return replace(checkpoint, checksum=outside.checksum, seal=Seal.of(checkpoint.content), outside=outside)


def unmarshal(
    data: bytes, files: Reader[Any], contents: Reader[Any], checkpoint: Callable[[Any, int], Checkpoint]
) -> Checkpoint:
    """A file of the form `files`, which has checksum, data and data_checksum beside the content.

    Of one with a seal the content is that of its `data`; where `data` is damaged, that outside of it. Raises
    ParseError.
    """
    unknown: dict[str, object] = {}
    inner: dict[str, object] = {}
    try:
        file = files.read(data, unknown)
        checksum = file.checksum or 0
        whole = outside = checkpoint(file, checksum)
    except ParseError as error:
        raise _newer_or(error, data, unknown) from None
    if file.data or file.data_checksum:
        found = Seal(file.data, file.data_checksum)
        try:
            whole = checkpoint(contents.read(file.data.encode(), inner), checksum)
        except ParseError as error:
            found, inner = found.unread(error), {}
        whole = replace(whole, seal=found, outside=outside)
    return replace(whole, unknown=unknown | inner)


def write(checkpoint: SealedCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. The stored checksums are written as they are."""
    outside, found = checkpoint.outside or checkpoint, checkpoint.seal
    document = {**_plain(outside.content), "checksum": checkpoint.checksum}
    if found is not None:
        document |= {"data": found.data, "dataChecksum": found.checksum}
    return go_json.dump(document)


def plain_content(checkpoint: SealedCheckpoint) -> dict[str, object]:
    """The content in the words of the file, whatever the format, and the checksums."""
    document = {**_plain(checkpoint.content), "checksum": checkpoint.checksum}
    return document if checkpoint.seal is None else document | {"dataChecksum": checkpoint.seal.checksum}


def verify(found: Seal, form: str) -> Verification:
    """A checksum of 0 is compared like any other. Data that cannot be read has no format."""
    fits = found.problem is None and found.checksum_fits
    return Verification(form if fits else None, found.checksum, found.computed)


class NewerFormat(ParseError):
    """The file has keys that no known kubelet writes, and the others are not as known."""


def _newer_or(error: ParseError, data: bytes, unknown: Mapping[str, object]) -> ParseError:
    """NewerFormat where the file's own keys are not as known, else the error. Raises it for what is not JSON."""
    top = load(data)
    data_of = [value for key, value in top.items() if key.casefold() == "data"] if isinstance(top, dict) else []
    keys = [path for path in unknown if "." not in path]
    if len(data_of) == 1 and not isinstance(data_of[0], str):
        keys.append("data")
    return NewerFormat(f"{error}; and there are keys unknown here: {', '.join(keys[:3])}") if keys else error


def _plain(content: Struct) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(content)
    return plain


def _checksum(data: str) -> int:
    """Of go-spew's text for a string."""
    return checksum(f"(string){data}")
