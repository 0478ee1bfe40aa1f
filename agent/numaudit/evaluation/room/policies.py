"""Memory policies as the kernel prints them: bind:1, prefer (many):0-1, weighted interleave=static:0,2."""

from __future__ import annotations

from numaudit.errors import ParseError
from numaudit.topology.nodeset import NodeSet


def policy_nodes(policy: str) -> NodeSet | None:
    """The nodes that a policy names; None = it names none (default, local), or the text has another form."""
    _, colon, nodes = policy.rpartition(":")
    if not colon:
        return None
    try:
        return NodeSet.parse(nodes)
    except ParseError:
        return None


def is_bind(policy: str) -> bool:
    """Does it allow its nodes only? With flags it is printed as bind=static:1."""
    return policy.startswith(("bind:", "bind="))
