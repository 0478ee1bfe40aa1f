"""FNV-1a: the values that its authors publish."""

from __future__ import annotations

import pytest

from numaudit.encoding.checksum import fnv1a


@pytest.mark.parametrize(
    ("text", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968), (b"b", 0xE70C2DE5)]
)
def test_the_published_values_come_out(text: bytes, value: int) -> None:
    assert fnv1a(text) == value
