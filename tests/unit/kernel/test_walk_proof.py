"""No column of a walk is used before it was seen to be right, and none after it was seen to be wrong."""

from __future__ import annotations

import pytest

from numaudit.kernel.memory.walk_proof import Contradiction, WalkProof

LATE = 1 << 20
MIB = 1 << 20


def _proof() -> WalkProof:
    return WalkProof(LATE)


def test_equal_cells_prove_the_columns_that_are_not_0() -> None:
    proof = _proof()
    rows = {"anon": {0: 5, 1: 0}, "shmem": {0: 0, 1: 0}}
    assert proof.is_equal(rows, rows)
    assert proof.proven == {"anon"}


def test_a_value_between_two_close_readings_proves_and_between_two_distant_ones_does_not() -> None:
    proof = _proof()
    proof.compare("/a", {"anon": {0: 100 * MIB}}, {"anon": {0: 105 * MIB}}, {"anon": {0: 110 * MIB}})
    proof.compare("/a", {"file": {0: 0}}, {"file": {0: 105 * MIB}}, {"file": {0: 110 * MIB}})
    assert proof.proven == {"anon"}


def test_a_value_as_far_off_as_the_kernel_may_be_late_neither_proves_nor_contradicts() -> None:
    proof = _proof()
    before = {"anon": {0: 50 * MIB}}
    assert not proof.is_equal(before, {"anon": {0: 51 * MIB}})
    proof.compare("/a", before, {"anon": {0: 51 * MIB}}, before)
    assert not proof.proven


@pytest.mark.parametrize("value", [0, 48 * MIB, 52 * MIB])
def test_a_value_further_off_is_a_contradiction_that_says_where(value: int) -> None:
    proof, file = _proof(), {"anon": {0: 0, 2: 50 * MIB}, "file": {0: 7, 2: 7}}
    with pytest.raises(Contradiction, match=f"{value} bytes in the row anon of node 2 of /kubepods"):
        proof.compare("/kubepods", file, {"file": {0: 7, 2: 7}, "anon": {0: 0, 2: value}}, file)
    assert not proof.proven


def test_columns_exchanged_with_each_other_contradict() -> None:
    file = {"anon": {0: 50 * MIB}, "file": {0: 9 * MIB}}
    with pytest.raises(Contradiction):
        _proof().compare("", file, {"anon": file["file"], "file": file["anon"]}, file)


def test_an_unproven_column_is_0_only_where_the_root_has_it_as_0_on_all_nodes() -> None:
    proof = _proof()
    proof.proven.add("anon")
    root = {"anon": {0: 0, 1: 0}, "shmem": {0: 0, 1: 0}, "file": {0: 0, 1: 4096}}
    assert proof.zeros(root) == {"shmem"}
    assert proof.unproven(root) == ["shmem", "file"]
