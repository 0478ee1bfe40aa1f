"""BTF that grows by types, as pahole writes it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_FUNC, _FUNC_PROTO = 12, 13


class Made:
    """A BTF that grows by types, as pahole writes them."""

    def __init__(self) -> None:
        self._strings = b"\0"
        self._types: list[bytes] = []

    def name(self, text: str) -> int:
        at = len(self._strings)
        self._strings += text.encode() + b"\0"
        return at

    def add(self, kind: int, name: str, size_or_type: int, words: Sequence[int] = (), count: int = 0) -> int:
        """The number of the new type."""
        start = struct.pack("=III", self.name(name) if name else 0, kind << 24 | count, size_or_type)
        self._types.append(start + struct.pack(f"={len(words)}I", *words))
        return len(self._types)

    def function(self, name: str, *parameters: str) -> int:
        words = [word for one in parameters for word in (self.name(one), 1)]
        return self.add(_FUNC, name, self.add(_FUNC_PROTO, "", 0, words, len(parameters)))

    def bytes(self) -> bytes:
        types = b"".join(self._types)
        header = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(self._strings))
        return header + types + self._strings
