"""Where a sampled load's data came from, as each kind of CPU has it."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.pmu.data_src import HOPS, LEVEL, LEVEL_NUMBER, REMOTE, Origin, origin

FIELDS = (
    ("mem_op", 5), ("mem_lvl", 14), ("mem_snoop", 5), ("mem_lock", 2), ("mem_dtlb", 7), ("mem_lvl_num", 4),
    ("mem_remote", 1), ("mem_snoopx", 2), ("mem_blk", 3), ("mem_hops", 3), ("mem_rsvd", 18),
)  # fmt: skip
"""In the order of include/uapi/linux/perf_event.h, for a little-endian machine."""
RAM, PMEM, CXL, L3, NOT_TOLD = 13, 14, 9, 3, 15


class DataSource(ctypes.LittleEndianStructure):
    """union perf_mem_data_src, laid out by the C compiler's rules."""

    _fields_ = tuple((name, ctypes.c_uint64, width) for name, width in FIELDS)


def _value(**fields: int) -> int:
    return int.from_bytes(bytes(DataSource(**fields)), "little")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0x1A00201042, "local_dram", id="Skylake 0x0a, local memory"),
        pytest.param(0x3A00100042, "remote_dram", id="Skylake 0x0b, remote memory: the level has only hit"),
        pytest.param(0x7600000042, "remote_cache", id="Skylake 0x0c, forwarded by a remote cache"),
        pytest.param(0x3600800042, "remote_cache", id="Skylake 0x0d, modified in a remote cache"),
        pytest.param(0x1A00501042, "local_dram", id="Sandy Bridge 0x0c, local memory"),
        pytest.param(0x3A00502042, "remote_dram", id="Sandy Bridge 0x0d, remote memory"),
        pytest.param(0x2600202042, "remote_dram", id="Sandy Bridge 0x0b, remote memory, shared"),
        pytest.param(0x1A00001042, "local_dram", id="Zen 4, near memory"),
        pytest.param(0x103A00002042, "remote_dram", id="Zen 4, far memory"),
        pytest.param(0x83600008042, "local_cache", id="Zen 4, another core's cache on the same node"),
        pytest.param(0x103600010042, "remote_cache", id="Zen 4, a far cache"),
        pytest.param(0xBE00000022, "remote_unknown", id="SPE, another socket"),
        pytest.param(0x1A00101042, "local_dram", id="SPE, memory"),
    ],
)
def test_a_sample_of_each_kind_of_cpu_is_understood(value: int, expected: Origin) -> None:
    assert origin(value) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mem_lvl_num": PMEM}, "slow_near"),
        ({"mem_lvl_num": CXL, "mem_remote": 1, "mem_hops": 3}, "slow_far"),
        ({"mem_lvl_num": L3}, "local_cache"),
        ({"mem_lvl_num": NOT_TOLD}, "other"),
        ({"mem_lvl": 0x1000}, "other"),
        ({}, "other"),
    ],
)
def test_slow_memory_and_what_is_neither_memory_nor_cache_are_told_apart(
    fields: dict[str, int], expected: Origin
) -> None:
    assert origin(_value(**fields)) == expected


@pytest.mark.parametrize(
    ("name", "place"), [("mem_lvl", LEVEL), ("mem_lvl_num", LEVEL_NUMBER), ("mem_remote", REMOTE), ("mem_hops", HOPS)]
)
def test_a_field_is_where_the_kernels_header_has_it(name: str, place: tuple[int, int]) -> None:
    low, width = place
    assert _value(**{name: (1 << width) - 1}) == (1 << width) - 1 << low


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**18 - 1))
def test_any_bits_that_only_newer_kernels_use_change_nothing(value: int, newer: int) -> None:
    assert origin(value) == origin(value & (1 << 46) - 1 | newer << 46)
