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


@dataclass(slots=True)
class Packer:
    """Packs the texts of tick after tick."""

    _known: dict[tuple[bytes, ...], bytes] = field(default_factory=dict)
    """Of the last tick: texts -> the part that packs them."""

    def pack(self, texts: Sequence[bytes]) -> Packed:
        known, self._known = self._known, {}
        crc = 0
        for run in _runs(texts):
            part = known.get(run)
            self._known[run] = _part(b"".join(run)) if part is None else part
        for text in texts:
            crc = zlib.crc32(text, crc)
        return Packed(b"".join((_HEADER, *self._known.values())), crc, sum(map(len, texts)))


def _runs(texts: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
    for is_small, run in groupby(texts, lambda text: len(text) < _SMALL):
        if is_small:
            yield tuple(run)
        else:
            yield from ((text,) for text in run)


def _part(text: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=_RAW)
    return packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH)
