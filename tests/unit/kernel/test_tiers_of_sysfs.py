"""Memory tiers, the firmware's figures and swap as sysfs shows them, and where the kernel demotes to."""

from __future__ import annotations

import shutil
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixture_trees import FIXTURES
from numaudit.errors import ParseError
from numaudit.kernel.host import Host, read_bytes
from numaudit.kernel.memory.tiers import (
    demotion_file,
    folder,
    limit_of,
    parse_limit,
    parse_swap,
    read,
    read_settings,
    read_speed,
)
from numaudit.kernel.node import MachineNow, read_machine
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.tiers import MemorySpeed, MemoryTier, MemoryTiers, TierSettings, in_words

TIERED = Host.under(FIXTURES / "tiered")
GIB = 1 << 30


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _tier(host: Host, name: str, nodes: str) -> None:
    _write(folder(host) / name / "nodelist", nodes)


def test_tiers_come_by_number_and_not_by_name(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for name, nodes in (("memory_tier135", "2-3\n"), ("memory_tier22", "4\n"), ("memory_tier4", "0-1\n")):
        _tier(host, name, nodes)
    found = read(host)
    assert found is not None
    assert [(tier.id, str(tier.nodes)) for tier in found.tiers] == [(4, "0-1"), (22, "4"), (135, "2-3")]
    assert found.are_several


def test_an_old_kernel_shows_no_tiers_and_no_switch(tmp_path: Path) -> None:
    assert read(Host(tmp_path)) is None
    assert read_settings(Host(tmp_path)) == TierSettings()
    assert read_speed(tmp_path) is None


def test_other_entries_and_tiers_without_nodes_are_no_tiers(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for name in ("power", "memory_tier", "memory_tierX", "memory_tier1234567890", "memory_tier4.old"):
        _tier(host, name, "7\n")
    (folder(host) / "memory_tier9").mkdir()
    _tier(host, "memory_tier10", "\n")
    assert read(host) is None
    _tier(host, "memory_tier4", "0\n")
    assert read(host) == MemoryTiers((MemoryTier(4, NodeSet.of(0)),))


@pytest.mark.parametrize("nodes", ["0-", "1-0", "nodes", "99999999999", "0-1\n2", "\0", "-1", "0x1"])
def test_tiers_of_which_one_is_broken_are_not_known(tmp_path: Path, nodes: str) -> None:
    """Half of them would call a slow node fast."""
    host = Host(tmp_path)
    _tier(host, "memory_tier4", "0-1\n")
    _tier(host, "memory_tier135", nodes)
    assert read(host) is None


def test_a_node_in_two_tiers_is_one_that_moves_now_so_they_are_not_known(tmp_path: Path) -> None:
    host = Host(tmp_path)
    _tier(host, "memory_tier4", "0-2\n")
    _tier(host, "memory_tier22", "2\n")
    assert read(host) is None


@pytest.mark.parametrize(
    ("text", "on"), [("true\n", True), ("false\n", False), ("1", True), ("0", False), ("", None), ("yes", None)]
)
def test_the_switch_is_what_the_kernel_prints(tmp_path: Path, text: str, on: bool | None) -> None:
    host = Host(tmp_path)
    _write(demotion_file(host), text)
    assert read_settings(host).demotion is on


@pytest.mark.parametrize(("text", "mode"), [("2\n", 2), ("3\n", 3), ("-1\n", None), ("9999999999\n", None), ("", None)])
def test_a_mode_that_is_no_number_is_not_known(tmp_path: Path, text: str, mode: int | None) -> None:
    _write(tmp_path / "proc/sys/kernel/numa_balancing", text)
    assert read_settings(Host(tmp_path)).numa_balancing == mode


def test_figures_for_cpus_come_before_those_for_any_initiator(tmp_path: Path) -> None:
    for one, latency, node in (("access0", "90", "node5"), ("access1", "600", "node0")):
        _write(tmp_path / one / "initiators/read_latency", f"{latency}\n")
        (tmp_path / one / "initiators" / node).mkdir()
    assert read_speed(tmp_path) == MemorySpeed(NodeSet.of(0), read_latency_nanoseconds=600)
    (tmp_path / "access1/initiators/read_latency").unlink()
    assert read_speed(tmp_path) == MemorySpeed(NodeSet.of(5), read_latency_nanoseconds=90)


@pytest.mark.parametrize("text", ["0\n", "", "-5\n", "fast\n", "12345678901\n", "6 00\n"])
def test_a_figure_that_the_firmware_left_out_is_not_known(tmp_path: Path, text: str) -> None:
    for name in ("read_latency", "write_bandwidth"):
        _write(tmp_path / "access1/initiators" / name, text)
    assert read_speed(tmp_path) is None
    _write(tmp_path / "access1/initiators/read_bandwidth", "4096\n")
    assert read_speed(tmp_path) == MemorySpeed(NodeSet(), read_bytes_per_second=4 * GIB)


def test_a_machine_has_its_tiers_and_the_speed_of_its_nodes() -> None:
    machine = read_machine(TIERED)
    assert machine.tiers == MemoryTiers((MemoryTier(4, NodeSet.of(0, 1)), MemoryTier(135, NodeSet.of(2, 3))))
    assert machine.by_id[3].speed == MemorySpeed(NodeSet.of(1), 600, 600, 4 * GIB, 4 * GIB)
    assert read_settings(TIERED) == TierSettings(demotion=True, numa_balancing=2)


def test_a_node_that_gets_into_another_tier_is_seen_there_in_the_next_tick(tmp_path: Path) -> None:
    host = Host.under(shutil.copytree(FIXTURES / "tiered", tmp_path / "tree"))
    now = MachineNow.of(host)
    _tier(host, "memory_tier135", "2\n")
    _tier(host, "memory_tier200", "3\n")
    tiers = now.read().tiers
    assert tiers is not None
    assert [tier.id for tier in tiers.tiers] == [4, 135, 200]


@given(lists=st.dictionaries(st.integers(0, 300), st.text("0123456789-,\n x", max_size=8), max_size=4))
def test_any_tree_of_tiers_is_read_whole_or_not_at_all(
    lists: dict[int, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    host = Host(tmp_path_factory.mktemp("tiers"))
    for tier, nodes in lists.items():
        _tier(host, f"memory_tier{tier}", nodes)
    found = read(host)
    if found is not None:
        assert [tier.id for tier in found.tiers] == sorted({*lists} & {tier.id for tier in found.tiers})
        assert {tier for tier, nodes in lists.items() if nodes.strip()} == {tier.id for tier in found.tiers}


_MEMINFO = "MemTotal:       16 kB\nSwapCached:       1 kB\nSwapTotal:     8192 kB\nSwapFree:      4096 kB\n"


def test_swap_is_in_bytes() -> None:
    assert parse_swap(_MEMINFO) == (8 << 20, 4 << 20)


@pytest.mark.parametrize("text", ["", "SwapTotal:     8192 kB\n", "SwapTotal: -1 kB\nSwapFree: 4 kB\n"])
def test_a_text_without_both_lines_says_nothing(text: str) -> None:
    assert parse_swap(text) is None


def test_a_limit_is_a_number_or_none() -> None:
    assert parse_limit("max\n") is None
    assert parse_limit("0\n") == 0
    assert parse_limit("9" * 20) == 10**20 - 1
    with pytest.raises(ParseError):
        parse_limit("9" * 21)


@given(st.text(string.printable))
def test_any_limit_is_a_number_none_or_an_error(text: str) -> None:
    try:
        found = parse_limit(text)
    except ParseError:
        return
    assert found is None or found >= 0


@given(st.text(st.sampled_from("Swap:TotalFre 0123456789kB\n")))
def test_any_meminfo_gives_two_amounts_or_nothing(text: str) -> None:
    found = parse_swap(text)
    assert found is None or min(found) >= 0


def _groups(root: Path, **limits: str) -> Path:
    for path, limit in limits.items():
        folder = root / path.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.swap.max").write_text(f"{limit}\n")
    return root


def test_the_least_limit_of_a_group_and_those_above_it_holds(tmp_path: Path) -> None:
    root = str(_groups(tmp_path, a="max", a__b="4096", a__b__c="8192", d="max"))
    assert limit_of(root, "/a/b/c", read_bytes) == 4096
    assert limit_of(root, "/d", read_bytes) is None
    assert limit_of(root, "", read_bytes) is None


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
