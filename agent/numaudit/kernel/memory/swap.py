"""Swap: what the host has of it, and what a cgroup may use.

Source: /proc/meminfo; Documentation/admin-guide/cgroup-v2.rst (memory.swap.max, which the root cgroup does not have).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_text

_LINE = re.compile(r"^(SwapTotal|SwapFree):\s+(\d{1,19}) kB$", re.M | re.ASCII)
_MOST_DIGITS = 20


def read_space(host: Host) -> tuple[int, int] | None:
    """Bytes of swap on the host, and those that are free; None = /proc/meminfo does not say. Raises OSError."""
    try:
        return parse_space(read_text(host.proc / "meminfo"))
    except FileNotFoundError:
        return None


def parse_space(text: str) -> tuple[int, int] | None:
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
