"""Memory without a promise fills the system's share first, then what is free, then what was promised."""

from __future__ import annotations

import pytest

from numaudit.containermanager.memory.state import Block, MemoryTable, NUMANodeState
from numaudit.evaluation.headroom import Unpromised, unpromised_by_node
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Container, ContainerId, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import NodeSet

PROMISED, BURSTABLE = ContainerId(1), ContainerId(2)
MACHINE_STATE = {
    0: NUMANodeState(1, {"memory": MemoryTable(100, 10, 90, 60, 30)}, (0,)),
    1: NUMANodeState(0, {"memory": MemoryTable(100, 0, 100, 0, 100)}, (1,)),
}


def snapshot(burstable: Resident, unattributed: Resident | None = None, intent: Intent | None = None) -> Snapshot:
    """A container with 60 promised bytes on node 0, which holds 50 of them, and one without a promise."""
    promise = Promise(memory=(Block.of("memory", 60, NodeSet.of(0)),))
    containers = (
        ContainerIntent("u", "a", cgroups=(int(PROMISED),), promise=promise),
        ContainerIntent("v", "b", cgroups=(int(BURSTABLE),), promise=Promise(memory=())),
    )
    return Snapshot(
        taken_at=1.0,
        machine=Machine((Node(0), Node(1))),
        cgroup_mode="v2",
        containers=tuple(Container(id_, f"/{id_}", "container") for id_ in (PROMISED, BURSTABLE)),
        residency={PROMISED: Resident(anon={0: 50}), BURSTABLE: burstable},
        unattributed=unattributed,
        intent=intent or Intent(containers=containers, machine=MACHINE_STATE),
    )


@pytest.mark.parametrize(
    ("held", "in_free", "in_reserved"), [(0, 0, 0), (10, 0, 0), (25, 15, 0), (40, 30, 0), (65, 30, 25), (500, 30, 60)]
)
def test_what_is_beyond_the_systems_share_is_in_free_memory_and_then_in_promised(
    held: int, in_free: int, in_reserved: int
) -> None:
    assert unpromised_by_node(snapshot(Resident(anon={0: held})))[0] == Unpromised(held, in_free, in_reserved)


def test_shared_memory_and_the_root_group_count_and_page_cache_and_huge_pages_do_not() -> None:
    held = Resident(anon={1: 1}, shmem={1: 2}, file={1: 400}, hugetlb={1: 800})
    assert unpromised_by_node(snapshot(held, Resident(anon={1: 4})))[1] == Unpromised(7, 7, 0)


def test_what_a_promised_container_holds_is_in_nobodys_way() -> None:
    assert unpromised_by_node(snapshot(Resident()))[0] == Unpromised(0, 0, 0)


def test_without_a_memory_map_nothing_is_in_the_way_of_a_promise() -> None:
    assert unpromised_by_node(snapshot(Resident(anon={0: 5}), intent=Intent())) == {}
