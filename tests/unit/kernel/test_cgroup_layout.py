"""Where the kernel keeps a cgroup's memory by node: by the types of real kernels, and of such as are not known."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from made_btf import KERNELS, btf_of, described
from numaudit.errors import Unavailable
from numaudit.kernel.memory.cgroup_layout import CgroupLayout, KernelCounter, MaskLayout, cgroup_layout
from numaudit.kernel.tracing.btf import Btf

PAGE = 4096
Change = Callable[[dict[str, Any]], object]


def _layout(description: dict[str, Any]) -> CgroupLayout:
    return cgroup_layout(Btf(btf_of(description)), PAGE)


def test_linux_6_1_counts_by_its_enumeration_within_the_nodes_structure() -> None:
    found = _layout(described("6.1"))
    assert (found.counters_is_pointer, found.length) == (False, 43)
    assert (found.rows["anon"], found.rows["file"]) == (KernelCounter(17, PAGE), KernelCounter(19, PAGE))
    assert (found.rows["kernel_stack"], found.rows["slab_reclaimable"]) == (
        KernelCounter(37, 1024),
        KernelCounter(5, 1),
    )
    assert "hugetlb" not in found.rows


@pytest.mark.parametrize(("kernel", "length"), [("6.12", 31), ("6.12-arm64", 31), ("6.18", 33)])
def test_later_kernels_count_in_an_order_of_their_own_behind_a_pointer(kernel: str, length: int) -> None:
    found = _layout(described(kernel))
    assert (found.counters_is_pointer, found.length) == (True, length)
    indices = {row: counter.index for row, counter in found.rows.items() if row != "hugetlb"}
    assert indices == {
        "anon": 14, "file_mapped": 15, "file": 16, "shmem": 19, "kernel_stack": 23, "pagetables": 24,
        "sec_pagetables": 25, "slab_reclaimable": 5, "slab_unreclaimable": 6,
    }  # fmt: skip
    assert ("hugetlb" in found.rows) == (kernel == "6.18")


def test_the_mask_of_cpus_is_a_pointer_where_there_may_be_many_and_else_an_array_of_one() -> None:
    many, few = (_layout(described(kernel)).cpuset for kernel in ("6.12", "6.18"))
    assert many is not None
    assert few is not None
    assert (many.cpus, many.nodes) == (MaskLayout(352, True, 1024), MaskLayout(360, False, 128))
    assert few.cpus == MaskLayout(376, False, 32)


def _without(structure: str, member: str) -> Change:
    return lambda types: types["structs"][structure]["members"].pop(member)


def _as(structure: str, member: str, type_: object) -> Change:
    return lambda types: types["structs"][structure]["members"][member].update(type=type_)


def _moved(structure: str, member: str) -> Change:
    return lambda types: types["structs"][structure]["members"][member].update(at=8)


def _no_value(enumeration: str, name: str) -> Change:
    return lambda types: types["enums"][enumeration].pop(name)


NUMBER = {"int": 8}
CSS = {"pointer": {"struct": "cgroup_subsys_state", "size": 200}}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without("cgroup", "kn"), "no cgroup.kn"),
        (_without("cgroup", "subsys"), "no cgroup.subsys"),
        (_without("kernfs_node", "id"), "no kernfs_node.id"),
        (_without("mem_cgroup", "nodeinfo"), "no mem_cgroup.nodeinfo"),
        (_without("mem_cgroup", "css"), "no mem_cgroup.css"),
        (_without("mem_cgroup_per_node", "lruvec_stats"), "no mem_cgroup_per_node.lruvec_stats"),
        (_without("lruvec_stats", "state"), "no lruvec_stats.state"),
        (_as("cgroup", "kn", NUMBER), "cgroup.kn is of another type"),
        (_as("cgroup", "kn", {"pointer": "void"}), "cgroup.kn is of another type"),
        (_as("cgroup", "subsys", CSS), "cgroup.subsys is of another type"),
        (_as("cgroup", "subsys", {"array": NUMBER, "length": 14}), r"cgroup.subsys\[\] is of another type"),
        (_as("cgroup", "subsys", {"array": CSS, "length": 1}), "no memory_cgrp_id"),
        (_as("kernfs_node", "id", {"int": 4}), "kernfs_node.id is of another type"),
        (_as("kernfs_node", "id", {"struct": "kernfs_id", "size": 8}), "kernfs_node.id is of another type"),
        (_as("mem_cgroup", "css", CSS), "mem_cgroup.css is of another type"),
        (_moved("mem_cgroup", "css"), "mem_cgroup.css is of another type"),
        (_as("mem_cgroup", "nodeinfo", NUMBER), "mem_cgroup.nodeinfo is of another type"),
        (_as("mem_cgroup", "nodeinfo", {"array": CSS, "length": 0}), r"mem_cgroup.nodeinfo\[\] is of another type"),
        (_as("mem_cgroup_per_node", "lruvec_stats", NUMBER), "lruvec_stats is of another type"),
        (_as("mem_cgroup_per_node", "lruvec_stats", CSS), "lruvec_stats is of another type"),
        (_as("lruvec_stats", "state", {"array": {"int": 4}, "length": 43}), "lruvec_stats.state is of another type"),
        (_as("lruvec_stats", "state", {"array": NUMBER, "length": 0}), "lruvec_stats.state is of another type"),
        (_as("lruvec_stats", "state", {"array": NUMBER, "length": 34}), "has 34 counters"),
        (_no_value("node_stat_item", "NR_VM_NODE_STAT_ITEMS"), "no NR_VM_NODE_STAT_ITEMS"),
        (_no_value("cgroup_subsys_id", "memory_cgrp_id"), "no memory_cgrp_id"),
        (_without("cgroup_subsys_state", "flags"), "no cgroup_subsys_state.flags"),
        (_as("cgroup_subsys_state", "flags", NUMBER), "cgroup_subsys_state.flags is of another type"),
        (_no_value("", "CSS_VISIBLE"), "no CSS_VISIBLE"),
    ],
)
def test_a_type_that_is_gone_or_another_is_a_reason(kernel: str, change: Change, words: str) -> None:
    types = copy.deepcopy(described(kernel))
    change(types)
    with pytest.raises(Unavailable, match=words):
        _layout(types)


@pytest.mark.parametrize("kernel", ["6.12", "6.18"])
@pytest.mark.parametrize("item", ["NR_SWAPCACHE", "NR_ANON_THPS", "PGPROMOTE_SUCCESS"])
def test_an_order_that_does_not_come_out_as_long_as_the_kernels_is_not_used(kernel: str, item: str) -> None:
    types = copy.deepcopy(described(kernel))
    del types["enums"]["node_stat_item"][item]
    with pytest.raises(Unavailable, match="their order is not known"):
        _layout(types)


def test_a_kernel_that_does_not_name_what_every_cgroup_has_is_a_reason() -> None:
    types = copy.deepcopy(described("6.1"))
    del types["enums"]["node_stat_item"]["NR_SHMEM"]
    with pytest.raises(Unavailable, match="no NR_SHMEM"):
        _layout(types)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_controller_that_is_switched_on_has_a_flag(kernel: str) -> None:
    found = _layout(described(kernel))
    assert found.visible == 8
    assert found.flags in (76, 84)


@pytest.mark.parametrize("kernel", ["6.12", "6.18"])
def test_a_kernel_without_numa_balancing_counts_no_promoted_pages_in_between(kernel: str) -> None:
    types = copy.deepcopy(described(kernel))
    del types["enums"]["node_stat_item"]["PGPROMOTE_SUCCESS"]
    types["structs"]["lruvec_stats"]["members"]["state"]["type"]["length"] -= 1
    before, found = _layout(described(kernel)), _layout(types)
    for row, counter in found.rows.items():
        assert counter.index == before.rows[row].index - (row == "hugetlb")


@pytest.mark.parametrize(
    "change",
    [
        _without("cpuset", "effective_mems"),
        _without("cpuset", "css"),
        _as("cpuset", "effective_cpus", NUMBER),
        _as("cpuset", "effective_cpus", {"pointer": "void"}),
        _no_value("cgroup_subsys_id", "cpuset_cgrp_id"),
    ],
)
def test_a_cpuset_of_another_form_leaves_the_memory_as_it_is(change: Change) -> None:
    types = copy.deepcopy(described("6.12"))
    change(types)
    found = _layout(types)
    assert found.cpuset is None
    assert found.rows == _layout(described("6.12")).rows
