"""One gzip stream of parts that are packed one by one: what did not change since the last tick is not packed again.

Each part is a run of deflate blocks that ends at a byte and refers to nothing before it (a full flush of zlib), so that
parts can follow each other in any stream. Source: RFC 1951, RFC 1952, and zlib's manual on Z_FULL_FLUSH.

ISA-L packs: in a quarter of zlib's time, and to fewer bytes. With zlib this was a tenth of a tick.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from isal import isal_zlib
from msgspec import Struct, field

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
        packer = isal_zlib.compressobj(1, wbits=_RAW)
        last = packer.compress(tail) + packer.flush()
        return last + struct.pack("<II", isal_zlib.crc32(tail, self.crc), (self.size + len(tail)) & 0xFFFFFFFF)


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
        return self if self.crc is not None else self._replace(crc=isal_zlib.crc32(_joined(self.texts)))


class Packer(Struct):
    """Packs the texts of tick after tick."""

    _known: dict[tuple[int, ...], _Part] = field(default_factory=dict)
    """Of the last tick, by the `id` of each text: what did not change is the very same text, and large ones take long
    to compare or hash."""

    def pack(self, texts: Sequence[Text]) -> Packed:
        known, self._known = self._known, {}
        parts: list[bytes] = []
        crc = size = 0
        large = {place[0] for place, part in known.items() if len(place) == 1 and part.size >= _SMALL}
        for run in _runs(texts, large):
            place = tuple(map(id, run))
            part = known.get(place)
            if part is None:
                text = _joined(run)
                part, crc = _Part(run, _packed(text), len(text)), isal_zlib.crc32(text, crc)
            else:
                part = part.with_crc()
                crc = isal_zlib.crc32_combine(crc, part.crc or 0, part.size)
            self._known[place] = part
            parts.append(part.packed)
            size += part.size
        return Packed(b"".join((_HEADER, *parts)), crc, size)


def _runs(texts: Sequence[Text], large: Collection[int]) -> Iterator[tuple[Text, ...]]:
    """`large`: the `id` of texts that are known to be no small ones."""
    for is_small, run in groupby(texts, lambda text: id(text) not in large and sum(map(len, text)) < _SMALL):
        if is_small:
            yield tuple(run)
        else:
            yield from ((text,) for text in run)


def _joined(texts: Sequence[Text]) -> bytes:
    return b"".join(chain.from_iterable(texts))


def _packed(text: bytes) -> bytes:
    packer = isal_zlib.compressobj(1, wbits=_RAW)
    return packer.compress(text) + packer.flush(isal_zlib.Z_FULL_FLUSH)
