"""Memory policies as the kernel prints them in numa_maps: bind:1, prefer (many):0-1, weighted interleave=static:0,2.

Source: mm/mempolicy.c (policy_modes, mpol_to_str).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from numaudit.errors import ParseError
from numaudit.ranks.declaration import PolicyKind
from numaudit.topology.nodeset import NodeSet

_POLICY = re.compile(
    r"(default|local|bind|prefer|interleave|prefer \(many\)|weighted interleave)(?:=[a-z|]*)?(?::([0-9,\-]{1,2048}))?",
    re.ASCII,
)
_KINDS: dict[str, PolicyKind] = {
    "bind": "bind",
    "prefer": "preferred",
    "prefer (many)": "preferred-many",
    "interleave": "interleave",
    "weighted interleave": "weighted-interleave",
    "local": "local",
}


BINDING: tuple[PolicyKind, ...] = ("bind", "preferred", "preferred-many")
"""Those that bring memory to some nodes, which no process has unless it was bound to them."""


class PolicyInForce(NamedTuple):
    """One policy. Kind None = default: no policy."""

    kind: PolicyKind | None
    nodes: NodeSet


def parse(text: str) -> PolicyInForce:
    """Of `default`, `bind:1`, `prefer (many):0-1`, `bind=static:0`, ... Raises ParseError."""
    match = _POLICY.fullmatch(text)
    if match is None:
        raise ParseError(f"not a memory policy of the kernel's: {text[:60]!r}")
    return PolicyInForce(_KINDS.get(match[1]), NodeSet.parse(match[2] or ""))


def understood(text: str) -> PolicyInForce | None:
    """The same; None = it is none of the kernel's that is known."""
    try:
        return parse(text)
    except ParseError:
        return None
