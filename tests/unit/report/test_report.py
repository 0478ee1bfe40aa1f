"""The report of a snapshot: order, narrowing, the three accounts of a node, and unknown against zero."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.api.selection import narrow
from numaudit.encoding.value import Timestamp
from numaudit.engine.observer import Observer
from numaudit.errors import InputError
from numaudit.kernel.cgroup import Reader
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import Allowed, Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

CapturedHost = Callable[[str], Host]
MIB = 1 << 20
TWO_NODES = Machine((Node(0, CpuSet.of(0, 1), 1 << 30), Node(1, CpuSet.of(2, 3), 1 << 30)))
ON_NODE_0 = Allowed(NodeSet.of(0, 1), CpuSet.of(0))


def _snapshot(
    resident: dict[str, Resident], nodes: tuple[NodeMemory, ...] = (), unattributed: Resident | None = None
) -> Snapshot:
    """A snapshot of plain groups that all run on node 0."""
    containers = tuple(Container(ContainerId(n), path, "group") for n, path in enumerate(resident, 1))
    return Snapshot(
        taken_at=0,
        machine=TWO_NODES,
        cgroup_mode="v2",
        containers=containers,
        allowed={container.id: ON_NODE_0 for container in containers},
        residency={container.id: resident[container.path] for container in containers},
        nodes=nodes,
        unattributed=unattributed,
    )


def _node(node: int, resident: Resident) -> NodeMemory:
    return NodeMemory(node, total=1 << 30, free=0, resident=resident)


def _types(anon: int, shmem: int, file: int, hugetlb: int | None = 0) -> Resident:
    return Resident({0: anon}, {0: shmem}, {0: file}, None if hugetlb is None else {0: hugetlb})


# Order and narrowing


def test_the_most_remote_bytes_come_first_then_the_most_judged_then_the_path() -> None:
    report = build(
        _snapshot(
            {
                "/d": Resident(anon={0: 5 * MIB}),
                "/c": Resident(anon={0: 9 * MIB}),
                "/b": Resident(anon={0: MIB, 1: 2 * MIB}),
                "/a": Resident(anon={0: 5 * MIB}),
                "/e": Resident(anon={1: 3 * MIB}),
            }
        )
    )
    assert [one.path for one in report.containers] == ["/e", "/b", "/c", "/a", "/d"]
    assert [one.remote_bytes for one in report.containers] == [3 * MIB, 2 * MIB, 0, 0, 0]


@pytest.mark.parametrize(
    ("which", "paths"),
    [
        ("web-5c9", 4),
        ("shop/web-5c9", 4),
        ("web-5c9/nginx", 1),
        ("shop/web-5c9/nginx", 1),
        ("/system.slice/kubelet.service", 1),
        ("system.slice/kubelet.service", 1),
        ("kubelet.service", 1),
        ("a1a1a1a1a1a1", 1),
        ("a1" * 32, 1),
        ("44444444-4444-4444-8444-444444444444", 2),
        ("a1a1", 1),
        ("web", 4),
        ("shop/", 4),
        ("*/nginx", 1),
        ("web-5c?", 4),
        ("kubelet.serv*", 1),
        ("cri-o", 4),
        ("docker", 8),
        ("user.slice", 7),
        ("/user.slice/", 7),
        ("user-1000.slice", 6),
        ("kubelet-kubepods.slice/", 4),
    ],
)
def test_a_report_is_narrowed_by_pod_container_id_and_path(captured: CapturedHost, which: str, paths: int) -> None:
    report = build(Observer.of(captured("systemd-crio")).observe())
    assert len(narrow(report, which).containers) == paths
    assert narrow(report, which).nodes == report.nodes


@pytest.mark.parametrize("which", ["nobody", "", "/", "//", "*nobody*"])
def test_a_name_that_matches_nothing_is_refused_with_the_way_to_the_names(captured: CapturedHost, which: str) -> None:
    report = build(Observer.of(captured("systemd-crio")).observe())
    with pytest.raises(InputError, match=r"no container matches .*report -o wide` lists all"):
        narrow(report, which)


def test_without_a_name_the_report_stays_whole(captured: CapturedHost) -> None:
    report = build(Observer.of(captured("eight-nodes")).observe())
    assert narrow(report, None) is report


# Unknown is not zero


def test_a_container_that_could_not_be_read_has_no_figures_and_says_so() -> None:
    whole = _snapshot({"/a": Resident(anon={0: MIB})})
    (one,) = build(replace(whole, residency={}, allowed={})).containers
    assert (one.resident, one.judged_bytes, one.remote_bytes, one.allowed_memory_nodes) == (None, None, None, None)
    assert {unknown.what for unknown in one.unknown} == {"resident", "allowed"}


def test_an_empty_cpuset_differs_from_an_unknown_one() -> None:
    snapshot = replace(
        _snapshot({"/a": Resident(anon={0: MIB})}), allowed={ContainerId(1): Allowed(NodeSet(), CpuSet())}
    )
    (one,) = build(snapshot).containers
    assert (one.allowed_memory_nodes, one.allowed_cpu_nodes) == (NodeSet(), NodeSet())


def test_bytes_on_a_node_whose_cpus_are_unknown_are_neither_local_nor_remote() -> None:
    snapshot = replace(
        _snapshot({"/a": Resident(anon={1: MIB})}), allowed={ContainerId(1): Allowed(NodeSet.of(1), None)}
    )
    (one,) = build(snapshot).containers
    assert one.judged_bytes == MIB
    assert one.remote_bytes is None


# The three accounts of a node


def test_the_residual_is_what_neither_containers_nor_the_root_hold_with_its_sign() -> None:
    snapshot = _snapshot(
        {"/a": _types(10, 20, 30), "/b": _types(1, 2, 3)},
        (_node(0, _types(100, 0, 40)), _node(1, Resident({1: 5}, {1: 0}, {1: 0}, {1: 0}))),
        unattributed=_types(4, 5, 6),
    )
    zero, one = build(snapshot).residual
    assert (zero.node_bytes, zero.container_bytes, zero.unattributed_bytes) == (140, 66, 15)
    assert zero.residual_bytes == 59
    assert one.residual_bytes == 5
    more = replace(snapshot, residency={**snapshot.residency, ContainerId(2): _types(1, 2, 90)})
    assert build(more).residual[0].residual_bytes == -28


def test_kernel_memory_is_not_compared_because_most_of_it_is_charged_to_no_cgroup() -> None:
    held = msgspec.structs.replace(_types(1, 1, 1), kernel={0: 50})
    (row,) = build(
        _snapshot({"/a": held}, (_node(0, msgspec.structs.replace(_types(1, 1, 1), kernel={0: 500})),), _types(0, 0, 0))
    ).residual
    assert row.residual_bytes == 0
    assert "kernel" not in row.types


def test_only_types_that_all_three_sides_show_are_compared() -> None:
    node = (_node(0, _types(10, 0, 0, 64)),)
    (row,) = build(_snapshot({"/a": _types(10, 0, 0, 64)}, node, _types(0, 0, 0, 0))).residual
    assert row.types == ("anon", "shmem", "file", "hugetlb")
    for container, root in (
        (_types(10, 0, 0, None), _types(0, 0, 0, 0)),
        (_types(10, 0, 0, 64), _types(0, 0, 0, None)),
    ):
        (row,) = build(_snapshot({"/a": container}, node, root)).residual
        assert (row.types, row.residual_bytes) == (("anon", "shmem", "file"), 0)


def test_groups_below_one_that_shows_huge_pages_need_not_show_them_too() -> None:
    """With cgroup v2 the hugetlb controller may be enabled for the top groups only; those count for all below."""
    held = {"/system.slice": _types(0, 0, 0, 64), "/system.slice/a.service": _types(0, 0, 0, None)}
    (row,) = build(_snapshot(held, (_node(0, _types(0, 0, 0, 64)),), _types(0, 0, 0, 0))).residual
    assert (row.types[-1], row.residual_bytes) == ("hugetlb", 0)


def test_a_node_whose_meminfo_could_not_be_read_has_no_residual() -> None:
    nodes = (_node(0, Resident(hugetlb={0: 0})),)
    assert build(_snapshot({"/a": _types(1, 1, 1)}, nodes, _types(0, 0, 0))).residual == ()


def test_without_the_root_groups_account_there_is_no_residual() -> None:
    report = build(_snapshot({"/a": _types(1, 1, 1)}, (_node(0, _types(1, 1, 1)),), None))
    assert report.residual == ()
    assert "unattributed" in {unknown.what for unknown in report.unknown}


@pytest.mark.parametrize("name", ["eight-nodes", "memory-only-node", "huge-pages", "systemd-crio", "cgroup-v1"])
def test_the_accounts_of_a_made_up_host_agree_to_the_byte(captured: CapturedHost, name: str) -> None:
    report = build(Observer.of(captured(name)).observe(mappings_budget=60))
    assert [row.residual_bytes for row in report.residual] == [0] * len(report.nodes)


def test_huge_pages_of_the_root_group_are_found_by_its_processes_or_not_compared(captured: CapturedHost) -> None:
    """Linux shows the huge pages of the v2 root group nowhere else; process 1 holds 16 MiB on node 1."""
    observer = Observer.of(captured("huge-pages"))
    with_processes, without = build(observer.observe(mappings_budget=60)), build(observer.observe())
    assert [row.hugetlb for row in with_processes.unattributed or ()] == [0, 16 * MIB]
    assert [row.hugetlb for row in without.unattributed or ()] == [None, None]
    assert "hugetlb" not in without.residual[1].types
    assert [row.residual_bytes for row in without.residual] == [0, 0]


@pytest.mark.parametrize("name", ["single-node-hybrid", "kubernetes-four-nodes"])
def test_the_accounts_of_a_real_host_agree_within_two_percent_or_4_mib(captured: CapturedHost, name: str) -> None:
    for row in build(Observer.of(captured(name)).observe(mappings_budget=60)).residual:
        assert abs(row.residual_bytes) <= max(0.02 * row.node_bytes, 4 * MIB), row


_amounts = st.dictionaries(st.integers(0, 1), st.integers(0, 1 << 40), max_size=2)
_residents = st.builds(Resident, _amounts, _amounts, _amounts, _amounts | st.none())


@given(st.dictionaries(st.sampled_from(["/a", "/b", "/c"]), _residents), _residents, _residents, _residents)
def test_any_residual_is_the_difference_of_its_terms(
    held: dict[str, Resident], root: Resident, zero: Resident, one: Resident
) -> None:
    report = build(_snapshot(held, (_node(0, zero), _node(1, one)), root))
    for row in report.residual:
        assert row.residual_bytes == row.node_bytes - row.container_bytes - row.unattributed_bytes
    judged = {container.path: container.judged_bytes for container in report.containers}
    for path, resident in held.items():
        parts = (resident.anon, resident.shmem, resident.hugetlb)
        assert judged[path] == sum(sum((part or {}).values()) for part in parts)


def test_reports_of_one_tree_are_equal(captured: CapturedHost) -> None:
    def report() -> Report:
        return msgspec.structs.replace(
            build(Observer.of(captured("systemd-crio")).observe()), taken_at=Timestamp(), sources=()
        )

    assert report() == report()


def test_processes_of_the_root_group_are_not_read_for_huge_pages_that_nobody_uses(
    captured: CapturedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them walks the page tables of every process outside of containers."""
    read: list[str] = []

    def none_of(_: Reader, path: str) -> list[int]:
        read.append(path)
        return []

    monkeypatch.setattr(Reader, "all_processes", none_of)
    snapshot = Observer.of(captured("kubernetes-cluster")).observe(mappings_budget=60)
    assert all(one.resident.hugetlb == {one.node: 0} for one in snapshot.nodes)
    assert snapshot.unattributed is not None
    assert snapshot.unattributed.hugetlb == {}
    assert read
    assert "" not in read
