"""One gzip stream of parts that are packed one by one: what did not change since the last tick is not packed again.

Each part is a run of deflate blocks that ends at a byte and refers to nothing before it (a full flush of zlib), so that
parts can follow each other in any stream. Source: RFC 1951, RFC 1952, and zlib's manual on Z_FULL_FLUSH.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from numaudit.exporters.crc import combined

_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"
"""No name, no time, packed fast, on any system."""
_RAW = -15
_SMALL = 4096
"""Bytes of a text that is packed together with its neighbours."""


class Packed(NamedTuple):
    """A gzip stream that goes on."""

    stream: bytes
    crc: int
    size: int
    """Of what is packed, in bytes."""

    def end(self, tail: bytes) -> bytes:
        """The rest of the stream, which packs `tail`."""
        packer = zlib.compressobj(1, wbits=_RAW)
        last = packer.compress(tail) + packer.flush()
        return last + struct.pack("<II", zlib.crc32(tail, self.crc), (self.size + len(tail)) & 0xFFFFFFFF)


class _Part(NamedTuple):
    """Some texts, packed."""

    texts: tuple[bytes, ...]
    packed: bytes
    size: int
    """Of the texts together."""
    crc: int | None = None
    """Of the texts together; None = not known yet, for most that change do so again in the next tick."""

    @classmethod
    def of(cls, texts: tuple[bytes, ...]) -> _Part:
        text = b"".join(texts)
        packer = zlib.compressobj(1, wbits=_RAW)
        return cls(texts, packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH), len(text))

    def with_crc(self) -> _Part:
        return self if self.crc is not None else self._replace(crc=_crc_of(self.texts, 0))


@dataclass(slots=True)
class Packer:
    """Packs the texts of tick after tick."""

    _known: dict[tuple[int, ...], _Part] = field(default_factory=dict)
    """Of the last tick, by the `id` of each text: what did not change is the very same text, and large ones take long
    to compare or hash."""

    def pack(self, texts: Sequence[bytes]) -> Packed:
        known, self._known = self._known, {}
        parts: list[bytes] = []
        crc = size = 0
        for run in _runs(texts):
            place = tuple(map(id, run))
            part = known.get(place)
            if part is None:
                part = _Part.of(run)
                crc = _crc_of(run, crc)
            else:
                part = part.with_crc()
                crc = combined(crc, part.crc or 0, part.size)
            self._known[place] = part
            parts.append(part.packed)
            size += part.size
        return Packed(b"".join((_HEADER, *parts)), crc, size)


def _runs(texts: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
    for is_small, run in groupby(texts, lambda text: len(text) < _SMALL):
        if is_small:
            yield tuple(run)
        else:
            yield from ((text,) for text in run)


def _crc_of(texts: Sequence[bytes], crc: int) -> int:
    """Of these, behind what has the CRC that is given."""
    for text in texts:
        crc = zlib.crc32(text, crc)
    return crc
