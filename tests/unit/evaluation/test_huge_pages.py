"""Huge pages three ways: what the map offers, what the kernel has free, what containers hold."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block, MemoryTable, NUMANodeState
from numaudit.evaluation.findings import Finding, find
from numaudit.evaluation.huge_pages import huge_pages_of, others
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import HugePagePool, HugePages, Machine, Node
from numaudit.topology.nodeset import NodeSet

MIB, GIB = 1 << 20, 1 << 30
PROMISED, BURSTABLE = ContainerId(1), ContainerId(2)
TWO_MIB, ONE_GIB = "hugepages-2Mi", "hugepages-1Gi"


def snapshot(
    free: int | None,
    *,
    promised: int = 0,
    held: int = 0,
    eaten: int = 0,
    map_free: int | None = None,
    resident: Resident | None = None,
    reserved: int = 0,
    overcommit: int = 0,
) -> Snapshot:
    """Node 1 has 16 pages of 2 MiB; `promised`, `held` by the promised container, `eaten` by a Burstable one: pages."""
    table = MemoryTable(
        32 * MIB, 0, 32 * MIB, promised * 2 * MIB, (16 - promised) * 2 * MIB if map_free is None else map_free * 2 * MIB
    )
    nothing = MemoryTable(0, 0, 0, 0, 0)
    memory = MemoryTable(GIB, 0, GIB, 0, GIB)
    state = {
        0: NUMANodeState(0, {"memory": memory, TWO_MIB: nothing}, (0,)),
        1: NUMANodeState(1 if promised else 0, {"memory": memory, TWO_MIB: table}, (1,)),
    }
    promise = Promise(memory=(Block.of(TWO_MIB, promised * 2 * MIB, NodeSet.of(1)),) if promised else ())
    return Snapshot(
        taken_at=1.0,
        machine=Machine((Node(0), Node(1))),
        cgroup_mode="v2",
        containers=(
            Container(PROMISED, "/p", "container", pod_uid="u", namespace="ns", pod="db", name="app"),
            Container(BURSTABLE, "/b", "container", pod_uid="v", namespace="ns", pod="eater", name="app"),
        ),
        residency={
            PROMISED: resident or _resident(held),
            BURSTABLE: _resident(eaten),
        },
        nodes=(
            NodeMemory(0, GIB, GIB, Resident(), (HugePages(2 * MIB, 0, 0, 0),)),
            NodeMemory(1, GIB, GIB, Resident(), (HugePages(2 * MIB, 16, free, 0),)),
        ),
        huge_page_pools=(HugePagePool(2 * MIB, reserved, overcommit),),
        intent=Intent(
            containers=(
                ContainerIntent("u", "app", "ns", "db", cgroups=(int(PROMISED),), promise=promise),
                ContainerIntent("v", "app", "ns", "eater", cgroups=(int(BURSTABLE),), promise=Promise(memory=())),
            ),
            machine=state,
        ),
    )


def _resident(pages: int, size: int = 2 * MIB) -> Resident:
    return Resident(anon={0: 0, 1: 0}, hugetlb={0: 0, 1: pages * size}, huge_pages={size: {0: 0, 1: pages * size}})


def short(of: Snapshot) -> list[Finding]:
    return [one for one in find(of) if one.name == "hugepages-short"]


def test_a_pool_that_nobody_else_uses_is_not_short() -> None:
    assert short(snapshot(free=16)) == []
    assert short(snapshot(free=12, promised=8, held=4)) == []


def test_pages_that_a_burstable_pod_took_are_short_and_it_is_named() -> None:
    (found,) = short(snapshot(free=2, eaten=14))
    assert found.numa_nodes == NodeSet.of(1)
    assert found.message == (
        "the memory map would admit 32Mi more of hugepages-2Mi on node 1, but the kernel can give 4Mi: 4Mi are free "
        "there; used there without a promise by ns/eater/app (28Mi)"
    )


def test_a_container_that_uses_pages_of_another_node_than_its_promised_one_is_named_too() -> None:
    """Its promise is of node 1, and it used a page of node 0."""
    there = snapshot(free=12, promised=8, held=4)
    stray = {2 * MIB: {0: 2 * MIB, 1: 8 * MIB}}
    resident = Resident(anon={0: 0, 1: 0}, hugetlb=stray[2 * MIB], huge_pages=stray)
    with_pool = NodeMemory(0, GIB, GIB, Resident(), (HugePages(2 * MIB, 4, 3, 0),))
    assert there.intent is not None
    assert there.intent.machine is not None
    full = MemoryTable(8 * MIB, 0, 8 * MIB, 0, 8 * MIB)
    of_node = there.intent.machine[0]
    machine = {**there.intent.machine, 0: replace(of_node, memory_map={**of_node.memory_map, TWO_MIB: full})}
    there = replace(
        _with_nodes(there, (with_pool, there.nodes[1])),
        residency={**there.residency, PROMISED: resident},
        intent=replace(there.intent, machine=machine),
    )
    (found,) = short(there)
    assert found.numa_nodes == NodeSet.of(0)
    assert found.message.endswith("6Mi are free there; used there without a promise by ns/db/app (2Mi)")
    (of_size,) = huge_pages_of(there)
    assert [others(of_size, node, there) for node in (0, 1)] == [2 * MIB, 0]


def test_free_pages_that_a_promise_has_not_used_yet_are_not_left_for_others() -> None:
    (found,) = short(snapshot(free=10, promised=8, held=2, eaten=4))
    assert "the memory map would admit 16Mi more" in found.message
    assert "the kernel can give 8Mi: 20Mi are free there, and containers were promised 12Mi of them" in found.message


def test_what_processes_have_reserved_is_not_left_either() -> None:
    (found,) = short(snapshot(free=16, reserved=10))
    assert "the kernel can give 12Mi: 32Mi are free there, and processes have reserved 20Mi" in found.message


def test_a_reservation_of_a_promised_container_counts_once() -> None:
    assert short(snapshot(free=16, promised=8, reserved=8)) == []


def test_surplus_pages_may_help_and_the_finding_says_so() -> None:
    (found,) = short(snapshot(free=2, eaten=14, overcommit=4))
    assert "it may make up to 8Mi of surplus pages" in found.message


def test_a_promise_of_2_mib_pages_is_not_kept_by_pages_of_1_gib() -> None:
    (of_size,) = huge_pages_of(snapshot(free=16, promised=8, resident=_resident(1, GIB)))
    assert [(one.held, one.unclaimed) for one in of_size.claims] == [(0, 16 * MIB)]


@pytest.mark.parametrize("resident", [Resident(anon={1: 5}), Resident(anon={1: 5}, hugetlb={1: 2 * MIB})])
def test_where_a_promised_container_cannot_be_read_by_size_nothing_is_said(resident: Resident) -> None:
    there = snapshot(free=2, promised=8, resident=resident)
    (of_size,) = huge_pages_of(there)
    assert of_size.room.left(NodeSet.of(1)) is None
    assert others(of_size, 1, there) is None
    assert short(there) == []


def test_where_the_kernel_does_not_say_what_is_free_nothing_is_said() -> None:
    assert short(snapshot(free=None)) == []


def test_a_node_with_memory_that_hides_its_pool_is_not_taken_for_one_without_pages() -> None:
    there = snapshot(free=16)
    there = _with_nodes(there, (NodeMemory(0, GIB, GIB, Resident()), there.nodes[1]))
    (of_size,) = huge_pages_of(there)
    assert of_size.room.left(NodeSet.of(0)) is None
    assert of_size.room.left(NodeSet.of(1)) == 32 * MIB


def test_a_node_without_memory_has_no_pages() -> None:
    there = snapshot(free=16)
    (of_size,) = huge_pages_of(_with_nodes(there, (NodeMemory(0, None, None, Resident()), there.nodes[1])))
    assert of_size.room.left(NodeSet.of(0)) == 0


def _with_nodes(there: Snapshot, nodes: tuple[NodeMemory, ...]) -> Snapshot:
    return replace(there, nodes=nodes)


def test_nobody_elses_pages_are_those_that_no_promise_of_their_size_covers() -> None:
    there = snapshot(free=2, promised=8, held=4, eaten=10)
    (of_size,) = huge_pages_of(there)
    assert others(of_size, 1, there) == 20 * MIB


def risks(of: Snapshot) -> list[Finding]:
    return [one for one in find(of) if one.name == "oom-risk"]


def test_promised_huge_pages_that_the_pool_does_not_have_are_an_oom_risk() -> None:
    (found,) = risks(snapshot(free=2, promised=8, held=2, eaten=12))
    assert (found.pod, found.container, found.numa_nodes) == ("db", "app", NodeSet.of(1))
    assert found.message == (
        "12Mi of its promised hugepages-2Mi are not used yet; all promises on node 1 may still claim 12Mi, but only "
        "4Mi are free in the kernel's pool there: its mmap(2) or first touch would fail"
    )


def test_promised_huge_pages_that_the_pool_has_or_whose_use_is_not_known_are_no_oom_risk() -> None:
    assert risks(snapshot(free=6, promised=8, held=2, eaten=8)) == []
    assert risks(snapshot(free=0, promised=8, held=8, eaten=8)) == []
    assert risks(snapshot(free=2, promised=8, resident=Resident(anon={1: 5}))) == []
    assert risks(snapshot(free=None, promised=8)) == []


def test_huge_pages_of_another_size_do_not_keep_a_promise() -> None:
    (found,) = risks(snapshot(free=7, promised=8, resident=_resident(1, GIB)))
    assert "16Mi of its promised hugepages-2Mi are not used yet" in found.message
