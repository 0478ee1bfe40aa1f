"""Interfaces of a process's network namespace that belong to devices: by rtnetlink, from a thread that enters it.

A device's interface is in one namespace alone, and sysfs shows only those of its own. Nothing is changed anywhere: the
thread opens a socket there, and ends. A capture has a file for each namespace instead.
Source: setns(2), rtnetlink(7), include/uapi/linux/if_link.h (IFLA_PARENT_DEV_NAME, since Linux 5.14).
"""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import PurePath
from threading import Thread
from typing import NamedTuple

from numaudit.errors import Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import syscall

_CLONE_NEWNET = 0x40000000
_GET_LINK, _NEW_LINK, _DONE, _ERROR = 18, 16, 3, 2
_REQUEST_DUMP = 0x301
_NAME, _PARENT, _PARENT_BUS = 3, 56, 57
_MOST_BYTES = 4 << 20
_SECONDS = 2.0
_NAMESPACE = re.compile(r"net:\[(\d{1,12})\]", re.ASCII)
_TEXT = re.compile(r"[!-.0-~]{1,255}", re.ASCII)
"""A name of one word that is no path."""


class Interface(NamedTuple):
    """One that belongs to a device."""

    name: str
    bus: str
    """pci, virtio, ..."""
    device: str
    """Name on that bus, as in /sys/bus/BUS/devices."""


def namespace(host: Host, pid: int) -> int:
    """Number of its network namespace. Raises OSError when it has ended or may not be seen."""
    link = files.link_target(host.proc / str(pid) / "ns/net")
    match = _NAMESPACE.fullmatch(link)
    if match is None:
        raise OSError(22, "not a network namespace", f"{host.proc}/{pid}/ns/net")
    return int(match[1])


def captured_file(number: int) -> PurePath:
    """The file with the interfaces of a namespace in a captured tree."""
    return PurePath(f"numaudit/network-{number}.txt")


def as_text(interfaces: tuple[Interface, ...]) -> str:
    """A line for each: its name, and the bus and name of its device."""
    return "".join(f"{' '.join(one)}\n" for one in interfaces)


def parse(text: str) -> tuple[Interface, ...]:
    """The reverse of `as_text`; other lines are left out."""
    words = (line.split(" ") for line in text.splitlines())
    return tuple(Interface(*one) for one in words if len(one) == 3 and all(map(_TEXT.fullmatch, one)))


def interfaces(host: Host, pid: int, number: int) -> tuple[Interface, ...]:
    """Interfaces of a process's namespace that belong to devices. Raises OSError, Unavailable.

    `number`: of the namespace. EPERM without CAP_SYS_ADMIN.
    """
    if not host.is_live:
        return parse(read_text(host.root / captured_file(number)))
    with _socket_in(f"{host.proc}/{pid}/ns/net") as connection:
        connection.settimeout(_SECONDS)
        connection.send(struct.pack("=IHHII", 32, _GET_LINK, _REQUEST_DUMP, 1, 0) + bytes(16))
        found: list[Interface] = []
        received = 0
        while received < _MOST_BYTES:
            data = connection.recv(1 << 16)
            received += len(data)
            links, is_last = parse_links(data)
            found += links
            if is_last or not data:
                break
        return tuple(found)


def _socket_in(namespace_file: str) -> socket.socket:
    """A netlink socket of another namespace, made by a thread that enters it and ends. Raises OSError, Unavailable."""
    made: list[socket.socket | OSError | Unavailable] = []

    def enter() -> None:
        try:
            descriptor = files.open_namespace(namespace_file)
            try:
                syscall.call("setns", descriptor, _CLONE_NEWNET)
            finally:
                os.close(descriptor)
            made.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE))
        except (OSError, Unavailable) as error:
            made.append(error)

    thread = Thread(target=enter, name="network namespace")
    thread.start()
    thread.join()
    result = made.pop()
    try:
        if isinstance(result, socket.socket):
            return result
        raise result
    finally:
        del result  # it would make a cycle of the error and its frames, which keep a whole tick


def parse_links(data: bytes) -> tuple[list[Interface], bool]:
    """Interfaces with a device in one datagram of rtnetlink, and is it the last one? Raises OSError on its errors."""
    found: list[Interface] = []
    at = 0
    while at + 16 <= len(data):
        size, kind = struct.unpack_from("=IH", data, at)
        if kind == _ERROR and at + 20 <= len(data):
            (code,) = struct.unpack_from("=i", data, at + 16)
            raise OSError(-code, os.strerror(-code), "rtnetlink")
        if kind == _DONE or size < 16:
            return found, True
        if kind == _NEW_LINK:
            words = dict(_attributes(data[at + 32 : at + size]))
            if _NAME in words and words.get(_PARENT) and words.get(_PARENT_BUS):
                found.append(Interface(words[_NAME], words[_PARENT_BUS], words[_PARENT]))
        at += (size + 3) & ~3
    return found, False


def _attributes(data: bytes) -> Iterator[tuple[int, str]]:
    """Number and text of the attributes that are wanted; a text that is no word is left out."""
    at = 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            return
        if kind in (_NAME, _PARENT, _PARENT_BUS):
            text = data[at + 4 : at + size].partition(b"\0")[0].decode("ascii", "replace")
            if _TEXT.fullmatch(text):
                yield kind, text
        at += (size + 3) & ~3
