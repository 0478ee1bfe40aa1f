"""Memory tiers: what is below what, and where the kernel demotes to."""

from __future__ import annotations

import pytest

from numaudit.topology.nodeset import NodeSet
from numaudit.topology.tiers import MemoryTier, MemoryTiers, TierSettings, in_words

THREE = MemoryTiers(
    (
        MemoryTier(3, NodeSet.of(4)),
        MemoryTier(4, NodeSet.of(0, 1)),
        MemoryTier(135, NodeSet.of(2, 3)),
    )
)
ONE = MemoryTiers((MemoryTier(4, NodeSet.of(0, 1, 2)),))


def test_pages_move_to_every_slower_tier_and_to_no_equal_or_faster_one() -> None:
    assert THREE.below(NodeSet.of(4)) == NodeSet.of(0, 1, 2, 3)
    assert THREE.below(NodeSet.of(0)) == THREE.below(NodeSet.of(0, 2)) == NodeSet.of(2, 3)
    assert THREE.below(NodeSet.of(3)) == NodeSet()
    assert ONE.below(NodeSet.of(0)) == NodeSet()


def test_a_node_demotes_first_to_the_nearest_nodes_of_the_next_tier() -> None:
    assert THREE.demotion_targets(0, {0: 10, 1: 12, 2: 20, 3: 32}) == NodeSet.of(2)
    assert THREE.demotion_targets(1, {0: 12, 1: 10, 2: 32, 3: 20}) == NodeSet.of(3)
    assert THREE.demotion_targets(4, {0: 17, 1: 17, 2: 12, 3: 28, 4: 10}) == NodeSet.of(0, 1)
    assert THREE.demotion_targets(0, {}) == NodeSet.of(2, 3)
    assert THREE.demotion_targets(2, {3: 12}) == NodeSet()
    assert THREE.demotion_targets(9, {}) == NodeSet()
    assert ONE.demotion_targets(0, {1: 20, 2: 20}) == NodeSet()


def test_a_node_without_memory_is_in_no_tier() -> None:
    assert THREE.of(5) is None
    assert ONE.of(2) == ONE.tiers[0]


@pytest.mark.parametrize(
    ("mode", "words", "promotes"),
    [
        (None, "unknown", False),
        (0, "off", False),
        (1, "normal", False),
        (2, "memory tiering", True),
        (3, "normal, memory tiering", True),
        (4, "a mode without a name in mainline Linux", False),
    ],
)
def test_the_modes_of_numa_balancing_have_the_kernels_names(mode: int | None, words: str, promotes: bool) -> None:
    settings = TierSettings(numa_balancing=mode)
    assert settings.balancing_in_words == words
    assert settings.promotes is promotes


def test_one_tier_is_said_to_demote_nothing_whatever_the_switch() -> None:
    assert in_words(1, TierSettings(demotion=True)) == "one memory tier, so the kernel demotes nothing"
    assert in_words(2, TierSettings(True, 2)) == "2 memory tiers; demotion is on, NUMA balancing is memory tiering"
    assert "demotion is not possible" in in_words(2, TierSettings())
