"""The CRC-32 of two texts in a row by those of each, so that a text whose own is known is not read again. Pure.

Source: zlib's crc32_combine, which Python does not offer; numbers are polynomials over GF(2), bit 31 their constant.
"""

from __future__ import annotations

from functools import lru_cache

_POLYNOMIAL = 0xEDB88320
_ONE, _BYTE = 1 << 31, 1 << 23
"""1, and the shift by one byte: x to the power of 8."""


def combined(first: int, second: int, size: int) -> int:
    """The CRC-32 of a text and a second one behind it, which has this size in bytes."""
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
