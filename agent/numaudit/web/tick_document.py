"""A document that changes with each tick: made when it is first asked for, and once."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Document:
    """The bytes of one tick's document. Safe to use from many threads: whoever comes meanwhile waits for the first."""

    make: Callable[[], bytes]
    _plain: bytes | None = None
    _packed: bytes | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, gzip: bool) -> bytes:
        found = self._packed if gzip else self._plain
        if found is not None:
            return found
        with self._lock:
            if self._plain is None:
                self._plain = self.make()
            if gzip and self._packed is None:
                packer = zlib.compressobj(1, wbits=31)
                self._packed = packer.compress(self._plain) + packer.flush()
            return (self._packed if gzip else None) or self._plain
