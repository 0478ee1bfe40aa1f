"""How large a page is: on this host, and on the one that a tree was captured from."""

from __future__ import annotations

import mmap
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.memory import physical
from numaudit.kernel.node import read_machine

ANON = 1_000_000


def _meminfo(bytes_: int) -> str:
    return f"MemTotal:       65000000 kB\nAnonPages:      {bytes_ // 1024} kB\nMapped:           1000 kB\n"


def _vmstat(pages: int) -> str:
    return f"nr_free_pages 4000\nnr_anon_pages {pages}\nnr_mapped 1000\n"


@pytest.mark.parametrize("size", [4096, 16384, 65536])
def test_the_same_memory_in_bytes_and_in_pages_gives_the_size_of_a_page(size: int) -> None:
    assert physical.parse_page_size(_meminfo(ANON * size), _vmstat(ANON)) == size


def test_memory_that_grew_between_the_two_readings_changes_nothing() -> None:
    assert physical.parse_page_size(_meminfo(ANON * 65536), _vmstat(ANON * 3 // 2)) == 65536


@pytest.mark.parametrize(
    ("meminfo", "vmstat"),
    [("", _vmstat(ANON)), (_meminfo(ANON), ""), (_meminfo(0), _vmstat(0)), ("AnonPages: x kB\n", _vmstat(ANON))],
)
def test_counters_that_say_nothing_are_refused(meminfo: str, vmstat: str) -> None:
    with pytest.raises(ParseError, match=r"nr_anon_pages|AnonPages"):
        physical.parse_page_size(meminfo, vmstat)


def test_this_host_has_the_page_size_of_this_process() -> None:
    assert physical.read_page_size(Host()) == mmap.PAGESIZE


def test_a_captured_machine_has_the_page_size_of_its_own_kernel(tmp_path: Path) -> None:
    for name in ("proc", "sys/devices/system/node/node0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(_meminfo(ANON * 65536))
    (tmp_path / "proc/vmstat").write_text(_vmstat(ANON))
    assert read_machine(Host.under(tmp_path)).page_size == 65536


def test_a_tree_without_counters_has_small_pages(fixtures: Path) -> None:
    assert physical.read_page_size(Host.under(fixtures / "cgroup-v1")) == 4096


@given(meminfo=st.text(max_size=200), vmstat=st.text(max_size=200))
def test_any_text_is_a_page_size_or_refused(meminfo: str, vmstat: str) -> None:
    with suppress(ParseError):
        assert physical.parse_page_size(meminfo, vmstat) in physical.SIZES
