"""The part of the report about huge pages: map, kernel and containers side by side."""

from __future__ import annotations

from numaudit.containermanager.memory.state import MachineState
from numaudit.errors import InputError
from numaudit.evaluation.huge_pages import HugePagesOfSize, huge_pages_of, others, sets_in_force
from numaudit.intent.node import Intent
from numaudit.memorymanager.huge_pages import admissible_huge_pages
from numaudit.report.memory_manager import AdmissibleReport, HugePagesReport, HugePoolReport, HugeRoomReport
from numaudit.snapshot import Snapshot
from numaudit.topology.nodeset import NodeSet


def huge_pages_report(snapshot: Snapshot, intent: Intent) -> tuple[HugePagesReport, ...]:
    """A row for each page size that has a pool or a promise. Empty where there is no memory map."""
    machine = intent.machine
    if not machine:
        return ()
    return tuple(_report(one, snapshot, intent, machine) for one in huge_pages_of(snapshot))


def _report(of_size: HugePagesOfSize, snapshot: Snapshot, intent: Intent, machine: MachineState) -> HugePagesReport:
    size = of_size.room.page_size
    pools = tuple(
        HugePoolReport(
            node,
            pool.total * size,
            None if pool.free is None else pool.free * size,
            None if pool.surplus is None else pool.surplus * size,
            others(of_size, node, snapshot),
        )
        for node, pool in of_size.pools.items()
    )
    rooms = tuple(_room(of_size, machine, nodes) for nodes in sets_in_force(machine))
    return HugePagesReport(of_size.type, size, of_size.room.reserved, pools, rooms, _admissible(of_size, intent))


def _room(of_size: HugePagesOfSize, machine: MachineState, nodes: NodeSet) -> HugeRoomReport:
    room = of_size.room
    tables = [machine[node].memory_map.get(of_size.type) for node in nodes if node in machine]
    by_map = sum(table.free for table in tables if table is not None)
    left = room.left(nodes)
    smaller = None if left is None else min(left, by_map // room.page_size * room.page_size)
    return HugeRoomReport(nodes, by_map, room.free_on(nodes), room.unclaimed_on(nodes), smaller)


def _admissible(of_size: HugePagesOfSize, intent: Intent) -> tuple[AdmissibleReport, ...] | None:
    try:
        found = admissible_huge_pages(
            intent.machine or {}, intent.config.topology_manager_policy, of_size.type, of_size.room
        )
    except InputError:  # the map does not have the size on each node: the kubelet started before it was there
        return None
    return None if found is None else tuple(AdmissibleReport(nodes, most) for nodes, most in found.items())
