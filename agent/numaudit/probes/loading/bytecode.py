"""BPF programs as compiled once for all machines: instructions, with the places where the loader puts what it knows.

An instruction may refer to a map, to a number, or to something in the program's context at an offset. Its place is
noted with the name of what belongs there (bpf/probe.bpf.h).

The loader process imports this module under the distribution's Python, which may be older than the agent's: plain
Python 3.9, standard library only. Source: Documentation/bpf/standardization/instruction-set.rst.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

WORD = 8
"""Bytes of an instruction; one that holds a number of 64 bits takes two of them."""
_NUMBER = 0x18  # BPF_LD | BPF_DW | BPF_IMM
_LOAD = {8: 0x79, 4: 0x61, 2: 0x69, 1: 0x71}  # BPF_LDX | BPF_MEM with BPF_DW, BPF_W, BPF_H, BPF_B
_TO_MAP = 1  # BPF_PSEUDO_MAP_FD, in the place of the source register
_NUMBER_MARK = 0x4E554D4100000000
_LOAD_MARK = 0x7000
_MOST_NAMES = 256
_NAMES = re.compile(r"\bPROBE_(?:CONSTANT\(|LOAD\(\w+, )([A-Z]\w*)\)")


@dataclass(frozen=True)
class Code:
    """One program."""

    instructions: bytes
    names: Mapping[int, str]
    """Instruction -> what it lacks: the map, or the number."""


@dataclass(frozen=True)
class MapShape:
    """A map as its text declares it, in the words of BPF_MAP_CREATE."""

    type: int
    key_size: int
    value_size: int
    entries: int
    flags: int


@dataclass(frozen=True)
class Bytecode:
    """All programs and maps of one text, by name."""

    programs: Mapping[str, Code]
    maps: Mapping[str, MapShape]

    def pack(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "maps": {name: asdict(one) for name, one in self.maps.items()},
            "programs": {
                name: {"instructions": base64.b64encode(code.instructions).decode(), "names": dict(code.names)}
                for name, code in self.programs.items()
            },
        }


def unpack(document: Mapping[str, Any]) -> Bytecode:
    """Unpack the result of `Bytecode.pack`. Raises KeyError, TypeError and ValueError for anything else."""
    programs = {
        name: Code(base64.b64decode(one["instructions"]), {int(at): to for at, to in one["names"].items()})
        for name, one in document["programs"].items()
    }
    return Bytecode(programs, {name: MapShape(**one) for name, one in document["maps"].items()})


def marks(text: str) -> dict[str, str]:
    """Macros with which a text has to be compiled, so that each number it lacks leaves a mark of its own."""
    names = sorted(set(_NAMES.findall(text)))
    if len(names) > _MOST_NAMES:
        raise ValueError(f"a text lacks {len(names)} numbers; {_MOST_NAMES} at most can be told apart")
    own = {name: str(number) for number, name in enumerate(names)}
    return {"PROBE_CONSTANT_MARK": f"{_NUMBER_MARK:#x}ULL", "PROBE_LOAD_MARK": f"{_LOAD_MARK:#x}", **own}


def of_marked(instructions: bytes, text: str, maps: Mapping[int, str]) -> Code:
    """Find the marks in what was made of a text that was compiled with `marks`. `maps`: descriptor -> name.

    The code is the same wherever it was compiled: where something belongs there is 0.
    """
    names = sorted(set(_NAMES.findall(text)))
    code, found, at = bytearray(instructions), {}, 0
    while at < len(code):
        operation, registers, offset, low = struct.unpack_from("=BBhi", code, at)
        width = WORD
        if operation == _NUMBER:
            width = 2 * WORD
            (high,) = struct.unpack_from("=i", code, at + WORD + 4)
            number = (high << 32 | low & 0xFFFFFFFF) - _NUMBER_MARK
            if registers >> 4 == _TO_MAP:
                found[at // WORD] = maps[low]
                _put_number(code, at, 0)
            elif 0 <= number < _MOST_NAMES:
                found[at // WORD] = names[number]
                _put_number(code, at, 0)
        elif operation == _LOAD[8] and 0 <= offset - _LOAD_MARK < _MOST_NAMES:
            found[at // WORD] = names[offset - _LOAD_MARK]
            struct.pack_into("=h", code, at + 2, 0)
        at += width
    return Code(bytes(code), found)


def link(
    code: Code,
    maps: Mapping[str, int],
    numbers: Mapping[str, int],
    fields: Mapping[str, tuple[int, int]],
) -> bytes:
    """The instructions with everything in its place.

    `maps`: descriptors. `numbers`: also the offsets of words in the context. `fields`: offset and size of what has
    another size. Raises KeyError for a name that is in none of them.
    """
    linked = bytearray(code.instructions)
    for instruction, name in code.names.items():
        at = instruction * WORD
        if linked[at] == _NUMBER:
            _put_number(linked, at, maps[name] if name in maps else numbers[name])
        else:
            offset, size = fields[name] if name in fields else (numbers[name], 8)
            linked[at] = _LOAD[size]
            struct.pack_into("=h", linked, at + 2, offset)
    return bytes(linked)


def _put_number(code: bytearray, at: int, number: int) -> None:
    struct.pack_into("=I", code, at + 4, number & 0xFFFFFFFF)
    struct.pack_into("=I", code, at + WORD + 4, number >> 32)
