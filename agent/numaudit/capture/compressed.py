"""A tar file, compressed or not, as a stream that is read once and front to back, and never beyond a size."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, Protocol

CHUNK = 1 << 16
MAGIC_BYTES = 512
"""At the start of a file, to tell by them what it is: a tar header."""
DAMAGED = (lzma.LZMAError, zlib.error, EOFError)
"""Raised by `TarStream.read` for a file that is damaged; bzip2's is an OSError without a number."""
_MEMORY = 256 << 20
"""For the decompressor of xz; `xz -9` asks for 65 MiB. Those of gzip and bzip2 take less than 8 MiB."""


class TooLarge(Exception):
    """The tar file is larger than allowed."""


class TarStream:
    """The tar file within another, never more than `largest` bytes of it."""

    def __init__(self, file: BinaryIO, start: bytes, largest: int) -> None:
        """`start` is what was read of the file, at least MAGIC_BYTES unless it is shorter."""
        self._file = file
        self._rest = start
        self._largest = largest
        self._size = 0
        self._new = next((new for magic, new in _DECOMPRESSORS.items() if start.startswith(magic)), None)
        self._decompressor = None if self._new is None else self._new()

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end. Raises DAMAGED, TooLarge, OSError."""
        data = self._next(size)
        self._size += len(data)
        if self._size > self._largest:
            raise TooLarge
        return data

    def _next(self, size: int) -> bytes:
        if self._new is None or self._decompressor is None:
            return self._raw(size)
        while True:
            if self._decompressor.eof:
                self._rest = self._decompressor.unused_data
                more = self._raw(CHUNK)
                if not more:
                    return b""
                self._decompressor, self._rest = self._new(), more  # pbzip2 and pigz write one stream after another
            more = b""
            if self._decompressor.needs_input:
                more = self._raw(CHUNK)
                if not more:
                    raise EOFError("it ends too early")
            data = self._decompressor.decompress(more, size)
            if data:
                return data

    def _raw(self, size: int) -> bytes:
        start, self._rest = self._rest[:size], self._rest[size:]
        return start or self._file.read(size)


def is_tar(start: bytes) -> bool:
    """Does a file that starts so hold a tar file, compressed in a way that `TarStream` knows?"""
    return start[257:262] == b"ustar" or start.startswith(tuple(_DECOMPRESSORS))


class _Decompressor(Protocol):
    """As bz2 and lzma have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _Gzip:
    """zlib's, with the methods of the others."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def needs_input(self) -> bool:
        """Else some is left; the file's checksum is, as long as any output is."""
        return not self._zlib.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._zlib.decompress(data or self._zlib.unconsumed_tail, max_length)


_DECOMPRESSORS: Mapping[bytes, Callable[[], _Decompressor]] = {
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY),
    b"\x1f\x8b": _Gzip,
    b"BZh": bz2.BZ2Decompressor,
}
