"""Places to which the kernel may move memory: tiers and their speed; swap of the host, and what a cgroup may use of it.

/sys/devices/virtual/memory_tiering, /sys/kernel/mm/numa and a node's access classes have the tiers. They are shown
since Linux 6.1, and by the firmware's tables since 6.7.

Source: the kernel's mm/memory-tiers.c, drivers/base/node.c, Documentation/admin-guide/mm/numaperf.rst,
Documentation/ABI/testing/sysfs-kernel-mm-numa; /proc/meminfo; Documentation/admin-guide/cgroup-v2.rst
(memory.swap.max, which the root cgroup does not have).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, number_at, numbered, read_bytes, read_text, text_at
from numaudit.kernel.memory.numa_balancing import read_mode
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.tiers import MemorySpeed, MemoryTier, MemoryTiers, TierSettings

_TIER = re.compile(r"memory_tier(\d{1,9})", re.ASCII)
_NODE = re.compile(r"node(\d{1,4})", re.ASCII)
_CLASSES = ("access1", "access0")
"""Of CPUs alone; and, which older kernels have alone, of any initiator, such as a GPU."""
_FIGURES = ("read_latency", "write_latency", "read_bandwidth", "write_bandwidth")
_MIB = 1 << 20
_NODE_FILTER = b"\0mem_cgroup_node_filter_allowed\0"
_LARGEST_BTF = 64 << 20


def folder(host: Host) -> Path:
    """Contains a folder for each tier."""
    return host.sys / "devices/virtual/memory_tiering"


def demotion_file(host: Host) -> Path:
    """The switch."""
    return host.sys / "kernel/mm/numa/demotion_enabled"


def read(host: Host) -> MemoryTiers | None:
    """None = the kernel shows none, or not in full: a tier comes and goes with its nodes."""
    found = []
    for tier, name in numbered(folder(host), _TIER):
        try:
            nodes = NodeSet.parse(read_text(folder(host) / name / "nodelist"))
        except FileNotFoundError:
            continue
        except (OSError, ParseError):
            return None
        if nodes:
            found.append(MemoryTier(tier, nodes))
    in_several = sum(len(tier.nodes) for tier in found) > len(NodeSet.from_ids(n for tier in found for n in tier.nodes))
    return MemoryTiers(tuple(found)) if found and not in_several else None


def read_settings(host: Host) -> TierSettings:
    """The switches now. A value that is none of the kernel's is not known."""
    try:
        mode = read_mode(host)
    except (OSError, ParseError):
        mode = None
    words = {"true": True, "1": True, "false": False, "0": False}
    return TierSettings(words.get(text_at(demotion_file(host)) or ""), None if mode is None else mode.flags)


def keeps_cpuset(host: Host) -> bool | None:
    """Does this kernel demote pages only to nodes of their cgroup's effective cpuset.mems? None = it does not say.

    Not by its version, for fixes are backported: whether it has the function that asks the cpuset for its nodes
    (mm/vmscan.c, demote_folio_list, in 6.18.19 and 7.0). Up to 6.15 the cpuset is ignored; 6.16 asks it only whether
    demotion may begin.
    """
    if not host.is_live:
        return None
    try:
        return _NODE_FILTER in read_bytes(host.sys / "kernel/btf/vmlinux", _LARGEST_BTF)
    except OSError:
        return None


def read_speed(node: Path) -> MemorySpeed | None:
    """Of the node of this folder; None = the firmware does not say."""
    for one in _CLASSES:
        initiators = node / one / "initiators"
        figures = [_figure(initiators / name) for name in _FIGURES]
        if any(figures):
            nodes = NodeSet.from_ids(id_ for id_, _ in numbered(initiators, _NODE) if id_ < NodeSet.limit)
            read_latency, write_latency, *widths = figures
            bandwidths = (None if width is None else width * _MIB for width in widths)
            return MemorySpeed(nodes, read_latency, write_latency, *bandwidths)
    return None


def _figure(path: Path) -> int | None:
    """Not 0, which the kernel shows for what the firmware leaves out, nor what no memory has."""
    number = number_at(path) or 0
    return number if 0 < number < 10**9 else None


_LINE = re.compile(r"^(SwapTotal|SwapFree):\s+(\d{1,19}) kB$", re.M | re.ASCII)
_MOST_DIGITS = 20


def read_swap(host: Host) -> tuple[int, int] | None:
    """Bytes of swap on the host, and those that are free; None = /proc/meminfo does not say. Raises OSError."""
    try:
        return parse_swap(read_text(host.proc / "meminfo"))
    except FileNotFoundError:
        return None


def parse_swap(text: str) -> tuple[int, int] | None:
    """The same of a text."""
    found = {name: int(kib) << 10 for name, kib in _LINE.findall(text)}
    return (found["SwapTotal"], found["SwapFree"]) if len(found) == 2 else None


def parse_limit(text: str) -> int | None:
    """Of memory.swap.max: bytes; None = `max`, no limit. Raises ParseError."""
    value = text.strip()
    if value == "max":
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS):
        raise ParseError(f"memory.swap.max is {value[:40]!r}, not a number of bytes or max")
    return int(value)


def limit_of(folder: str, path: str, read: Callable[[str], bytes]) -> int | None:
    """Bytes that a cgroup may have in swap: the least of its own limit and those of the groups above it, None = as many
    as there are. `folder` is the hierarchy's, `path` the group's. Raises OSError, ParseError.
    """
    least: int | None = None
    while path:
        text = read(f"{folder}{path}/memory.swap.max").decode("ascii", "replace")
        limit = parse_limit(text)
        least = limit if least is None or (limit is not None and limit < least) else least
        path = path.rpartition("/")[0]
    return least
