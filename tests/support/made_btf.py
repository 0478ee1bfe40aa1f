"""BTF that grows by types, as pahole writes it; and that of the kernels in tests/fixtures/btf, which can be changed."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from fixture_trees import FIXTURES

KERNELS = ("6.1", "6.12", "6.12-arm64", "6.18")
_INT, _POINTER, _ARRAY, _STRUCT, _ENUM, _TYPEDEF, _FUNC, _FUNC_PROTO = 1, 2, 3, 4, 6, 8, 12, 13


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


def described(kernel: str) -> dict[str, Any]:
    """What tests/fixtures/btf has of a kernel: `structs`, `enums` and `functions`, as `btf_of` takes them."""
    found: dict[str, Any] = json.loads((FIXTURES / "btf" / f"{kernel}.json").read_text())
    return found


def btf_of(description: dict[str, Any]) -> bytes:
    """The BTF of a kernel that has only these types."""
    made = Made()
    word = made.add(_INT, "unsigned long", 8, [64])
    structs: dict[str, int] = {}

    def number(type_: Any) -> int:  # noqa: ANN401 -- "void", or what JSON has of a type
        if type_ == "void":
            return 0
        if "int" in type_:
            return made.add(_INT, "number", type_["int"], [8 * type_["int"]])
        if "typedef" in type_:
            return made.add(_TYPEDEF, "alias", number(type_["typedef"]))
        if "pointer" in type_:
            return made.add(_POINTER, "", number(type_["pointer"]))
        if "array" in type_:
            return made.add(_ARRAY, "", 0, [number(type_["array"]), word, type_["length"]])
        return structure(type_["struct"], type_["size"])

    def structure(name: str, size: int) -> int:
        if name not in structs:
            members = description["structs"].get(name, {"members": {}})["members"]
            words = [word for own, of in members.items() for word in (made.name(own), number(of["type"]), 8 * of["at"])]
            structs[name] = made.add(_STRUCT, name, size, words, len(members))
        return structs[name]

    for name, one in description["structs"].items():
        structure(name, one["size"])
    for name, values in description["enums"].items():
        words = [word for value, number_ in values.items() for word in (made.name(value), number_)]
        made.add(_ENUM, name, 4, words, len(values))
    for name in description["functions"]:
        made.function(name, "meta", "cgroup")
    return made.bytes()
