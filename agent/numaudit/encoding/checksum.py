"""The checksum of a checkpoint: FNV-1a (32 bit) over the text that go-spew makes of the kubelet's struct.

A struct is `{Name:(type)value Name:(type)value}`, a map `map[key:value key:value]`, a slice
`[a b]`; nil is `<nil>`, texts stand raw. Map keys are in order of their values: numbers by size
(the JSON beside it has them in text order), texts by their bytes.

FNV-1a is fast here without a C library.

Source: github.com/davecgh/go-spew/spew/format.go, k8s.io/utils/dump, pkg/util/hash and
pkg/kubelet/checkpointmanager/checksum of Kubernetes; http://www.isthe.com/chongo/tech/comp/fnv/, Go's hash/fnv.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache, reduce
from operator import getitem
from typing import Any

from msgspec import Struct

NIL = "<nil>"
OFFSET = 2166136261
PRIME = 16777619
_MASK = 2**32 - 1

_PIECE = 256
"""Bytes in one piece; a multiple of 8."""
_WORTH_PIECES = 256 * _PIECE
"""Shorter data is hashed sooner byte by byte, the preparation counted in."""


class Verification(Struct, frozen=True):
    """Does the stored checksum fit what the file says?"""

    form: str | None
    """The file format whose checksum fits: V1, V2, ...; None = none does, the file is corrupt."""
    stored: int
    computed: int
    """For `form`, or, when none fits, for the format that the file seems to have."""

    @property
    def is_valid(self) -> bool:
        return self.form is not None


def checksum(rendering: str) -> int:
    return fnv1a(rendering.encode("utf-8"))


def identify(stored: int, renderings: Iterable[tuple[str, str]]) -> Verification:
    """The first (format, rendering) whose checksum is the stored one. At least one pair is needed."""
    computed: int | None = None
    for form, rendering in renderings:
        found = checksum(rendering)
        if found == stored:
            return Verification(form, stored, found)
        computed = found if computed is None else computed
    if computed is None:
        raise ValueError("no format to try")
    return Verification(None, stored, computed)


def render_map(items: Iterable[tuple[object, str]] | None) -> str:
    """A map of rendered values. The pairs come in key order; None = a nil map."""
    return NIL if items is None else "map[" + " ".join([f"{key}:{value}" for key, value in items]) + "]"


def render_list(items: Iterable[object] | None) -> str:
    """A slice of rendered elements; None = a nil slice."""
    return NIL if items is None else "[" + " ".join(map(str, items)) + "]"


def fnv1a(data: bytes, start: int = OFFSET) -> int:
    """The hash of `data`, going on from `start`."""
    if len(data) >= _WORTH_PIECES:
        whole = len(data) - len(data) % _PIECE
        start = _fnv1a_by_pieces(data[:whole], start)
        data = data[whole:]
    for byte in data:
        start = ((start ^ byte) * PRIME) & _MASK
    return start


def _fnv1a_by_pieces(data: bytes, start: int) -> int:
    """The same for data of whole pieces, all pieces at once: about a third of the time.

    A byte is mixed in with XOR, which reaches only the lowest 8 bits; all else is multiplication.
    So the lowest 8 bits can be followed alone, to know with which every piece begins, and what
    a start holds above them only adds a multiple of PRIME ** _PIECE to the end of the piece.
    Each piece is then hashed in its own 64 bits of one very large integer.
    """
    count = len(data) // _PIECE
    lows = _low_bytes_before_pieces(data, start & 0xFF)
    one_each = int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")
    low_byte, low_half = one_each * 0xFF, one_each * _MASK
    hashes = int.from_bytes(struct.pack(f"<{count}Q", *lows), "little")
    words = memoryview(data).cast("Q")
    for word in range(_PIECE // 8):
        eight_bytes = int.from_bytes(words[word :: _PIECE // 8].tobytes(), "little")
        for _ in range(8):
            hashes = ((hashes ^ (eight_bytes & low_byte)) * PRIME) & low_half
            eight_bytes >>= 8
    ends = struct.unpack(f"<{count}Q", hashes.to_bytes(8 * count, "little"))
    factor = pow(PRIME, _PIECE, 2**32)
    for low, end in zip(lows, ends, strict=True):
        start = ((start - low) * factor + end) & _MASK
    return start


def _low_bytes_before_pieces(data: bytes, low: int) -> list[int]:
    steps, number_of = _low_byte_steps()
    lows = []
    state = steps[low]
    for begin in range(0, len(data), _PIECE):
        lows.append(number_of[id(state)])
        state = reduce(getitem, data[begin : begin + _PIECE], state)
    return lows


@cache
def _low_byte_steps() -> tuple[list[Any], dict[int, int]]:
    """The lowest byte of the hash as an automaton: state[next byte] is the next state.

    Returns the state for each lowest byte, and the lowest byte for each state's id().
    """
    steps: list[Any] = [[] for _ in range(256)]
    after = [steps[low * PRIME & 0xFF] for low in range(256)]
    every_byte = int.from_bytes(bytes(range(256)), "little")
    one_each = int.from_bytes(b"\1" * 256, "little")
    for low, state in enumerate(steps):
        mixed = (every_byte ^ one_each * low).to_bytes(256, "little")
        state.extend(map(after.__getitem__, mixed))
    return steps, {id(state): low for low, state in enumerate(steps)}
