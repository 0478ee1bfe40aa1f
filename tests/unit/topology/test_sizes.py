"""Bytes in words for people."""

from __future__ import annotations

import pytest

from numaudit.topology.sizes import exact


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 bytes"),
        (9, "9 bytes"),
        (-9, "-9 bytes"),
        (1024, "1Ki"),
        (1 << 30, "1Gi"),
        (-(8 << 20), "-8Mi"),
        (3 << 29, "1.5Gi (1610612736 bytes)"),
        ((1 << 30) + 1, "1.0Gi (1073741825 bytes)"),
        (1055182848, "1006Mi (1055182848 bytes)"),
    ],
)
def test_an_amount_that_its_unit_rounds_has_its_bytes_too(value: int, text: str) -> None:
    assert exact(value) == text
