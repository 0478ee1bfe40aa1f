"""Device files that a cgroup may open: devices.list of cgroup v1, and the programs of v2 as runc writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.devices import device_cgroup
from numaudit.kernel.devices.pci import FileNumbers
from numaudit.kernel.host import Host

GPU, OTHER_GPU, NVME, DISK = (
    FileNumbers("char", 195, 0),
    FileNumbers("char", 195, 1),
    FileNumbers("char", 246, 0),
    FileNumbers("block", 259, 0),
)
FILES = (GPU, OTHER_GPU, NVME, DISK)
WORD, HALF_MASK, AND, SHIFT, MOVE, NOT_EQUAL, EQUAL, EXIT = 0x61, 0xFFFF, 0x54, 0x74, 0xB4, 0x55, 0x15, 0x95


def instruction(code: int, target: int = 0, constant: int = 0, source: int = 0, offset: int = 0) -> bytes:
    return struct.pack("=BBhi", code, target | source << 4, offset, constant)


def runc_program(rules: Sequence[tuple[int, int | None, int | None]], usual: int = 0) -> device_cgroup.Program:
    """As runc's devicefilter writes it: type, access, major and minor in R2 to R5, a block for each rule."""
    code = [
        instruction(WORD, 2, source=1), instruction(AND, 2, HALF_MASK),
        instruction(WORD, 3, source=1), instruction(SHIFT, 3, 16),
        instruction(WORD, 4, source=1, offset=4), instruction(WORD, 5, source=1, offset=8),
    ]  # fmt: skip
    for type_, major, minor in rules:
        numbers = [(register, one) for register, one in ((4, major), (5, minor)) if one is not None]
        left = len(numbers) + 2
        code.append(instruction(NOT_EQUAL, 2, type_, offset=left))
        for register, one in numbers:
            left -= 1
            code.append(instruction(NOT_EQUAL, register, one, offset=left))
        code += [instruction(MOVE, 0, 1), instruction(EXIT)]
    return device_cgroup.parse(b"".join([*code, instruction(MOVE, 0, usual), instruction(EXIT)]))


def test_a_program_of_runc_allows_what_its_rules_name() -> None:
    program = runc_program([(2, 195, 0), (2, 1, None), (1, 259, None)])
    assert [device_cgroup.allows(program, one) for one in FILES] == [True, False, False, True]
    assert device_cgroup.allows(program, FileNumbers("char", 1, 3))


def test_access_to_read_and_write_is_what_a_rule_must_give() -> None:
    """runc: R1 = access & ~allowed; jump over the block unless it is 0."""
    only_read = b"".join(
        [
            instruction(WORD, 3, source=1), instruction(SHIFT, 3, 16),
            instruction(0xBC, 1, source=3), instruction(AND, 1, 2), instruction(0x5D, 1, source=3, offset=2),
            instruction(MOVE, 0, 1), instruction(EXIT), instruction(MOVE, 0, 0), instruction(EXIT),
        ]
    )  # fmt: skip
    assert not device_cgroup.allows(device_cgroup.parse(only_read), GPU)


@pytest.mark.parametrize(
    "code",
    [
        b"",
        instruction(0x85),  # a call
        instruction(0x05, offset=-1),  # a loop
        instruction(WORD, 2, source=1, offset=12),  # beyond the context
        instruction(0x24, 2, 3) + instruction(EXIT),  # multiplies
        instruction(0x05, offset=99),
    ],
)
def test_a_program_that_does_more_than_compare_is_not_guessed(code: bytes) -> None:
    with pytest.raises(ParseError, match="device program"):
        device_cgroup.allows(device_cgroup.parse(code), GPU)


@given(st.binary(max_size=400))
def test_any_program_allows_refuses_or_is_not_understood(code: bytes) -> None:
    with suppress(ParseError):
        assert device_cgroup.allows(device_cgroup.parse(code), GPU) in (True, False)


def v1(folder: Path, text: str) -> tuple[FileNumbers, ...] | None:
    (folder / "pod").mkdir()
    (folder / "pod/devices.list").write_text(text)
    hierarchies = Hierarchies("v1", folder, None, None, None, devices=folder)
    return device_cgroup.allowed(Host(folder), hierarchies, "/pod", lambda: FILES)


def test_the_list_of_cgroup_v1_names_files(tmp_path: Path) -> None:
    assert v1(tmp_path, "c *:* m\nb *:* m\nc 1:3 rwm\nc 195:0 rw\nc 246:* r\nb 259:* rwm\n") == (GPU, DISK)


def test_a_list_that_allows_everything_says_nothing(tmp_path: Path) -> None:
    assert v1(tmp_path, "a *:* rwm\n") is None


def test_a_container_without_devices_has_none(tmp_path: Path) -> None:
    assert v1(tmp_path, "c 1:3 rwm\n") == ()


@given(st.text(alphabet="abc *:0123456789rwm\n\0x", max_size=200))
def test_any_list_is_read(text: str) -> None:
    found = device_cgroup.parse_list(text)
    assert all(found.allows(one) in (True, False) for one in FILES)


def test_a_capture_of_cgroup_v2_has_no_list(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="capture"):
        device_cgroup.allowed(Host(tmp_path), Hierarchies("v2", *(tmp_path,) * 4), "/pod", lambda: FILES)
