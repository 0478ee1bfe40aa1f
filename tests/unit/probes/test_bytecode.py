"""Bytecode that is compiled once for all machines, and what the loader puts into it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import numaudit
from numaudit.pmu.families import families
from numaudit.probes.loading import bytecode, program_sources
from numaudit.probes.loading.bytecode import Bytecode, Code, MapShape
from numaudit.probes.loading.compile import stored_texts
from numaudit.probes.loading.loader_child import read_fields
from numaudit.probes.loading.program_sources import ProgramSource

STORED = list(stored_texts())
TEXT = "PROBE_CONSTANT(P_SIZE) PROBE_LOAD(args, P_ORDER) PROBE_CONSTANT(P_FLAGS) PROBE_LOAD(args, P_ORDER)"
"""Lacks P_FLAGS, P_ORDER and P_SIZE, which are distinguished in this order."""
FORMAT = """name: mm_page_alloc
ID: 567
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long pfn;	offset:8;	size:8;	signed:0;
	field:unsigned int order;	offset:16;	size:4;	signed:0;
	field:char comm[16];	offset:20;	size:16;	signed:0;
	field:__data_loc char[] name;	offset:36;	size:4;	signed:0;

print fmt: "page=%p pfn=0x%lx order=%d", REC->pfn, REC->order
"""


def _marked(name: str, mark: str) -> int:
    macros = bytecode.marks(TEXT)
    return int(macros[mark].removesuffix("ULL"), 16) + int(macros[name])


def _number(number: int, source: int = 0) -> bytes:
    return struct.pack("=BBhI", 0x18, 1 | source << 4, 0, number & 0xFFFFFFFF) + struct.pack("=4xI", number >> 32)


def _load(offset: int, operation: int = 0x79) -> bytes:
    return struct.pack("=BBhi", operation, 0x12, offset, 0)


def _code() -> Code:
    compiled = (
        _number(_marked("P_SIZE", "PROBE_CONSTANT_MARK"))
        + _load(_marked("P_ORDER", "PROBE_LOAD_MARK"))
        + _load(16)
        + _number(9, source=1)
        + _number(0x1234567890)
    )
    return bytecode.of_marked(compiled, TEXT, {9: "p_map"})


def test_marks_become_the_names_of_what_belongs_there() -> None:
    code = _code()
    assert code.names == {0: "P_SIZE", 2: "P_ORDER", 4: "p_map"}
    assert code.instructions == _number(0) + _load(0) + _load(16) + _number(0, source=1) + _number(0x1234567890)


def test_the_bytecode_does_not_depend_on_the_descriptors_of_the_compilers_maps() -> None:
    other = bytecode.of_marked(_number(77, source=1), TEXT, {77: "p_map"})
    assert other == bytecode.of_marked(_number(9, source=1), TEXT, {9: "p_map"})


def test_numbers_maps_and_words_of_the_context_are_put_in_their_places() -> None:
    linked = bytecode.link(_code(), {"p_map": 5}, {"P_SIZE": 0xFFFFFFFF00000001, "P_ORDER": 24}, {})
    assert linked[:16] == _number(0xFFFFFFFF00000001)
    assert linked[16:32] == _load(24) + _load(16)
    assert linked[32:] == _number(5, source=1) + _number(0x1234567890)


@pytest.mark.parametrize(("size", "operation"), [(1, 0x71), (2, 0x69), (4, 0x61), (8, 0x79)])
def test_a_field_is_loaded_by_its_size(size: int, operation: int) -> None:
    linked = bytecode.link(_code(), {"p_map": 5}, {"P_SIZE": 1}, {"P_ORDER": (20, size)})
    assert linked[16:24] == _load(20, operation)


@pytest.mark.parametrize("lacking", ["P_SIZE", "P_ORDER", "p_map"])
def test_a_program_that_lacks_something_is_never_linked(lacking: str) -> None:
    maps = {"p_map": 5} if lacking != "p_map" else {}
    numbers = {name: 8 for name in ("P_SIZE", "P_ORDER") if name != lacking}
    with pytest.raises(KeyError, match=lacking):
        bytecode.link(_code(), maps, numbers, {})


def test_bytecode_survives_json() -> None:
    whole = Bytecode({"p_run": _code()}, {"p_map": MapShape(5, 16, 8, 1, 0)})
    assert bytecode.unpack(json.loads(json.dumps(whole.pack()))) == whole


def test_a_text_with_more_numbers_than_there_are_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="257 numbers"):
        bytecode.marks(" ".join(f"PROBE_CONSTANT(P{number})" for number in range(257)))


def test_fields_of_a_tracepoint_are_read_as_far_as_a_program_can_load_them() -> None:
    found = read_fields(FORMAT)
    assert (found["pfn"], found["order"], found["common_pid"]) == ((8, 8), (16, 4), (4, 4))
    assert "comm" not in found


@given(st.text() | st.lists(st.sampled_from(FORMAT.splitlines())).map("\n".join))
def test_any_text_gives_fields_that_a_program_can_load_or_none(text: str) -> None:
    assert all(offset >= 0 and size in (1, 2, 4, 8) for offset, size in read_fields(text).values())


@pytest.mark.parametrize("text", STORED, ids=lambda text: text.file)
def test_every_text_has_bytecode_of_its_present_words(text: ProgramSource) -> None:
    """After a change of a text: python -m numaudit.probes.loading.compile"""
    found = program_sources.find_bytecode(text)
    assert not isinstance(found, str), found
    assert bytecode.unpack(found).programs


def test_nothing_else_is_stored() -> None:
    assert {path.name for path in program_sources.bytecode_folder().iterdir()} == {text.file for text in STORED}


def test_the_plans_of_all_families_have_bytecode() -> None:
    """Where sockets have several nodes, some sets need a second group (numaudit.pmu.choose)."""
    sets = [one for family in families() for one in family.sets]
    sizes = {len(one.local) + len(one.remote) for one in sets}
    twice = [one for one in sets if one.far_cluster not in (None, "remote")]
    sizes |= {2 * len(one.local) + len(one.remote) + len(one.facets["local_socket_dram"]) for one in twice}
    assert sizes
    assert sizes <= {text.defines["PMU_EVENTS"] for text in STORED if text.name == "pmu"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "there is no bytecode p.json"),
        (lambda path: path.write_text(path.read_text().replace('"digest": "', '"digest": "0')), "another text"),
        (lambda path: path.write_text("{"), "holds no bytecode"),
        (lambda path: path.write_text("[]"), "holds no bytecode"),
    ],
    ids=["missing", "of another text", "cut short", "something else"],
)
def test_bytecode_that_does_not_fit_is_not_used(
    change: object, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_sources, "bytecode_folder", lambda: tmp_path)
    text = ProgramSource("p", "int p_run(void *ctx) { return 0; }")
    path = tmp_path / text.file
    path.write_text(json.dumps({"digest": text.digest, **Bytecode({}, {}).pack()}))
    assert not isinstance(program_sources.find_bytecode(text), str)
    assert callable(change)
    change(path)
    assert why in str(program_sources.find_bytecode(text))


@pytest.mark.parametrize(
    "other",
    [
        ProgramSource("p", "another", {"N": 2}),
        ProgramSource("p", "text", {"N": 3}),
        ProgramSource("p", "text", {"M": 2}),
    ],
)
def test_another_text_or_macro_has_another_digest(other: ProgramSource) -> None:
    assert other.digest != ProgramSource("p", "text", {"N": 2}).digest


def test_bytecode_is_found_in_the_installed_package_as_in_the_checkout() -> None:
    assert program_sources.bytecode_folder().parent == program_sources.bpf_folder()
    assert Path(numaudit.__file__).parents[2] in program_sources.bpf_folder().parents
