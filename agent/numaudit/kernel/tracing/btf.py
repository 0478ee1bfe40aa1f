"""BTF: what the kernel says of its own functions and structures, so that no layout is written down here.

Source: Documentation/bpf/btf.rst, include/uapi/linux/btf.h.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Collection

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel.host import Host, read_bytes

_MAGIC = 0xEB9F
_ARRAY, _STRUCT, _UNION, _ENUM, _FUNC, _FUNC_PROTO = 3, 4, 5, 6, 12, 13
_DEEPEST = 8
"""Structures without a name inside each other that are looked into."""
_WORDS_AFTER = {1: 1, 3: 3, 14: 1, 17: 1}
"""Kind -> words after each type's three, whatever it holds; 0 for all others."""
_WORDS_FOR_EACH = {4: 3, 5: 3, 6: 2, 13: 2, 15: 3, 19: 3}
"""Kind -> words for each member, value, parameter or variable."""
_LAST_KIND = 19
_LARGEST = 64 << 20


class Function(Struct, frozen=True):
    """A function of the kernel's."""

    id: int
    """Type id, which BPF_PROG_LOAD calls attach_btf_id."""
    parameters: tuple[str, ...]
    """Their names, in order."""


class Member(Struct, frozen=True):
    """A member of a structure."""

    type: int
    """Number of its type."""
    bits: int
    """From the structure's start."""


class Btf:
    """The types of one kernel. Queries give None for what it does not describe."""

    def __init__(self, data: bytes) -> None:
        """Raises ParseError."""
        try:
            magic, _, _, header = struct.unpack_from("=HBBI", data)
            types, types_size, strings, strings_size = struct.unpack_from("=4I", data, 8)
        except struct.error:
            raise ParseError("the header of the BTF is incomplete") from None
        if magic != _MAGIC:
            raise ParseError(f"BTF begins with {magic:#06x}, not with {_MAGIC:#06x} in this machine's byte order")
        first, start = header + types, header + strings
        if types_size % 4 or first + types_size > len(data) or start + strings_size > len(data):
            raise ParseError("the sections of the BTF go beyond its end")
        self._words = memoryview(data[first : first + types_size]).cast("I")
        self._strings = data[start : start + strings_size]
        self._starts = self._find_starts()
        self._found: dict[tuple[int, str], int | None] = {}

    def function(self, name: str) -> Function | None:
        found = self._find(_FUNC, name)
        if found is None:
            return None
        prototype = self._start(self._words[self._starts[found] + 2])
        names = (self._name(self._words[at]) for at in self._each(prototype, _FUNC_PROTO))
        return Function(found, tuple(names))

    def member(self, structure: str, name: str) -> Member | None:
        """Also one of a structure or union without a name inside it, as C finds it."""
        found = self._find(_STRUCT, structure)
        return None if found is None else self._member(self._starts[found], name, _DEEPEST)

    def _member(self, start: int, name: str, depth: int) -> Member | None:
        has_bit_fields = self._words[start + 1] >> 31
        for at in self._each(start, self._kind(start)):
            type_, offset = self._words[at + 1], self._words[at + 2]
            bits = offset & 0xFFFFFF if has_bit_fields else offset
            if self._name(self._words[at]) == name:
                return Member(type_, bits)
            if self._words[at] == 0 and depth and self._kind(self._start(type_)) in (_STRUCT, _UNION):
                inner = self._member(self._start(type_), name, depth - 1)
                if inner is not None:
                    return Member(inner.type, bits + inner.bits)
        return None

    def length(self, type_: int) -> int | None:
        """Elements of an array type."""
        start = self._start(type_)
        return self._words[start + 5] if self._kind(start) == _ARRAY else None

    def value(self, enumeration: str, name: str) -> int | None:
        """One value of an enumeration, as 32 bits without a sign."""
        found = self._find(_ENUM, enumeration)
        if found is not None:
            for at in self._each(self._starts[found], _ENUM):
                if self._name(self._words[at]) == name:
                    return self._words[at + 1]
        return None

    def _find_starts(self) -> array[int]:
        """Number of a type -> where it begins, in words; type 0 is void."""
        words, starts, at = self._words, array("I", [0]), 0
        after = [_WORDS_AFTER.get(kind, 0) for kind in range(32)]
        for_each = [_WORDS_FOR_EACH.get(kind, 0) for kind in range(32)]
        size = len(words)
        while at + 3 <= size:
            starts.append(at)
            info = words[at + 1]
            kind = info >> 24 & 31
            if not 0 < kind <= _LAST_KIND:
                raise ParseError(f"BTF type {len(starts) - 1} is of the unknown kind {kind}")
            at += 3 + after[kind] + for_each[kind] * (info & 0xFFFF)
        if at != size:
            raise ParseError("the last type of the BTF is cut off")
        return starts

    def _find(self, kind: int, name: str) -> int | None:
        """Number of the first type of that kind and name."""
        if (kind, name) not in self._found:
            self._found[kind, name] = self._search(kind, name)
        return self._found[kind, name]

    def _search(self, kind: int, name: str) -> int | None:
        offsets = self._offsets(name)
        for number in range(1, len(self._starts) if offsets else 0):
            at = self._starts[number]
            if self._words[at] in offsets and self._words[at + 1] >> 24 & 31 == kind:
                return number
        return None

    def _offsets(self, name: str) -> Collection[int]:
        """Offsets of the name among the strings. Each is there once, but may end another one."""
        wanted, found, at = name.encode() + b"\0", set(), -1
        while (at := self._strings.find(wanted, at + 1)) >= 0:
            found.add(at)
        return found

    def _start(self, type_: int) -> int:
        if not 0 < type_ < len(self._starts):
            raise ParseError(f"the BTF refers to type {type_}, which it does not have")
        return self._starts[type_]

    def _kind(self, start: int) -> int:
        return self._words[start + 1] >> 24 & 31

    def _each(self, start: int, kind: int) -> range:
        """Offsets of the members of the type, in words."""
        if self._kind(start) != kind:
            raise ParseError(f"BTF has a type of kind {self._kind(start)} where one of kind {kind} belongs")
        step = _WORDS_FOR_EACH[kind]
        return range(start + 3, start + 3 + step * (self._words[start + 1] & 0xFFFF), step)

    def _name(self, offset: int) -> str:
        end = self._strings.find(b"\0", offset)
        return self._strings[offset:end].decode("utf-8", "replace") if end >= 0 else ""


def read(host: Host) -> Btf:
    """This kernel's. Raises Unavailable where it has none, OSError, ParseError."""
    path = host.sys / "kernel/btf/vmlinux"
    try:
        return Btf(read_bytes(path, _LARGEST))
    except FileNotFoundError:
        raise Unavailable(f"this kernel has no BTF ({path}, CONFIG_DEBUG_INFO_BTF)") from None


class PageFlags(Struct, frozen=True):
    """Position of a page's node: the top bits of page->flags."""

    offset: int
    """Bytes from the start of struct page."""
    node_bits: int


def page_flags(btf: Btf) -> PageFlags | None:
    """From struct page and the number of nodes that the kernel was built for; None = not known.

    The node comes first only where memory sections need no bits of their own (SPARSEMEM_VMEMMAP), which is so on all
    machines with 64 bits that we know. Source: include/linux/page-flags-layout.h, include/linux/mmzone.h
    (struct zonelist has one entry for each zone of each node, and an end).
    """
    flags, entries = btf.member("page", "flags"), btf.member("zonelist", "_zonerefs")
    zones = btf.value("zone_type", "__MAX_NR_ZONES")
    length = None if entries is None else btf.length(entries.type)
    if flags is None or not zones or not length or flags.bits % 8:
        return None
    nodes, remainder = divmod(length - 1, zones)
    if remainder or nodes < 1 or nodes & (nodes - 1):
        return None
    return PageFlags(flags.bits // 8, nodes.bit_length() - 1)
