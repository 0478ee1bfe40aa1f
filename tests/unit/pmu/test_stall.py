"""What remote accesses cost at most, by what is known of the machine's latencies."""

from __future__ import annotations

import pytest

from numaudit.pmu.families import PublishedLatency, families
from numaudit.pmu.stall import ASSUMED_LOCAL_NS, ASSUMED_RATIO, Bounds, LatencyTable, penalty, stall

SPR = next(family.latency for family in families() if family.id == "intel_spr")
HSX = next(family.latency for family in families() if family.id == "intel_hsx")
FOUR_NODES = LatencyTable(
    {(cpu, memory): 80.0 + 20.0 * abs(cpu - memory) for cpu in range(4) for memory in range(4)}, "measured here"
)


def test_ten_million_remote_loads_a_second_cost_0_81_seconds_a_second_on_sapphire_rapids() -> None:
    found = stall({0: 10e6}, penalty((0, 1), latency=SPR))
    assert found is not None
    assert (found.origin, found.share) == ("published", None)
    assert found.rate.low == found.rate.high == pytest.approx(0.81)


def test_what_was_measured_here_comes_before_what_is_published() -> None:
    table = LatencyTable({(0, 0): 90.0, (0, 1): 150.0, (1, 1): 100.0, (1, 0): 130.0}, "measured here")
    cost = penalty((0, 1), table, SPR)
    assert cost.origin == "calibrated"
    assert cost.by_cpu_node == {0: Bounds(60.0, 60.0), 1: Bounds(30.0, 30.0)}
    found = stall({0: 1e6, 1: 2e6}, cost)
    assert found is not None
    assert found.rate.high == pytest.approx(0.06 + 0.06)


def test_of_several_other_nodes_the_nearest_and_the_farthest_are_the_bounds() -> None:
    cost = penalty(range(4), FOUR_NODES)
    assert cost.by_cpu_node == {0: Bounds(20, 60), 1: Bounds(20, 40), 2: Bounds(20, 40), 3: Bounds(20, 60)}
    found = stall({0: 1e6}, cost)
    assert found is not None
    assert found.rate.low == pytest.approx(0.02)
    assert found.rate.high == pytest.approx(0.06)


def test_a_measurement_that_lacks_a_node_is_not_mixed_with_constants() -> None:
    lacking = LatencyTable({(0, 0): 90.0, (0, 1): 150.0}, "measured here")
    assert penalty((0, 1), lacking, SPR).origin == "published"
    assert penalty((0,), lacking, SPR).origin == "calibrated"


def test_a_constant_in_cycles_needs_the_clock() -> None:
    assert HSX is not None
    assert HSX.unit == "cycles"
    assert penalty((0, 1), latency=HSX).origin == "ratio"
    cost = penalty((0, 1), latency=HSX, hertz=2.5e9)
    assert (cost.origin, cost.by_cpu_node[0]) == ("published", Bounds(44.0, 44.0))


def test_of_an_unknown_cpu_wide_bounds_are_assumed() -> None:
    cost = penalty((0, 1))
    assert cost.origin == "ratio"
    assert cost.by_cpu_node[0].low == pytest.approx(30.0)
    assert cost.by_cpu_node[0].high == pytest.approx(160.0)


def test_every_published_latency_lies_within_what_is_assumed_of_unknown_cpus() -> None:
    known = [family.latency for family in families() if family.latency is not None]
    bounds = penalty((0,)).by_cpu_node[0]
    in_ns = [one for one in known if one.unit == "ns"]
    assert len(in_ns) == 5
    for one in in_ns:
        assert bounds.low <= one.remote - one.local <= bounds.high
    assert ASSUMED_LOCAL_NS[0] < ASSUMED_LOCAL_NS[1]
    assert ASSUMED_RATIO[0] < ASSUMED_RATIO[1]


def test_a_stall_is_no_longer_than_the_cpu_time() -> None:
    cost = penalty((0, 1), latency=SPR)
    found = stall({0: 100e6}, cost, cpu_rate=2.0)
    assert found is not None
    assert (found.rate, found.share) == (Bounds(2.0, 2.0), Bounds(1.0, 1.0))
    half = stall({0: 10e6}, cost, cpu_rate=1.62)
    assert half is not None
    assert half.share is not None
    assert half.share.high == pytest.approx(0.5)


def test_a_container_that_did_not_run_has_no_share() -> None:
    found = stall({}, penalty((0, 1), latency=SPR), cpu_rate=0.0)
    assert found is not None
    assert (found.rate, found.share) == (Bounds(0.0, 0.0), None)


def test_a_node_without_a_latency_has_no_cost() -> None:
    assert stall({7: 1.0}, penalty((0, 1), latency=SPR)) is None
    assert stall({7: 0.0, 0: 1e6}, penalty((0, 1), latency=SPR)) is not None


def test_lines_of_a_remote_cache_cost_by_their_own_latency() -> None:
    found = stall({0: 0.0}, penalty((0, 1), latency=SPR), remote_cache={0: 1e6})
    assert found is not None
    assert found.rate.low == pytest.approx(0.061) == found.rate.high


def test_a_remote_node_that_is_nearer_than_the_own_costs_nothing() -> None:
    table = LatencyTable({(0, 0): 100.0, (0, 1): 90.0}, "measured here")
    assert penalty((0,), table).by_cpu_node[0] == Bounds(0.0, 0.0)


def test_a_cache_as_fast_as_memory_costs_nothing() -> None:
    cost = penalty((0,), latency=PublishedLatency("ns", 100.0, 150.0, 80.0, "made up"))
    assert cost.remote_cache == 0.0
