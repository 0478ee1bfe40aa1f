"""A promise of pages of 1 GiB is compared with pages of 1 GiB, not with bytes of all kinds."""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.huge_pages import HugePagesOfContainer, by_page_size
from numaudit.evaluation.verdicts import Verdict
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.snapshot import Allowed, Container, ContainerId, HugeBytes, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB, GIB = 1 << 20, 1 << 30
DB = ContainerId(7)
SMALL, LARGE = "hugepages-2Mi", "hugepages-1Gi"
_PROMISE = Promise((Block.of("memory", 400 * GIB, NodeSet.of(0)), Block.of(LARGE, 4 * GIB, NodeSet.of(0))))


def resident(anon: int, huge_pages: HugeBytes | None) -> Resident:
    sums = {0: 0, 1: 0}
    for by_node in (huge_pages or {}).values():
        sums = {node: sums[node] + by_node.get(node, 0) for node in sums}
    return Resident(anon={0: anon, 1: 0}, shmem={}, hugetlb=sums, huge_pages=huge_pages)


def verdict(of: Resident, promise: Promise = _PROMISE) -> Verdict:
    one = ContainerIntent("uid", "db", cgroups=(DB,), promise=promise)
    taken = Snapshot(
        taken_at=1.0,
        machine=Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7")))),
        cgroup_mode="v2",
        containers=(Container(DB, "/c", "container", qos="Guaranteed", pod_uid="uid", name="db"),),
        allowed={DB: Allowed(promise.memory_nodes, CpuSet.parse("0-3"))},
        residency={DB: of},
        intent=Intent(containers=(one,), config=KubeletConfig(memory_manager_policy="Static")),
    )
    return judge(replace(taken, taken_at=2.0), taken, judge(taken)).verdicts[DB]


def test_one_large_page_on_another_node_is_a_spill_however_small_a_share_of_the_container_it_is() -> None:
    found = verdict(resident(396 * GIB, {GIB: {0: 3 * GIB, 1: GIB}}))
    assert found.name == "spilled"
    assert found.reason == (
        "1Gi of its judged bytes are outside the promised node 0; among them 1Gi of its 4Gi of hugepages-1Gi"
    )


def test_as_much_ordinary_memory_on_another_node_is_none() -> None:
    spread = Resident(anon={0: 396 * GIB, 1: GIB}, shmem={}, hugetlb={0: 4 * GIB}, huge_pages={GIB: {0: 4 * GIB}})
    assert verdict(spread).name == "aligned"


def test_a_page_of_2_mib_that_strayed_is_less_than_the_limit_in_bytes_only_where_it_is_alone() -> None:
    assert verdict(resident(GIB, {2 * MIB: {0: 510 * MIB, 1: 2 * MIB}})).name == "aligned"
    assert verdict(resident(GIB, {2 * MIB: {0: 2 * MIB, 1: 2 * MIB}})).name == "spilled"


def test_pages_are_compared_with_the_promise_of_their_own_size() -> None:
    apart = Promise((Block.of(SMALL, 8 * MIB, NodeSet.of(0)), Block.of(LARGE, 2 * GIB, NodeSet.of(1))))
    found = by_page_size(resident(0, {2 * MIB: {1: 8 * MIB}, GIB: {1: GIB}}), apart)
    assert found == (
        HugePagesOfContainer(SMALL, 8 * MIB, NodeSet.of(0), {1: 8 * MIB}, 8 * MIB),
        HugePagesOfContainer(LARGE, 2 * GIB, NodeSet.of(1), {1: GIB}, 0),
    )
    assert verdict(resident(0, {2 * MIB: {1: 8 * MIB}, GIB: {1: GIB}}), apart).name == "spilled"


def test_pages_of_a_size_that_was_not_promised_keep_no_promise() -> None:
    (small, large) = by_page_size(resident(0, {2 * MIB: {0: 8 * MIB, 1: 2 * MIB}}), _PROMISE) or ()
    assert (small.type, small.promised_bytes, small.misplaced_bytes) == (SMALL, 0, 2 * MIB)
    assert (large.type, large.promised_bytes, large.held) == (LARGE, 4 * GIB, 0)


def test_without_a_promise_nothing_is_misplaced() -> None:
    used = resident(0, {2 * MIB: {0: 8 * MIB}})
    for promise in (None, Promise(), Promise(memory=())):
        (only,) = by_page_size(used, promise) or ()
        assert (only.held, only.misplaced_bytes, only.promised_nodes) == (8 * MIB, None, None)


def test_a_container_without_huge_pages_has_no_sizes() -> None:
    assert by_page_size(resident(GIB, None), None) == ()
    assert by_page_size(resident(GIB, {2 * MIB: {0: 0, 1: 0}}), None) == ()


def test_use_that_is_not_known_by_size_is_unknown() -> None:
    assert by_page_size(None, _PROMISE) is None
    assert by_page_size(Resident(anon={0: 1}), _PROMISE) is None
    assert by_page_size(Resident(anon={0: 1}, hugetlb={0: GIB}), _PROMISE) is None
