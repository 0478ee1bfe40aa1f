"""Bytes in words for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.topology.quantity import Quantity
from numaudit.topology.sizes import at_most, exact


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


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1023, "1023"),
        (1 << 20, "1Mi"),
        (786_419_712, "749Mi"),
        (3 << 29, "1.5Gi"),
        ((100 << 20) - 1, "99.9Mi"),
    ],
)
def test_the_most_that_there_is_is_rounded_down(value: int, shown: str) -> None:
    assert at_most(value) == shown


@given(st.integers(0, 1 << 60))
def test_what_is_shown_as_the_most_is_no_more_than_there_is(value: int) -> None:
    """A container that asks for it is not refused."""
    assert Quantity.parse(at_most(value)).value <= value
