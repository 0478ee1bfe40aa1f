"""The ring in which perf_event_open(2) leaves samples: mapped memory, its reader, and the records in it.

Source: include/uapi/linux/perf_event.h (struct perf_event_mmap_page, perf_event_header, enum perf_event_type),
kernel/events/ring_buffer.c.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import threading

from msgspec import Struct, field

from numaudit.errors import ParseError

RECORD_LOST, RECORD_THROTTLE, RECORD_UNTHROTTLE, RECORD_SAMPLE, RECORD_LOST_SAMPLES = 2, 5, 6, 9, 13
_HEADER = struct.Struct("=IHH")
_DATA_HEAD, _DATA_TAIL, _DATA_OFFSET = 1024, 1032, 1040


class Records(Struct):
    """Records of one read-out of a ring."""

    samples: list[bytes] = field(default_factory=list)
    """The body of each sample, without its header, as the event's sample_type lays it out."""
    lost: int = 0
    """Records that the kernel dropped because the ring was full."""
    throttled: int = 0
    """Number of times that the kernel stopped the event for a while because it came too often."""
    others: int = 0
    """Records of kinds that are not asked for."""


def decode(data: bytes) -> Records:
    """The records in a piece of a ring that begins with a header and ends with a whole record.

    Raises ParseError when a record says that it is shorter than its header, or longer than what is left.
    """
    found = Records()
    at, end = 0, len(data)
    samples = found.samples
    while at < end:
        if end - at < _HEADER.size:
            raise ParseError(f"{end - at} bytes are left in the ring, too few for a record's header")
        kind, _, size = _HEADER.unpack_from(data, at)
        if size < _HEADER.size or size > end - at:
            raise ParseError(f"a record of type {kind} says it has {size} bytes; {end - at} are left in the ring")
        if kind == RECORD_SAMPLE:
            samples.append(data[at + _HEADER.size : at + size])
        elif kind in (RECORD_LOST, RECORD_LOST_SAMPLES):
            found.lost += _read_lost(kind, data[at + _HEADER.size : at + size])
        elif kind == RECORD_THROTTLE:
            found.throttled += 1
        elif kind != RECORD_UNTHROTTLE:
            found.others += 1
        at += size
    return found


def _read_lost(kind: int, body: bytes) -> int:
    """PERF_RECORD_LOST: event's id, then the number; PERF_RECORD_LOST_SAMPLES: the number only."""
    offset = 8 if kind == RECORD_LOST else 0
    if len(body) < offset + 8:
        raise ParseError(f"a record of lost samples has only {len(body)} bytes")
    lost: int = struct.unpack_from("=Q", body, offset)[0]
    return lost


def cut(ring: bytes | memoryview, tail: int, head: int) -> bytes:
    """Bytes between two positions that only grow, in a ring whose size is a power of two.

    Raises ParseError when more lies there than the ring can hold: then positions and ring do not belong together.
    """
    size = len(ring)
    if not 0 <= head - tail <= size:
        raise ParseError(f"the ring's positions {tail} and {head} are not within its {size} bytes")
    start, stop = tail % size, head % size
    if head == tail:
        return b""
    if start < stop:
        return bytes(ring[start:stop])
    return bytes(ring[start:]) + bytes(ring[:stop])


class Ring:
    """The ring of one event's descriptor. It does not own the descriptor."""

    def __init__(self, descriptor: int, pages: int) -> None:
        """Map it with `pages` for data, a power of two. Raises OSError: EPERM over the limit of locked memory."""
        if pages < 1 or pages & (pages - 1):
            raise ValueError(f"a ring has a power of two of pages, not {pages}")
        self._map = mmap.mmap(descriptor, (1 + pages) * mmap.PAGESIZE)
        # One load or store of 8 bytes each, so that neither side sees half a position.
        self._head = ctypes.c_uint64.from_buffer(self._map, _DATA_HEAD)
        self._tail = ctypes.c_uint64.from_buffer(self._map, _DATA_TAIL)
        offset = struct.unpack_from("=Q", self._map, _DATA_OFFSET)[0] or mmap.PAGESIZE
        self._view = memoryview(self._map)
        self._data = self._view[offset : offset + pages * mmap.PAGESIZE]
        self._barrier = threading.Lock()

    def read(self) -> Records:
        """All records since the last read; their space is the kernel's again. Raises ParseError."""
        head, tail = self._head.value, self._tail.value
        self._fence()  # the records are not read before the position that announces them
        try:
            return decode(cut(self._data, tail, head))
        finally:
            self._fence()  # their space is not given back before they are read
            self._tail.value = head

    def close(self) -> None:
        del self._head, self._tail  # they keep the mapping open
        self._data.release()
        self._view.release()
        self._map.close()

    def _fence(self) -> None:
        """Python has no memory barrier; taking a lock twice is one, on every machine.

        On arm64 once is not enough: what comes before and after may both move in between taking it and giving it back.
        """
        for _ in range(2):
            with self._barrier:
                pass
