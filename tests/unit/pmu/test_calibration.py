"""What rounds of measurements come to, and whether they stand for what they say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from numaudit.pmu.calibration import Fingerprint, PlacementEvidence, best_of, misplaced, notes_on
from numaudit.topology.machine import Machine, Node

_TWO = Machine((Node(0, distances={0: 10, 1: 21}), Node(1, distances={0: 21, 1: 10})))


def test_the_best_round_is_the_lowest_and_stable_when_the_best_three_agree() -> None:
    figure = best_of([150.0, 101.0, 100.0, 102.0], within=0.02)
    assert (figure.value, figure.rounds, figure.spread, figure.is_stable) == (100.0, 4, 0.02, True)
    assert not best_of([100.0, 101.0, 110.0], within=0.02).is_stable


def test_of_bandwidths_the_best_round_is_the_highest() -> None:
    assert best_of([50.0, 99.0, 100.0, 98.0], within=0.03, highest=True).value == 100.0


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=2))
def test_fewer_than_three_rounds_are_never_stable(values: list[float]) -> None:
    assert not best_of(values, within=1e9).is_stable


@given(st.lists(st.floats(1, 1e6), min_size=1), st.floats(1, 1e6))
def test_another_round_never_makes_a_latency_worse(values: list[float], another: float) -> None:
    assert best_of([*values, another], 0.02).value <= best_of(values, 0.02).value


def test_one_page_on_another_node_takes_the_measurement_away() -> None:
    evidence = PlacementEvidence({1: 511, 0: 1}, 0, (0,), 0)
    assert misplaced(evidence, 0, 1) == "of 512 pages that belong on node 1, 1 on node 0"


def test_pages_on_no_node_take_the_measurement_away() -> None:
    assert misplaced(PlacementEvidence({1: 500}, 12, (0,), 0), 0, 1) == "of 512 pages that belong on node 1, 12 on none"


def test_a_cpu_of_another_node_takes_the_measurement_away() -> None:
    assert misplaced(PlacementEvidence({1: 512}, 0, (0, 2), 0), 0, 1) == "it ran on CPUs of node 2, not of node 0"


def test_a_measurement_in_its_place_stands() -> None:
    assert misplaced(PlacementEvidence({1: 512}, 0, (0,), 0), 0, 1) is None


def test_equal_pairs_say_that_the_machine_has_no_far_memory() -> None:
    (note,) = notes_on({(0, 0): 100.0, (0, 1): 103.0, (1, 0): 101.0, (1, 1): 100.0})
    assert "equal within 5 %" in note


def test_a_remote_pair_that_is_faster_than_local_ones_is_suspect() -> None:
    (note,) = notes_on({(0, 0): 100.0, (0, 1): 60.0, (1, 0): 160.0, (1, 1): 100.0})
    assert "faster than every local one" in note


def test_one_node_has_no_figure_for_remote_memory() -> None:
    (note,) = notes_on({(0, 0): 100.0})
    assert "no figure for remote memory" in note


def test_a_machine_with_far_memory_needs_no_note() -> None:
    assert notes_on({(0, 0): 80.0, (0, 1): 130.0, (1, 0): 131.0, (1, 1): 81.0}) == ()


def test_a_machine_is_of_its_own_kind() -> None:
    kind = Fingerprint.of(_TWO, ["a CPU"])
    assert kind.differs_from(Fingerprint.of(_TWO, ["a CPU"])) is None


def test_another_cpu_other_nodes_and_other_distances_make_another_kind_of_machine() -> None:
    here = Fingerprint.of(_TWO, ["a CPU"])
    assert Fingerprint.of(_TWO, ["an old CPU"]).differs_from(here) == "its CPU is an old CPU, here it is a CPU"
    one = Machine((Node(0, distances={0: 10}),))
    assert Fingerprint.of(one, ["a CPU"]).differs_from(here) == "its nodes are 0, here they are 0-1"
    far = Machine((Node(0, distances={0: 10, 1: 40}), Node(1, distances={0: 40, 1: 10})))
    assert Fingerprint.of(far, ["a CPU"]).differs_from(here) == "its distances between nodes are not those here"
