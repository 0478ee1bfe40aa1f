"""When total - local of memory bandwidth monitoring is the remote part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.pmu.bandwidth import parse_config, remote_is_total_less_local


@pytest.mark.parametrize(
    ("vendor", "config", "is_remote"),
    [
        ("GenuineIntel", "", True),
        ("AuthenticAMD", "", False),
        ("AuthenticAMD", "0=0x7f;1=0x7f\n", False),
        ("AuthenticAMD", "0=0x3f;1=0x7f\n", False),
        ("AuthenticAMD", "0=0x3f;1=0x3f\n", True),
        ("AuthenticAMD", "0=0x2a\n", True),
        (None, "0=0x3f\n", False),
    ],
)
def test_total_less_local_is_remote_only_without_victims(vendor: str | None, config: str, is_remote: bool) -> None:
    assert remote_is_total_less_local(vendor, parse_config(config)) == is_remote


@given(st.text())
def test_any_text_of_a_configuration_parses(text: str) -> None:
    assert all(value >= 0 for value in parse_config(text))
