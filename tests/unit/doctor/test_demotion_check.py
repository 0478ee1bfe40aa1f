"""The self-test of demotion: when it passes, and where it is not tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from fixture_trees import FIXTURES
from numaudit.doctor.demotion import DemotedMemory, check_demotion
from numaudit.doctor.near_and_far import Worker
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine

MIB = 1 << 20
TIERED = Host.under(FIXTURES / "tiered")
V2 = Hierarchies("v2", Path("/c"), Path("/c"), Path("/c"), Path("/c"))


def _worker(node: int | None) -> Worker:
    """On this node; no check comes as far as to use it."""
    return Worker("near", cast("Any", None), cast("Any", None), node, node)


def test_bytes_and_counters_must_agree_with_the_page_table() -> None:
    assert DemotedMemory(16 * MIB, 0, 16 * MIB, 17 * MIB, 17 * MIB).state == "passed"
    assert DemotedMemory(16 * MIB, 0, 16 * MIB, 16 * MIB, None).state == "passed"
    assert DemotedMemory(16 * MIB, 0, 0, 0, 16 * MIB).state == "failed"
    assert DemotedMemory(16 * MIB, 0, 16 * MIB, 16 * MIB, 0).state == "failed"
    assert DemotedMemory(16 * MIB, 0, 16 * MIB, 16 * MIB, 32 * MIB).state == "failed"


def test_copies_of_mapped_files_may_be_anonymous_too() -> None:
    assert DemotedMemory(16 * MIB, 2 * MIB, 18 * MIB, 18 * MIB, 18 * MIB).state == "passed"
    assert DemotedMemory(16 * MIB, 2 * MIB, 16 * MIB, 18 * MIB, 18 * MIB).state == "passed"
    assert DemotedMemory(16 * MIB, 0, 18 * MIB, 18 * MIB, 18 * MIB).state == "failed"
    assert DemotedMemory(16 * MIB, 2 * MIB, 14 * MIB, 18 * MIB, 18 * MIB).state == "failed"


def test_where_the_kernel_moves_nothing_the_check_is_inconclusive() -> None:
    found = DemotedMemory(0, 0, 0, 0, 0).result
    assert (found.state, found.seen) == ("inconclusive", "the kernel moved no memory when it was asked to")


def test_a_result_names_all_figures() -> None:
    found = DemotedMemory(16 * MIB, MIB, 16 * MIB, 17 * MIB, 17 * MIB).result
    assert found.expected == "16.0 MiB on slower nodes, by the page table, and copies of at most 1.0 MiB of files"
    assert found.seen == "16.0 MiB of anon there and 1.0 MiB of files; 17.0 MiB counted"
    assert DemotedMemory(2 * MIB, 0, 2 * MIB, 2 * MIB, None).result.seen.endswith("does not count by cgroup")


def test_with_one_tier_there_is_nothing_to_test() -> None:
    machine = replace(read_machine(TIERED), tiers=None)
    with pytest.raises(Unavailable, match="there is one memory tier, so there is nothing to test"):
        check_demotion(TIERED, machine, V2, _worker(0))


def test_with_demotion_off_there_is_nothing_to_test(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    with pytest.raises(Unavailable, match="demotion is off"):
        check_demotion(Host.under(tmp_path), read_machine(TIERED), V2, _worker(0))


def test_memory_that_cannot_be_placed_or_is_in_the_slowest_tier_is_not_tried() -> None:
    machine = read_machine(TIERED)
    with pytest.raises(Unavailable, match="no controllers of cgroup version 2"):
        check_demotion(TIERED, machine, V2, _worker(None))
    with pytest.raises(Unavailable, match="node 2 is in the slowest tier"):
        check_demotion(TIERED, machine, V2, _worker(2))
