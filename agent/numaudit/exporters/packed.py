"""One gzip stream of parts that are packed one by one: what did not change since the last tick is not packed again.

Each part is a run of deflate blocks that ends at a byte and refers to nothing before it (a full flush of zlib), so that
parts can follow each other in any stream. Source: RFC 1951, RFC 1952, and zlib's manual on Z_FULL_FLUSH.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby
from typing import NamedTuple

_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\x04\xff"
"""No name, no time, packed fast, on any system."""
_RAW = -15
_SMALL = 4096
"""Bytes of a text that is packed together with its neighbours."""
_POLYNOMIAL = 0xEDB88320
"""Of the CRC-32, whose numbers are polynomials over GF(2); bit 31 is their constant."""
_ONE, _BYTE = 1 << 31, 1 << 23
"""1, and the shift by one byte: x to the power of 8."""


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


Text = Sequence[bytes]
"""In pieces."""


class _Part(NamedTuple):
    """Some texts, packed."""

    texts: tuple[Text, ...]
    packed: bytes
    size: int
    """Of the texts together."""
    crc: int | None = None
    """Of the texts together; None = not known yet, for most that change do so again in the next tick."""

    def with_crc(self) -> _Part:
        return self if self.crc is not None else self._replace(crc=zlib.crc32(_joined(self.texts)))


@dataclass(slots=True)
class Packer:
    """Packs the texts of tick after tick."""

    _known: dict[tuple[int, ...], _Part] = field(default_factory=dict)
    """Of the last tick, by the `id` of each text: what did not change is the very same text, and large ones take long
    to compare or hash."""

    def pack(self, texts: Sequence[Text]) -> Packed:
        known, self._known = self._known, {}
        parts: list[bytes] = []
        crc = size = 0
        for run in _runs(texts):
            place = tuple(map(id, run))
            part = known.get(place)
            if part is None:
                text = _joined(run)
                part, crc = _Part(run, _packed(text), len(text)), zlib.crc32(text, crc)
            else:
                part = part.with_crc()
                crc = combined(crc, part.crc or 0, part.size)
            self._known[place] = part
            parts.append(part.packed)
            size += part.size
        return Packed(b"".join((_HEADER, *parts)), crc, size)


def _runs(texts: Sequence[Text]) -> Iterator[tuple[Text, ...]]:
    for is_small, run in groupby(texts, lambda text: sum(map(len, text)) < _SMALL):
        if is_small:
            yield tuple(run)
        else:
            yield from ((text,) for text in run)


def _joined(texts: Sequence[Text]) -> bytes:
    return b"".join(chain.from_iterable(texts))


def _packed(text: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=_RAW)
    return packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH)


def combined(first: int, second: int, size: int) -> int:
    """The CRC-32 of two texts in a row, by those of each and the second one's size in bytes.

    So a text whose own is known is not read again. Source: zlib's crc32_combine, which Python does not offer.
    """
    return _product(_shift(size), first) ^ second


@lru_cache(maxsize=1024)
def _shift(size: int) -> int:
    """By this number of bytes."""
    shift, bit = _ONE, 0
    while size:
        if size & 1:
            shift = _product(_doubled(bit), shift)
        size, bit = size >> 1, bit + 1
    return shift


@lru_cache(maxsize=64)
def _doubled(times: int) -> int:
    """The shift by one byte, doubled this often."""
    return _product(_doubled(times - 1), _doubled(times - 1)) if times else _BYTE


def _product(one: int, other: int) -> int:
    """Modulo the polynomial."""
    product = 0
    while one:
        if one & _ONE:
            product ^= other
        one = one << 1 & 0xFFFFFFFF
        other = other >> 1 ^ (_POLYNOMIAL if other & 1 else 0)
    return product
