"""FNV-1a: known values, and the fast way against the plain one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.encoding.checksum import fnv1a


def plain(data: bytes, start: int = 2166136261) -> int:
    for byte in data:
        start = (start ^ byte) * 16777619 % 2**32
    return start


@pytest.mark.parametrize(
    ("text", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968), (b"b", 0xE70C2DE5)]
)
def test_the_published_values_come_out(text: bytes, value: int) -> None:
    assert plain(text) == value
    assert fnv1a(text) == value


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 65_536 + 255, 65_536 + 256, 200_001])
def test_long_data_has_the_hash_of_the_plain_way(length: int) -> None:
    data = bytes((index * index + index // 7) & 0xFF for index in range(length))
    assert fnv1a(data) == plain(data)


@given(st.binary(min_size=256, max_size=256), st.integers(257, 300))
def test_any_long_data_has_the_hash_of_the_plain_way(piece: bytes, count: int) -> None:
    data = b"".join(bytes([index & 0xFF]) + piece for index in range(count))
    assert fnv1a(data) == plain(data)
