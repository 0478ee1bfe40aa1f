"""What counted remote accesses cost a container at most."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from numaudit.evaluation.access import StalledOnNode, remote_stall
from numaudit.pmu.stall import Bounds, LatencyTable, Penalty, penalty
from numaudit.snapshot import Container, ContainerId, Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses, Locality
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

WEB = Container(ContainerId(7), "/web", "group")
GIB = 1 << 30
TWO = Machine(tuple(Node(node, CpuSet.of(node), memory=GIB) for node in range(2)))
FOUR = Machine(tuple(Node(node, CpuSet.of(node), memory=GIB) for node in range(4)))
HERE = LatencyTable(
    {(0, 0): 80.0, (0, 1): 130.0, (1, 1): 80.0, (1, 0): 180.0}, "numaudit doctor --calibrate, 2026-01-02"
)
COST = penalty((0, 1), HERE)
BASIS = CountBasis("offcore_reads", "lines", includes_prefetch=True)


def tick(remote: Mapping[int, int], taken_at: float = 0.0, ran: float | None = 1.0, cost: Penalty = COST) -> Snapshot:
    """One million local accesses on node 0, and these remote ones by the CPU's node."""
    by_node: dict[tuple[int, Locality], int] = {(0, "local"): 1_000_000}
    by_node |= {(node, "remote"): count for node, count in remote.items()}
    counted = CountedAccesses(BASIS, by_node, enabled_ns=1, running_ns=1)
    cpu_time = None if ran is None else {WEB.id: {0: ran}}
    return Snapshot(taken_at, TWO, "v2", (WEB,), cpu_time=cpu_time, pmu={WEB.id: counted}, penalty=cost)


def test_each_remote_access_costs_by_how_much_remote_memory_is_slower() -> None:
    found = remote_stall(tick({0: 1_000_000, 1: 500_000}), WEB.id)
    assert found is not None
    assert (found.latency, found.latency_source) == ("calibrated", "numaudit doctor --calibrate, 2026-01-02")
    assert found.by_cpu_node == (StalledOnNode(0, 1, 0.05, 0.05), StalledOnNode(1, 0, 0.05, 0.05))
    assert found.seconds_low == found.seconds_high == pytest.approx(0.1)
    assert found.share_high == pytest.approx(0.1)
    assert found.rate_high is None


def test_the_rate_is_of_what_came_since_the_tick_before() -> None:
    before, now = tick({0: 1_000_000}, 100.0, ran=1.0), tick({0: 3_000_000}, 110.0, ran=2.0)
    found = remote_stall(now, WEB.id, before)
    assert found is not None
    assert found.seconds_high == pytest.approx(0.15)
    assert found.rate_high == pytest.approx(0.01)
    assert found.share_high == pytest.approx(0.1)


def test_no_container_waits_longer_than_it_ran() -> None:
    found = remote_stall(tick({0: 100_000_000}, ran=2.0), WEB.id)
    assert found is not None
    assert (found.share_low, found.share_high) == (1.0, 1.0)


def test_without_cpu_time_there_is_no_share() -> None:
    found = remote_stall(tick({0: 1_000_000}, ran=None), WEB.id)
    assert found is not None
    assert (found.share_low, found.share_high) == (None, None)
    assert found.seconds_high == pytest.approx(0.05)


def test_with_several_other_nodes_the_memory_s_node_is_not_known_and_there_are_two_bounds() -> None:
    cost = Penalty({node: Bounds(20.0, 60.0) for node in range(4)}, "calibrated", "here")
    found = remote_stall(replace(tick({2: 1_000_000}, cost=cost), machine=FOUR), WEB.id)
    assert found is not None
    assert found.by_cpu_node == (StalledOnNode(2, None, 0.02, 0.06),)
    assert found.seconds_low == pytest.approx(0.02)
    assert found.seconds_high == pytest.approx(0.06)


def test_a_container_that_uses_no_remote_memory_waits_for_none() -> None:
    found = remote_stall(tick({0: 0}), WEB.id)
    assert found is not None
    assert (found.seconds_high, found.share_high) == (0.0, 0.0)


def test_what_was_not_counted_costs_nothing_that_is_known() -> None:
    assert remote_stall(replace(tick({0: 1}), pmu=None), WEB.id) is None
    assert remote_stall(replace(tick({0: 1}), pmu={}), WEB.id) is None
    assert remote_stall(replace(tick({0: 1}), penalty=None), WEB.id) is None
    never_ran = CountedAccesses(BASIS, {}, enabled_ns=5, running_ns=0)
    assert remote_stall(replace(tick({0: 1}), pmu={WEB.id: never_ran}), WEB.id) is None


def test_a_node_whose_latency_is_not_known_gives_no_estimate() -> None:
    assert remote_stall(tick({5: 1_000_000}), WEB.id) is None
