"""Sentences of a verdict about the use of other nodes' memory."""

from __future__ import annotations

from numaudit.evaluation.access import COVERED, Measured, SampledPages
from numaudit.evaluation.history import UsedElsewhere
from numaudit.evaluation.window import ends_at
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.sizes import in_units


def access_clause(used: UsedElsewhere, now: float) -> str:
    """One clause, with when it was measured unless that was now."""
    share = used.share
    minutes = int(now - used.taken_at + (share.age or 0.0 if share.pages is not None else 0.0)) // 60
    when = f"{share.source}, {minutes} min ago" if minutes > 0 else share.source
    if share.pages is None:
        return f"{share.lower:.0%} of the accesses were to memory of another node ({when})"
    return _of_pages(share, share.pages, when)


def _of_pages(share: Measured, pages: SampledPages, when: str) -> str:
    memory = "" if pages.memory_bytes is None else f" of its {in_units(pages.memory_bytes)}"
    watched = "" if pages.coverage is None else f"; {pages.coverage:.0%} of its memory was watched"
    if pages.remote_bytes:
        nodes = NodeSet.from_ids(one.cpu_numa_node for one in pages.remote)
        word = "node" if len(nodes) == 1 else "nodes"
        said = f"at least {in_units(pages.remote_bytes)}{memory} were used from another node, by CPUs of {word} {nodes}"
    else:
        said = f"none{memory or ' of its memory'} was seen used from another node"
    if share.upper < 1.0 and pages.coverage is not None and pages.coverage >= COVERED:
        watched = f", and at most {share.upper:.0%} of it{watched}"
    return f"{said}{watched} ({when})"


def still_clause(share: float, limit: float) -> str:
    """Said of a share that came back below its limit, where the verdict holds."""
    return "" if share > limit else f", less than before; the verdict ends below {ends_at(limit):.1%}"
