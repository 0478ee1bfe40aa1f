"""`data` and `dataChecksum`: the form of the memory and CPU checkpoints since Kubernetes 1.37.

The content is a text of JSON in the file, and the checksum is that of the text. Beside it the file repeats
the content as older kubelets know it, with their checksum. A kubelet of 1.37 ignores that part, an older
kubelet ignores `data`, so a file is read after an upgrade and after a downgrade.

Source: pkg/kubelet/cm/{memorymanager,cpumanager}/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from msgspec import Struct

from numaudit.containermanager.versions import KubernetesVersion
from numaudit.errors import ParseError
from numaudit.gojson import json as go_json
from numaudit.gojson.json import FieldNames, Walk, WrongType, field_names
from numaudit.gojson.spew import Verification, checksum
from numaudit.gojson.syntax import syntax_error

SINCE: KubernetesVersion = (1, 37)

_TOP = field_names("checksum", "data", "dataChecksum")


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
    def of(cls, content: Mapping[str, object]) -> Seal:
        """The seal that a kubelet would write."""
        data = go_json.dump(content).decode()
        return cls(data, _checksum(data))

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
    unknown: tuple[str, ...] = ()
    """Paths of keys that are none of the format's; the kubelet passes over them."""
    refused: tuple[str, ...] = ()
    """Paths of entries that were left out, because their key is half of a surrogate pair."""
    seal: Seal | None = None
    """None = an older format."""
    outside: Self | None = None
    """Content of a sealed file outside of `data`, all that a kubelet before 1.37 reads."""

    @property
    @abstractmethod
    def content(self) -> dict[str, object]:
        """The content in the words of the file, whatever the format, without checksums."""

    def as_read_by(self, version: KubernetesVersion) -> Self:
        """The file's content as a kubelet of this version reads it."""
        return self if self.outside is None or version >= SINCE else self.outside


Checkpoint = TypeVar("Checkpoint", bound=SealedCheckpoint)
Content = TypeVar("Content")


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
    data: bytes, names: FieldNames, content: Callable[[Walk, Mapping[str, object]], Checkpoint]
) -> Checkpoint:
    """A file whose content has these keys. Of one with a seal it is that of its `data`, which `content` reads as well;
    where `data` is damaged, that outside of it. Raises ParseError.
    """
    walk = Walk()
    top = walk.struct(go_json.load(data), {**names, **_TOP})
    with newer_format_errors(walk, top):
        outside = content(walk, top)
        found = parse(walk, top, lambda inner, value: content(inner, inner.struct(value, names)))
    whole = outside
    if found is not None:
        sealed, inside = found
        whole = replace(inside or outside, checksum=outside.checksum, seal=sealed, outside=outside)
    return replace(whole, unknown=tuple(walk.unknown), refused=tuple(walk.refused))


def parse(
    walk: Walk, top: Mapping[str, object], read: Callable[[Walk, object], Content]
) -> tuple[Seal, Content | None] | None:
    """The seal of a file and what `read` makes of its data (None = it cannot be read); None = it has no seal."""
    data, stored = walk.text(top, "data"), walk.number(top, "dataChecksum")
    if not data and not stored:
        return None
    inner = Walk()
    inner.below("data")
    try:
        content = read(inner, go_json.load(data.encode()))
    except ParseError as error:
        syntax = syntax_error(data.encode())
        wrong_type = error.in_go if isinstance(error, WrongType) else None
        return Seal(data, stored, str(error), syntax or wrong_type, syntax is None), None
    walk.unknown += inner.unknown
    walk.refused += inner.refused
    return Seal(data, stored), content


def write(checkpoint: SealedCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. The stored checksums are written as they are."""
    outside, found = checkpoint.outside or checkpoint, checkpoint.seal
    document = {**outside.content, "checksum": checkpoint.checksum}
    if found is not None:
        document |= {"data": found.data, "dataChecksum": found.checksum}
    return go_json.dump(document)


def plain_content(checkpoint: SealedCheckpoint) -> dict[str, object]:
    """The content in the words of the file, whatever the format, and the checksums."""
    document = {**checkpoint.content, "checksum": checkpoint.checksum}
    return document if checkpoint.seal is None else document | {"dataChecksum": checkpoint.seal.checksum}


def verify(found: Seal, form: str) -> Verification:
    """A checksum of 0 is compared like any other. Data that cannot be read has no format."""
    fits = found.problem is None and found.checksum_fits
    return Verification(form if fits else None, found.checksum, found.computed)


class NewerFormat(ParseError):
    """The file has keys that no known kubelet writes, and the others are not as known."""


@contextmanager
def newer_format_errors(walk: Walk, top: Mapping[str, object]) -> Iterator[None]:
    """Raise NewerFormat instead of ParseError where the top level, as `walk` has read it, is not as known."""
    keys = list(walk.unknown)
    if not isinstance(top.get("data", ""), str):
        keys.append("data")
    try:
        yield
    except ParseError as error:
        if not keys:
            raise
        raise NewerFormat(f"{error}; and there are keys unknown here: {', '.join(keys[:3])}") from None


def _checksum(data: str) -> int:
    """Of go-spew's text for a string."""
    return checksum(f"(string){data}")
