"""Device files that the processes of a cgroup may open: devices.list of cgroup v1, or the device programs of v2.

The kernel gives the instructions of these BPF programs, and they are followed here for one file after another: runc,
crun and systemd write programs of comparisons alone. Source: Documentation/admin-guide/cgroup-v1/devices.rst,
include/uapi/linux/bpf.h (struct bpf_cgroup_dev_ctx), Documentation/bpf/standardization/instruction-set.rst,
kernel/bpf/cgroup.c.
"""

from __future__ import annotations

import operator
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.devices.pci import FileNumbers
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.tracing import bpf

_CGROUP_DEVICE = 6  # BPF_CGROUP_DEVICE of enum bpf_attach_type
_EFFECTIVE = 1  # BPF_F_QUERY_EFFECTIVE
_MOST_PROGRAMS = 64
_MOST_INSTRUCTIONS = 65536
_TYPES = {"block": 1, "char": 2}
_READ_AND_WRITE = 6 << 16
_ALU, _JMP, _JMP32, _ALU64 = 0x04, 0x05, 0x06, 0x07
_LOAD_WORD, _JUMP, _EXIT, _REGISTER = 0x61, 0x05, 0x95, 0x08
_WORD, _LONG = (1 << 32) - 1, (1 << 64) - 1


class Instruction(NamedTuple):
    """One of BPF's instructions."""

    code: int
    registers: int
    offset: int
    constant: int


Program = Sequence[Instruction]
_ARITHMETIC: dict[int, Callable[[int, int], int]] = {
    0x00: operator.add, 0x10: operator.sub, 0x40: operator.or_, 0x50: operator.and_, 0xA0: operator.xor,
    0xB0: lambda _, right: right,
}  # fmt: skip
_COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    0x10: operator.eq, 0x20: operator.gt, 0x30: operator.ge, 0x40: lambda left, right: bool(left & right),
    0x50: operator.ne, 0xA0: operator.lt, 0xB0: operator.le,
}  # fmt: skip


def read(cgroup: Path) -> tuple[Program, ...]:
    """The programs in force in a cgroup; each must allow a file. Empty = every file may be opened.

    Raises OSError: EPERM without CAP_SYS_ADMIN, and Unavailable on a machine whose system calls are not known.
    """
    folder = files.open_file(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    try:
        ids = bytearray(4 * _MOST_PROGRAMS)
        query = bytearray(
            struct.pack("=4IQI", folder, _CGROUP_DEVICE, _EFFECTIVE, 0, bpf.address_of(ids), _MOST_PROGRAMS)
        )
        bpf.command(bpf.Command.PROG_QUERY, query)
        (count,) = struct.unpack_from("=I", query, 24)
        return tuple(_instructions(id_) for id_ in struct.unpack_from(f"={count}I", ids))
    finally:
        os.close(folder)


def allows(program: Program, file: FileNumbers) -> bool:
    """May it be read and written? Raises ParseError where the program does more than compare."""
    context = {0: _READ_AND_WRITE | _TYPES[file.type], 4: file.major, 8: file.minor}
    registers = [0] * 11
    at = 0
    for _ in range(_MOST_INSTRUCTIONS):
        if not 0 <= at < len(program):
            break
        code, numbers, offset, constant = program[at]
        target, source = numbers & 0xF, numbers >> 4
        if target > 10 or source > 10:
            break
        at += 1
        if code == _EXIT:
            return bool(registers[0] & 1)
        operand = registers[source] if code & _REGISTER else constant & _LONG
        kind, operation = code & 0x07, code & 0xF0
        if code == _LOAD_WORD and source == 1 and offset in context:
            registers[target] = context[offset]
        elif kind in (_ALU, _ALU64):
            registers[target] = _computed(operation, registers[target], operand, _WORD if kind == _ALU else _LONG)
        elif code == _JUMP:
            at += offset
        elif kind in (_JMP, _JMP32) and operation in _COMPARISONS:
            bits = _LONG if kind == _JMP else _WORD
            at += offset if _COMPARISONS[operation](registers[target] & bits, operand & bits) else 0
        else:
            break
    raise ParseError("the cgroup's device program does more than compare numbers of devices")


def parse(code: bytes) -> Program:
    """Instructions as bpf(2) gives them."""
    return [Instruction(*one) for one in struct.iter_unpack("=BBhi", code[: len(code) // 8 * 8])]


def _computed(operation: int, left: int, right: int, bits: int) -> int:
    """Raises ParseError."""
    if operation in _ARITHMETIC:
        return _ARITHMETIC[operation](left & bits, right & bits) & bits
    if operation in (0x60, 0x70):
        shift = right & (63 if bits == _LONG else 31)
        return (left << shift if operation == 0x60 else (left & bits) >> shift) & bits
    raise ParseError("the cgroup's device program computes more than a list of devices needs")


def _instructions(program: int) -> Program:
    """Raises OSError."""
    descriptor = bpf.command(bpf.Command.PROG_GET_FD_BY_ID, bytearray(struct.pack("=3I", program, 0, 0)))
    try:
        (size,) = struct.unpack_from("=I", bpf.read_info(descriptor, 40), 20)
        code = bytearray(min(size, 8 * _MOST_INSTRUCTIONS) or 8)
        info = bytearray(40)
        struct.pack_into("=I", info, 20, len(code))
        struct.pack_into("=Q", info, 32, bpf.address_of(code))
        bpf.read_info_into(descriptor, info)
        return parse(bytes(code))
    finally:
        os.close(descriptor)


_LINE = re.compile(r"([abc]) (\d{1,10}|\*):(\d{1,10}|\*) ([rwm]{1,3})", re.ASCII)
_NO_SUCH_FILE = FileNumbers("char", 4094, (1 << 20) - 2)
"""Numbers that no driver has: a list that names it names everything."""


class ListedFiles(Struct, frozen=True):
    """The files of a list, rules with a star included."""

    rules: Sequence[tuple[str, int | None, int | None]]
    """Type (a, b or c), major and minor; None = any."""

    def allows(self, file: FileNumbers) -> bool:
        """May it be read and written?"""
        return any(
            type_ in ("a", file.type[0]) and major in (None, file.major) and minor in (None, file.minor)
            for type_, major, minor in self.rules
        )


def allowed(
    host: Host, hierarchies: Hierarchies, group: str, files: Callable[[], Sequence[FileNumbers]]
) -> tuple[FileNumbers, ...] | None:
    """Those of the files that a cgroup may open; None = it may open all, so its list says nothing.

    Raises OSError, ParseError, Unavailable where the list may not be read, or is not understood.
    """
    if hierarchies.devices is not None:
        try:
            listed = parse_list(read_text(f"{hierarchies.devices}{group}/devices.list"))
        except FileNotFoundError:
            raise Unavailable("its cgroup is not in the hierarchy of devices") from None
        return None if listed.allows(_NO_SUCH_FILE) else tuple(filter(listed.allows, files()))
    if not host.is_live or hierarchies.unified is None:
        raise Unavailable("a capture of cgroup v2 has no device programs")
    programs = read(Path(f"{hierarchies.unified}{group}"))
    if all(allows(one, _NO_SUCH_FILE) for one in programs):
        return None
    return tuple(file for file in files() if all(allows(one, file) for one in programs))


def parse_list(text: str) -> ListedFiles:
    """devices.list; rules that only let make files, or let files be read or written alone, are left out."""
    return ListedFiles(tuple(_rules(text)))


def _rules(text: str) -> Iterator[tuple[str, int | None, int | None]]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is not None and {"r", "w"} <= set(match[4]):
            yield match[1], _list_number(match[2]), _list_number(match[3])


def _list_number(text: str) -> int | None:
    return None if text == "*" else int(text)
