"""Maps in this host's kernel: read and changed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf_map
from numaudit.kernel.tracing.bpf_map import Map, MapType
from numaudit.probes import page_alloc
from numaudit.probes.loading import loader
from numaudit.probes.loading.loader import LoadedProbe

pytestmark = pytest.mark.root


@pytest.fixture
def probe() -> Iterator[LoadedProbe]:
    """The maps of a program that is loaded and not attached, so nothing else writes them."""
    loaded = loader.load([page_alloc.request(Host(), cgroups=100, nodes=4)])
    outcome = loaded["page_alloc"]
    if not isinstance(outcome, LoadedProbe):
        pytest.skip(str(outcome))
    yield outcome
    loader.close(loaded)


@pytest.fixture
def sums(probe: LoadedProbe) -> Map:
    return Map.of(probe.maps["page_alloc_bytes"], Host())


def test_the_kernel_tells_a_maps_shape(probe: LoadedProbe, sums: Map) -> None:
    assert sums.info.type == MapType.PERCPU_HASH
    assert (sums.info.key_size, sums.info.value_size, sums.info.max_entries) == (16, 8, 1600)
    assert sums.info.name == "page_alloc_byte"  # the kernel keeps 15 letters
    assert sums.stride == 8 * bpf_map.count_possible_cpus(Host())
    table = Map.of(probe.maps["page_alloc_node_of_block"], Host())
    assert (table.info.type, table.stride, table.cpus) == (MapType.ARRAY, 2, 1)


def test_what_was_written_is_read(sums: Map) -> None:
    entries = _random_entries(sums, 1500)
    sums.update_all(entries)
    assert _read(sums) == entries


def test_an_array_is_read_whole(probe: LoadedProbe) -> None:
    table = Map.of(probe.maps["page_alloc_node_of_block"], Host())
    table.update(b"\1\0\0\0", b"\7\0")
    found = _read(table)
    assert len(found) == table.info.max_entries
    assert found[b"\1\0\0\0"] == b"\7\0"


def test_an_entry_is_looked_up_and_deleted(sums: Map) -> None:
    entries = _random_entries(sums, 2)
    sums.update_all(entries)
    key, other = entries
    assert sums.lookup(key) == entries[key]
    assert sums.delete(key)
    assert not sums.delete(key)
    assert sums.lookup(key) is None
    assert sums.read_keys() == [other]


def test_a_full_map_refuses_the_next_entry(sums: Map) -> None:
    with pytest.raises(OSError, match="too long") as full:
        sums.update_all(_random_entries(sums, sums.info.max_entries + 1))
    assert full.value.errno == errno.E2BIG
    assert len(sums.read_keys()) == sums.info.max_entries


def test_a_key_or_value_of_another_size_never_reaches_the_kernel(sums: Map) -> None:
    with pytest.raises(ValueError, match="a key has 16 bytes, not 3"):
        sums.lookup(b"abc")
    with pytest.raises(ValueError, match="a value has"):
        sums.update(bytes(16), b"abc")


def test_a_descriptor_that_is_no_map_is_an_error() -> None:
    with Path("/dev/null").open("rb") as null, pytest.raises(OSError, match="bpf"):
        Map.of(null.fileno(), Host())


def _random_entries(one: Map, count: int) -> dict[bytes, bytes]:
    return {os.urandom(one.info.key_size): os.urandom(one.stride) for _ in range(count)}


def _read(one: Map) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for chunk in one.read():
        keys = _split(chunk.keys, one.info.key_size)
        found.update(zip(keys, _split(chunk.values, one.stride), strict=True))
    return found


def _split(packed: bytes, size: int) -> list[bytes]:
    return [packed[at : at + size] for at in range(0, len(packed), size)]
