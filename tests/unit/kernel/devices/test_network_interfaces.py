"""rtnetlink's answer about interfaces, and the file of a capture that has the same."""

from __future__ import annotations

import errno
import os
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.hostile_names import HOSTILE
from numaudit.kernel.devices.network import Interface, as_text, interfaces, namespace, parse, parse_links
from numaudit.kernel.host import Host
from processes.cycles import no_kept_errors

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
