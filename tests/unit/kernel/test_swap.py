"""Swap of the host and limits of cgroups."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import read_bytes
from numaudit.kernel.memory.swap import limit_of, parse_limit, parse_space

_MEMINFO = "MemTotal:       16 kB\nSwapCached:       1 kB\nSwapTotal:     8192 kB\nSwapFree:      4096 kB\n"


def test_swap_is_in_bytes() -> None:
    assert parse_space(_MEMINFO) == (8 << 20, 4 << 20)


@pytest.mark.parametrize("text", ["", "SwapTotal:     8192 kB\n", "SwapTotal: -1 kB\nSwapFree: 4 kB\n"])
def test_a_text_without_both_lines_says_nothing(text: str) -> None:
    assert parse_space(text) is None


def test_a_limit_is_a_number_or_none() -> None:
    assert parse_limit("max\n") is None
    assert parse_limit("0\n") == 0


@given(st.text(string.printable))
def test_any_limit_is_a_number_none_or_an_error(text: str) -> None:
    try:
        found = parse_limit(text)
    except ParseError:
        return
    assert found is None or found >= 0


@given(st.text(st.sampled_from("Swap:TotalFre 0123456789kB\n")))
def test_any_meminfo_gives_two_amounts_or_nothing(text: str) -> None:
    found = parse_space(text)
    assert found is None or min(found) >= 0


def _groups(root: Path, **limits: str) -> Path:
    for path, limit in limits.items():
        folder = root / path.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.swap.max").write_text(f"{limit}\n")
    return root


def test_the_least_limit_of_a_group_and_those_above_it_holds(tmp_path: Path) -> None:
    root = str(_groups(tmp_path, a="max", a__b="4096", a__b__c="8192", d="max"))
    assert limit_of(root, "/a/b/c", read_bytes) == 4096
    assert limit_of(root, "/d", read_bytes) is None
    assert limit_of(root, "", read_bytes) is None
