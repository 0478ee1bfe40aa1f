"""BPF maps: shapes and the sums of per-CPU values."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf_map
from numaudit.kernel.tracing.bpf_map import MapInfo, MapType, sum_per_cpu

u64 = st.integers(0, (1 << 64) - 1)


def _info(kind: MapType, value_size: int) -> MapInfo:
    return MapInfo(kind, id=1, key_size=8, value_size=value_size, max_entries=4, flags=0, name="m")


def test_a_plain_value_is_as_long_as_it_says() -> None:
    assert _info(MapType.HASH, 2).stride(cpus=128) == 2
    assert _info(MapType.ARRAY, 12).stride(cpus=128) == 12


@pytest.mark.parametrize("kind", [MapType.PERCPU_HASH, MapType.PERCPU_ARRAY, MapType.LRU_PERCPU_HASH])
def test_a_per_cpu_value_is_padded_to_eight_bytes_for_each_cpu(kind: MapType) -> None:
    assert _info(kind, 8).stride(cpus=3) == 24
    assert _info(kind, 4).stride(cpus=3) == 24
    assert _info(kind, 9).stride(cpus=3) == 48


def test_each_entry_is_summed_over_its_cpus() -> None:
    assert sum_per_cpu(struct.pack("=6Q", 1, 2, 3, 10, 20, 30), cpus=3) == [6, 60]


def test_sums_do_not_wrap_at_64_bits() -> None:
    largest = (1 << 64) - 1
    assert sum_per_cpu(struct.pack("=2Q", largest, largest), cpus=2) == [2 * largest]


def test_one_field_of_a_value_with_several_is_summed() -> None:
    entry = struct.pack("=4Q", 1, 100, 2, 200)  # two CPUs of two fields
    assert sum_per_cpu(entry, cpus=2, field=0, fields=2) == [3]
    assert sum_per_cpu(entry, cpus=2, field=1, fields=2) == [300]


def test_values_that_are_no_whole_entries_are_refused() -> None:
    with pytest.raises(struct.error):
        sum_per_cpu(bytes(24), cpus=2)


@given(st.integers(1, 9).flatmap(lambda cpus: st.lists(st.lists(u64, min_size=cpus, max_size=cpus), min_size=1)))
def test_fields_together_are_the_whole(rows: list[list[int]]) -> None:
    cpus = len(rows[0])
    values = b"".join(struct.pack(f"={cpus}Q", *row) for row in rows)
    doubled = b"".join(struct.pack(f"={2 * cpus}Q", *(n for one in row for n in (one, 1))) for row in rows)
    assert sum_per_cpu(values, cpus) == [sum(row) for row in rows]
    assert sum_per_cpu(doubled, cpus, field=0, fields=2) == [sum(row) for row in rows]
    assert sum_per_cpu(doubled, cpus, field=1, fields=2) == [cpus] * len(rows)


def test_possible_cpus_count_whether_online_or_not(tmp_path: Path) -> None:
    folder = tmp_path / "sys/devices/system/cpu"
    folder.mkdir(parents=True)
    (folder / "possible").write_text("0-127\n")
    (folder / "online").write_text("0-3\n")
    assert bpf_map.count_possible_cpus(Host.under(tmp_path)) == 128
