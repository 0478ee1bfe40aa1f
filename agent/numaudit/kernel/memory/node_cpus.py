"""The nodes and CPUs that are online, and the CPUs of each node, by the first of sysfs's sources that can be read.

Source: the kernel's drivers/base/node.c. `cpulist` came with Linux 2.6.26; kernels before 4.15 list offline CPUs there
too, and 5.15-rc1 ended both files with a NUL byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, numbered, read_text
from numaudit.topology.nodeset import CpuSet, IdSet, NodeSet

Ids = TypeVar("Ids", bound=IdSet)
NodeCpus = Mapping[int, CpuSet | None]
"""Node -> its online CPUs; None = not known."""

_CPU = re.compile(r"cpu(\d{1,5})", re.ASCII)
_NODE = re.compile(r"node(\d{1,4})", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{1,8})*", re.ASCII)


def read_cpus(host: Host, nodes: NodeSet, online: CpuSet | None) -> NodeCpus:
    """By `cpulist`, `cpumap`, the links nodeN/cpuM, and the links cpuM/nodeN. `online` None = the kernel does not say.

    A node that no source names has no CPUs only where every online CPU is on another node.
    """
    found = {node: _of_node(host.nodes / f"node{node}") for node in nodes}
    if None in found.values():
        by_cpu = _by_cpu(host.cpus)
        found = {node: by_cpu.get(node) if cpus is None else cpus for node, cpus in found.items()}
    if online is None:
        return found
    within = {node: None if cpus is None else cpus & online for node, cpus in found.items()}
    placed = CpuSet.from_ids(cpu for cpus in within.values() for cpu in cpus or ())
    return within if placed != online else {node: cpus or CpuSet() for node, cpus in within.items()}


def online_nodes(host: Host) -> NodeSet:
    """Ids of the nodes that are online; by `online`, else by the folders that exist."""
    listed = read_list(host.nodes / "online", NodeSet)
    return listed or NodeSet.from_ids(_numbers(host.nodes, _NODE, NodeSet.limit))


def online_cpus(host: Host) -> CpuSet | None:
    """Ids of the CPUs that are online, by the list, or, before Linux 2.6.29, by the file of each CPU.

    None = the kernel does not say.
    """
    listed = read_list(host.cpus / "online", CpuSet)
    if listed:
        return listed
    states = {cpu: _text(host.cpus / f"cpu{cpu}/online").strip() for cpu in _numbers(host.cpus, _CPU, CpuSet.limit)}
    return CpuSet.from_ids(cpu for cpu, state in states.items() if state != "0") if any(states.values()) else None


def read_list(path: Path, kind: type[Ids]) -> Ids | None:
    """A list of ids; None = missing, cut short to nothing, or of another form."""
    text = _text(path)
    try:
        return kind.parse(text) if text else None
    except ParseError:
        return None


def parse_map(text: str) -> CpuSet:
    """A bitmask as `cpumap` has it: words of 32 bits in hexadecimal, the highest first. Raises ParseError.

    Source: bitmap_string in the kernel's lib/vsprintf.c (%*pb).
    """
    text = text.strip()
    if _HEX.fullmatch(text) is None or text.count(",") >= CpuSet.limit // 32:
        raise ParseError(f"not a bitmask of CPUs such as 00000000,0000000f: {text[:60]!r}")
    mask = 0
    for word in text.split(","):
        mask = mask << 32 | int(word, 16)
    return CpuSet(mask)


def _of_node(folder: Path) -> CpuSet | None:
    listed = read_list(folder / "cpulist", CpuSet)
    if listed is not None:
        return listed
    try:
        return parse_map(_text(folder / "cpumap"))
    except ParseError:
        return CpuSet.from_ids(_numbers(folder, _CPU, CpuSet.limit)) or None


def _by_cpu(folder: Path) -> Mapping[int, CpuSet]:
    found: dict[int, CpuSet] = {}
    for cpu in _numbers(folder, _CPU, CpuSet.limit):
        for node in _numbers(folder / f"cpu{cpu}", _NODE, NodeSet.limit):
            found[node] = found.get(node, CpuSet()) | CpuSet.of(cpu)
    return found


def _numbers(folder: Path, pattern: re.Pattern[str], limit: int) -> Iterator[int]:
    return (number for number, _ in numbered(folder, pattern) if number < limit)


def _text(path: Path) -> str:
    """Empty = missing or unreadable."""
    try:
        return read_text(path).rstrip("\0")
    except OSError:
        return ""
