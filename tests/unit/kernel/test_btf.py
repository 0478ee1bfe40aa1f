"""What the kernel says of its functions and structures, and of BPF maps."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf_map, btf
from numaudit.kernel.tracing.bpf_map import MapInfo, MapType, sum_per_cpu
from numaudit.kernel.tracing.btf import Btf, Function, Member, PageFlags

_FUNC, _FUNC_PROTO = 12, 13


class Made:
    """A BTF that grows by types, as pahole writes them."""

    def __init__(self) -> None:
        self._strings = b"\0"
        self._types: list[bytes] = []

    def name(self, text: str) -> int:
        at = len(self._strings)
        self._strings += text.encode() + b"\0"
        return at

    def add(self, kind: int, name: str, size_or_type: int, words: Sequence[int] = (), count: int = 0) -> int:
        """The number of the new type."""
        start = struct.pack("=III", self.name(name) if name else 0, kind << 24 | count, size_or_type)
        self._types.append(start + struct.pack(f"={len(words)}I", *words))
        return len(self._types)

    def function(self, name: str, *parameters: str) -> int:
        words = [word for one in parameters for word in (self.name(one), 1)]
        return self.add(_FUNC, name, self.add(_FUNC_PROTO, "", 0, words, len(parameters)))

    def bytes(self) -> bytes:
        types = b"".join(self._types)
        header = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(self._strings))
        return header + types + self._strings


_INT, _ARRAY, _STRUCT, _ENUM, _DATASEC = 1, 3, 4, 6, 15


def kernel(nodes: int = 1024, zones: int = 5, bit_fields: int = 0) -> Made:
    made = Made()
    made.add(_INT, "int", 4, [32])
    made.add(_DATASEC, ".data", 8, [1, 0, 4, 1, 4, 4], 2)
    entries = made.add(_ARRAY, "", 0, [1, 1, nodes * zones + 1])
    members = [made.name("lru"), 1, 64, made.name("flags"), 1, bit_fields << 24]
    made.add(_STRUCT, "page", 64, members, 2)
    made.add(_STRUCT, "zonelist", 8, [made.name("_zonerefs"), entries, 0], 1)
    made.add(_ENUM, "zone_type", 4, [made.name("ZONE_DMA"), 0, made.name("__MAX_NR_ZONES"), zones], 2)
    made.function("migrate_misplaced_folio", "folio", "vma", "node")
    return made


def test_a_function_is_found_with_its_number_and_the_names_of_its_arguments() -> None:
    made = kernel()
    number = made.function("task_numa_fault", "last_cpupid", "mem_node", "pages", "flags")
    types = Btf(made.bytes())
    assert types.function("task_numa_fault") == Function(number, ("last_cpupid", "mem_node", "pages", "flags"))
    assert types.function("migrate_misplaced_folio") is not None
    assert types.function("misplaced_folio") is None
    assert types.function("page") is None


def test_a_member_is_found_with_its_place_and_a_width_of_bits_is_no_place() -> None:
    assert Btf(kernel().bytes()).member("page", "flags") == Member(1, 0)
    made = kernel()
    made.add(_STRUCT, "packed", 8, [made.name("narrow"), 1, 3 << 24 | 40], 1)
    assert Btf(made.bytes()).member("packed", "narrow") == Member(1, 3 << 24 | 40)
    made.add(_STRUCT, "bits", 8, [made.name("few"), 1, 3 << 24 | 40], 1 | 1 << 31)
    assert Btf(made.bytes()).member("bits", "few") == Member(1, 40)
    assert Btf(made.bytes()).member("page", "refcount") is None
    assert Btf(made.bytes()).member("folio", "flags") is None


@pytest.mark.parametrize(("nodes", "bits"), [(1024, 10), (64, 6), (2, 1), (1, 0)])
def test_a_pages_node_has_as_many_bits_as_the_kernel_has_nodes(nodes: int, bits: int) -> None:
    assert btf.page_flags(Btf(kernel(nodes).bytes())) == PageFlags(0, bits)


def test_a_kernel_that_does_not_describe_its_pages_does_not_tell_their_node() -> None:
    made = Made()
    made.function("task_numa_fault", "last_cpupid", "mem_node", "pages", "flags")
    assert btf.page_flags(Btf(made.bytes())) is None
    assert btf.page_flags(Btf(kernel(nodes=1000).bytes())) is None


def test_a_kernel_without_btf_is_unavailable_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    with pytest.raises(Unavailable, match="CONFIG_DEBUG_INFO_BTF"):
        btf.read(Host.under(tmp_path))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "header of the BTF is incomplete"),
        (b"\x9f\xeb\x01\0", "header of the BTF is incomplete"),
        (b"\xeb\x9f" + bytes(22), "begins with"),
        (kernel().bytes()[:-1], "go beyond its end"),
        (struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, 12, 12, 0) + struct.pack("=III", 0, 31 << 24, 0), "kind 31"),
        (struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, 12, 12, 0) + struct.pack("=III", 0, 1 << 24, 4), "cut off"),
    ],
    ids=["empty", "cut header", "other byte order", "cut strings", "unknown kind", "cut type"],
)
def test_what_is_no_btf_is_an_error_that_says_why(data: bytes, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        Btf(data)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_any_bytes_are_btf_or_an_error(noise: bytes, at: int) -> None:
    whole = kernel().bytes()
    for data in (noise, whole[:at], whole[:at] + noise + whole[at + len(noise) :]):
        try:
            types = Btf(data)
            types.function("migrate_misplaced_folio")
            btf.page_flags(types)
        except ParseError:
            pass


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


def test_sums_do_not_wrap_at_64_bits() -> None:
    largest = (1 << 64) - 1
    assert sum_per_cpu(struct.pack("=2Q", largest, largest), cpus=2) == [2 * largest]


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
