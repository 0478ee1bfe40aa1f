"""Memory that full nodes can give up: to swap and to slower nodes; and oom-risk, which counts with it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.findings import Finding, find
from numaudit.evaluation.findings.memory_short import movable_from
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Allowed, ContainerId, NodeMemory, Resident, Snapshot, Swap
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemoryTier, MemoryTiers, TierSettings

GIB = 1 << 30
DB, EATER = ContainerId(7), ContainerId(8)
FAST = NodeSet.of(0)
_NODES = (Node(0, CpuSet.parse("0-3")), Node(2))
ONE_TIER = Machine(_NODES)
TWO_TIERS = Machine(_NODES, tiers=MemoryTiers((MemoryTier(4, FAST), MemoryTier(22, NodeSet.of(2)))))
NO_SWAP = Swap(0, 0)
DEMOTES = TierSettings(demotion=True, keeps_cpuset=False)


def snapshot(
    swap: Swap | None = NO_SWAP,
    machine: Machine = ONE_TIER,
    tiers: TierSettings | None = None,
    locked: int = 0,
    slow_free: int = 8 * GIB,
) -> Snapshot:
    """Node 0 has 8 GiB: DB was promised 4 and uses 1, EATER uses 5, and 1 is free: 2 are lacking."""
    promise = Promise((Block.of("memory", 4 * GIB, FAST),))
    held = Resident(anon={0: 6 * GIB}, shmem={0: 0})
    return Snapshot(
        taken_at=0.0,
        machine=machine,
        cgroup_mode="v2",
        residency={DB: Resident(anon={0: GIB}), EATER: Resident(anon={0: 5 * GIB})},
        allowed={DB: Allowed(FAST, None), EATER: Allowed(NodeSet.of(0, 2), None)},
        nodes=(
            NodeMemory(0, 8 * GIB, GIB, held, reclaimable=0, unevictable=locked),
            NodeMemory(2, 8 * GIB, slow_free, Resident(), reclaimable=0, unevictable=0),
        ),
        intent=Intent((ContainerIntent("uid", "db", cgroups=(DB,), promise=promise),)),
        swap=swap,
        tiers=tiers,
    )


def swap(free: int, eater: int | None = None) -> Swap:
    return Swap(16 * GIB, free, {DB: 0, EATER: eater})


def risk(of: Snapshot) -> Finding | None:
    return next((one for one in find(of) if one.name == "oom-risk"), None)


@pytest.mark.parametrize(
    ("taken", "why"),
    [
        (snapshot(), "there is no swap and there is no slower memory"),
        (snapshot(None), "it is not known whether there is swap and there is no slower memory"),
        (snapshot(swap(0)), "swap is full and there is no slower memory"),
        (snapshot(swap(GIB, 0)), "no cgroup there may use swap (memory.swap.max) and there is no slower memory"),
        (snapshot(machine=TWO_TIERS, tiers=TierSettings(demotion=False)), "there is no swap and demotion is off"),
        (snapshot(machine=TWO_TIERS, tiers=DEMOTES, slow_free=0), "there is no swap and the slower node 2 is full"),
    ],
)
def test_memory_that_can_go_nowhere_is_in_the_sentence_with_its_reasons(taken: Snapshot, why: str) -> None:
    found = risk(taken)
    assert found is not None
    assert found.message == (
        "3Gi of its promised memory is not resident yet; all promises on node 0 may still claim 3Gi, but only 1Gi are "
        f"free or reclaimable there; 6Gi of anon and shmem there cannot be moved away: {why}"
    )


def test_swap_and_slower_memory_that_hold_too_little_are_named_with_their_figures() -> None:
    found = risk(snapshot(swap(GIB), TWO_TIERS, DEMOTES, slow_free=GIB // 2))
    assert found is not None
    assert found.message.endswith(
        "; of the 6Gi of anon and shmem there at most 1.5Gi can be moved away (1Gi to swap, 512Mi to the slower node 2)"
    )


def test_locked_memory_stays_whatever_swap_there_is() -> None:
    assert risk(snapshot(swap(8 * GIB))) is None
    found = risk(snapshot(swap(8 * GIB), locked=5 * GIB))
    assert found is not None
    assert "at most 1Gi can be moved away (5Gi to swap); 5Gi there are locked" in found.message
    found = risk(snapshot(swap(8 * GIB), locked=6 * GIB))
    assert found is not None
    assert found.message.endswith(
        "6Gi of anon and shmem there cannot be moved away: there is no slower memory; 6Gi there are locked"
    )


@pytest.mark.parametrize(
    "taken",
    [
        snapshot(swap(2 * GIB)),
        snapshot(swap(8 * GIB, 2 * GIB)),
        snapshot(machine=TWO_TIERS, tiers=DEMOTES),
        snapshot(swap(GIB), TWO_TIERS, DEMOTES, slow_free=GIB),
    ],
)
def test_where_enough_can_be_swapped_or_demoted_nothing_must_be_killed(taken: Snapshot) -> None:
    assert risk(taken) is None


def test_a_limit_on_swap_bounds_what_its_container_can_give_up() -> None:
    assert movable_from(FAST, snapshot(swap(8 * GIB, GIB))).to_swap == GIB
    assert movable_from(FAST, snapshot(swap(8 * GIB))).to_swap == 5 * GIB
    assert movable_from(FAST, snapshot(swap(2 * GIB))).to_swap == 2 * GIB


def test_processes_of_the_root_cgroup_have_no_limit() -> None:
    of_root = replace(snapshot(swap(8 * GIB, 0)), unattributed=Resident(anon={0: GIB, 2: GIB}))
    assert movable_from(FAST, of_root).to_swap == GIB


def test_a_kernel_that_keeps_to_the_cpuset_demotes_only_what_may_be_there() -> None:
    keeps = replace(DEMOTES, keeps_cpuset=True)
    assert movable_from(FAST, snapshot(machine=TWO_TIERS, tiers=keeps)).to_slower == 5 * GIB
    assert movable_from(FAST, snapshot(machine=TWO_TIERS, tiers=DEMOTES)).to_slower == 6 * GIB
    narrow = replace(snapshot(machine=TWO_TIERS, tiers=keeps), allowed={EATER: Allowed(FAST, None)})
    assert "cpuset.mems allows nothing there the slower node 2" in movable_from(FAST, narrow).in_words


def test_nothing_is_said_of_memory_that_is_not_there() -> None:
    empty = replace(snapshot(), nodes=(NodeMemory(0, 8 * GIB, GIB, Resident()),))
    assert movable_from(FAST, empty).in_words == ""
