"""Rules about huge pages: the memory map offers what the kernel does not have."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.memory.state import MachineState
from numaudit.errors import printable
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence
from numaudit.evaluation.room.huge_pages import HugePagesOfSize, huge_pages_of, largest_users, sets_in_force
from numaudit.snapshot import Snapshot
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_MOST_USERS = 3


def _hugepages_short(evidence: TickEvidence) -> Iterator[RuleResult]:
    """The kubelet admits by its map alone, so the next pod would get a promise that the kernel breaks."""
    machine = evidence.intent.machine
    if not machine:
        return
    for of_size in huge_pages_of(evidence.snapshot):
        for nodes in sets_in_force(machine):
            text = _shortage(of_size, machine, nodes, evidence.snapshot)
            if text is not None:
                yield RuleResult(text, numa_nodes=nodes)


def _shortage(of_size: HugePagesOfSize, machine: MachineState, nodes: NodeSet, snapshot: Snapshot) -> str | None:
    """The shortage in words; None = there is none, or that is not known."""
    room, name = of_size.room, of_size.type
    tables = [machine[node].memory_map.get(name) for node in nodes if node in machine]
    by_map = sum(table.free for table in tables if table is not None) // room.page_size * room.page_size
    left, free, unclaimed = room.left(nodes), room.free_on(nodes), room.unclaimed_on(nodes)
    if left is None or free is None or unclaimed is None or left >= by_map:
        return None
    text = (
        f"the memory map would admit {in_units(by_map)} more of {name} on {nodes.in_words}, but the kernel can give "
        f"{in_units(left)}: {in_units(free)} are free there"
    )
    if unclaimed:
        text += f", and containers were promised {in_units(unclaimed)} of them that they do not use yet"
    elif left < free:
        text += f", and processes have reserved {in_units(room.reserved)} on the machine"
    users = largest_users(of_size, nodes, snapshot)[:_MOST_USERS]
    if users:
        text += f"; used there without a promise by {', '.join(f'{who} ({in_units(size)})' for who, size in users)}"
    if of_size.overcommit:
        text += f"; it may make up to {in_units(of_size.overcommit)} of surplus pages, if it finds memory for them"
    return printable(text)


RULES = (
    Rule(
        "hugepages-short",
        "warning",
        "Stop or move the pods that use the pages without a promise (the finding names them), or make them Guaranteed, "
        "so that the Memory Manager counts their pages. Until then a pod that is admitted there fails when it asks the "
        "kernel for its pages (ENOMEM or SIGBUS).",
        _hugepages_short,
    ),
)
