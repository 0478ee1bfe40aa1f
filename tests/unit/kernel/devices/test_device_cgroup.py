"""Device files that a cgroup may open, and network interfaces by rtnetlink or by the file of a capture."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.hostile_names import HOSTILE
from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.devices import device_cgroup
from numaudit.kernel.devices.network import Interface, as_text, interfaces, namespace, parse, parse_links
from numaudit.kernel.devices.pci import FileNumbers
from numaudit.kernel.host import Host
from processes.cycles import no_kept_errors

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


NIC = Interface("net1", "pci", "0000:3b:02.1")


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", len(content) + 4, kind) + content + bytes(-len(content) % 4)


def message(kind: int, *attributes: bytes) -> bytes:
    body = bytes(16) + b"".join(attributes)
    return struct.pack("=IHHII", len(body) + 16, kind, 2, 1, 0) + body


def link(name: bytes, bus: bytes | None, device: bytes | None) -> bytes:
    given_ = [(3, name), (57, bus), (56, device)]
    return message(
        16, attribute(4, b"\0\0\0\0"), *(attribute(kind, one + b"\0") for kind, one in given_ if one is not None)
    )


DONE = message(3)


def test_only_interfaces_with_a_device_are_kept() -> None:
    data = link(b"lo", None, None) + link(b"net1", b"pci", b"0000:3b:02.1") + link(b"eth0", None, None)
    assert parse_links(data) == ([NIC], False)
    assert parse_links(data + DONE) == ([NIC], True)


@pytest.mark.parametrize(
    "name", [*(one.encode("utf-8", "surrogateescape") for one in HOSTILE), b"../../x", b"a b", b""]
)
def test_an_interface_with_a_hostile_name_is_left_out(name: bytes) -> None:
    kept = {one.name for one in parse_links(link(name, b"pci", b"0000:3b:02.1"))[0]}
    assert kept <= {"a"}, "the kernel ends a name at its first NUL"
    assert parse_links(link(b"net1", b"pci", b"../" + name))[0] == []


def test_an_error_of_the_kernel_is_raised() -> None:
    refused = struct.pack("=IHHIIi", 36, 2, 0, 1, 0, -errno.EPERM) + bytes(16)
    with pytest.raises(PermissionError):
        parse_links(refused)


@given(st.binary(max_size=300))
def test_any_answer_of_the_kernel_ends(data: bytes) -> None:
    try:
        found, _ = parse_links(data)
    except OSError:
        return
    assert parse(as_text(tuple(found))) == tuple(found)


@given(st.text(max_size=200))
def test_any_file_of_a_capture_is_read(text: str) -> None:
    assert parse(as_text(parse(text))) == parse(text)


def test_a_capture_has_the_interfaces_of_a_namespace(tmp_path: Path) -> None:
    (tmp_path / "numaudit").mkdir()
    (tmp_path / "numaudit/network-4026532000.txt").write_text(as_text((NIC,)))
    assert interfaces(Host(tmp_path), 10, 4026532000) == (NIC,)


def test_a_namespace_that_is_gone_is_an_error_that_nothing_keeps() -> None:
    with no_kept_errors(), suppress(OSError):
        interfaces(Host(), 1 << 22, 1)
        pytest.fail("there is no process of that number")


def test_this_process_s_own_namespace_can_be_asked_where_that_is_allowed() -> None:
    host, pid = Host(), os.getpid()
    try:
        found = interfaces(host, pid, namespace(host, pid))
    except PermissionError:
        pytest.skip("no CAP_SYS_ADMIN")
    shown = {one.name for one in Path("/sys/class/net").iterdir()}
    assert {one.name for one in found} <= shown
    assert {one.name for one in found} >= {name for name in shown if Path(f"/sys/class/net/{name}/device").exists()}
