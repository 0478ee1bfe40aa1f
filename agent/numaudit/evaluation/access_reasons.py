"""Sentences of a verdict about the use of other nodes' memory."""

from __future__ import annotations

from numaudit.evaluation.access import UsedRemotely
from numaudit.evaluation.history import UsedElsewhere
from numaudit.evaluation.window import ends_at
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.sizes import in_units


def access_clause(used: UsedElsewhere, now: float) -> str:
    """One clause, with when it was measured unless that was now."""
    share, pages = used.share, used.share.used_remotely
    minutes = int(now - used.taken_at + (0.0 if pages is None else share.age or 0.0)) // 60
    when = f"{share.source}, {minutes} min ago" if minutes > 0 else share.source
    if pages is None:
        return f"{share.lower:.0%} of the accesses were to memory of another node ({when})"
    return f"{_of_pages(pages)} ({when})"


def _of_pages(pages: UsedRemotely) -> str:
    memory = "" if pages.memory_bytes is None else f" of its {in_units(pages.memory_bytes)}"
    nodes = NodeSet.from_ids(one.cpu_numa_node for one in pages.by_pair)
    word = "node" if len(nodes) == 1 else "nodes"
    return f"at least {in_units(pages.at_least_bytes)}{memory} were used from another node, by CPUs of {word} {nodes}"


def still_clause(share: float, limit: float) -> str:
    """Said of a share that came back below its limit, where the verdict holds."""
    return "" if share > limit else f", less than before; the verdict ends below {ends_at(limit):.1%}"
