"""Lists of nodes and CPUs as launchers write them.

Source: numactl(8), libnuma.c (numa_parse_nodestring, numa_parse_cpustring).
"""

from __future__ import annotations

import re
from typing import TypeVar

from numaudit.errors import ParseError
from numaudit.topology.nodeset import CpuSet, IdSet, NodeSet

Ids = TypeVar("Ids", NodeSet, CpuSet)
DEVICES = ("netdev:", "ip:", "block:", "file:", "pci:")
"""Prefixes of nodes that numactl finds by a device."""
NUMACTL_LIST = re.compile(r"[!+]{0,2}(?:all|[0-9,\-]{1,2048})", re.ASCII)
_MASK = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,512})", re.ASCII)


class Unresolved(Exception):
    """The list names something that cannot be resolved to nodes here."""


def numactl_list(kind: type[Ids], text: str, allowed: Ids, everything: Ids) -> Ids:
    """Read numactl's `0,2-3`, `all`, `!0` (all allowed but 0) and `+0` (the first of the allowed ones).

    `everything`: with --all. Raises ParseError, and Unresolved for the node of a device (`netdev:eth0`).
    """
    if text.startswith(DEVICES):
        raise Unresolved(f"{text.partition(':')[0]}: names a device, whose node is not looked up")
    if not NUMACTL_LIST.fullmatch(text):
        raise ParseError("not a list of numactl's")
    inverted, relative = "!" in text[:2], "+" in text[:2]
    rest = text.lstrip("!+")
    found = everything if rest == "all" else kind.parse(rest)
    if relative and rest != "all":
        order = list(allowed)
        if any(one >= len(order) for one in found):
            raise ParseError("a relative list reaches past the cpuset")
        found = kind.from_ids(order[one] for one in found)
    return everything - found if inverted else found


def mask(kind: type[Ids], text: str) -> Ids:
    """Read a hexadecimal mask such as 0x0f. Raises ParseError."""
    match = _MASK.fullmatch(text)
    if match is None:
        raise ParseError("not a hexadecimal mask")
    found = int(match[1], 16)
    if found.bit_length() > kind.limit:
        raise ParseError("a mask has too many bits")
    return kind(found)


def with_strides(text: str) -> str:
    """`0-6:2` of taskset and libgomp is `0-6:1/2` of the kernel."""
    return re.sub(r":(\d)", r":1/\1", text)


def entry(parts: list[str], index: int | None) -> str:
    """The part of a list with one part for each rank; a list shorter than the ranks begins again.

    Raises Unresolved without the rank's number.
    """
    if len(parts) == 1:
        return parts[0]
    if index is None:
        raise Unresolved("the list has a part for each rank, and the process shows no local rank")
    return parts[index % len(parts)]


def union(kind: type[Ids], parts: list[str]) -> Ids:
    """All ids of several lists. Raises ParseError."""
    found: IdSet = kind()
    for part in parts:
        found = found | kind.parse(part)
    return kind(found.mask)
