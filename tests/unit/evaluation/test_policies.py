"""Memory policies of processes: what the report says of them, and bind policies on nearly full nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.findings import Finding, find
from numaudit.kernel.host import Host
from numaudit.kernel.memory import numa_maps
from numaudit.ranks.policy import understood
from numaudit.report import cells
from numaudit.report.values import ContainerReport
from numaudit.snapshot import Container, ContainerId, Mappings, NodeMemory, ProcessMapping, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import NodeSet

GIB = 1 << 30


@pytest.mark.parametrize(
    ("policy", "kind", "nodes"),
    [
        ("default", None, ""),
        ("local", "local", ""),
        ("bind:1", "bind", "1"),
        ("bind=static:0-1", "bind", "0-1"),
        ("bind=balancing:2", "bind", "2"),
        ("prefer:0", "preferred", "0"),
        ("prefer (many):0,2", "preferred-many", "0,2"),
        ("interleave:0-3", "interleave", "0-3"),
        ("weighted interleave=relative:0-1", "weighted-interleave", "0-1"),
    ],
)
def test_the_nodes_of_a_policy_are_what_stands_after_its_name_and_flags(
    policy: str, kind: str | None, nodes: str
) -> None:
    assert understood(policy) == (kind, NodeSet.parse(nodes))
    assert understood(f"{policy}:many") is None


def reported(host: Path, container: str) -> ContainerReport:
    report = Engine(Observer.of(Host.under(host))).tick(numa_maps_budget=60).report
    (one,) = [one for one in report.containers if (one.pod, one.kind) == (container, "container")]
    return one


def test_the_policies_with_most_bytes_come_first_and_weighted_interleave_has_its_weights(fixtures: Path) -> None:
    assert cells.policy(reported(fixtures / "hugepages-short", "bu-numanode")) == (
        "bind:1, weighted interleave:0-1 3:1"
    )
    assert cells.policy(reported(fixtures / "kubernetes-four-nodes", "bu-numanode")) == "default"


def test_weights_that_no_number_says_are_left_out_and_a_kernel_without_the_policy_has_none(tmp_path: Path) -> None:
    assert numa_maps.read_weights(Host(tmp_path)) is None
    folder = tmp_path / "sys/kernel/mm/mempolicy/weighted_interleave"
    for name, text in (("node0", "3\n"), ("node1", "\n"), ("node2", "-1"), ("auto", "true\n")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "node4").mkdir()
    assert numa_maps.read_weights(Host(tmp_path)) == {0: 3}


def bound(policy: str = "bind:1", kind: str = "anon", *, free: int | None = 0, other: int = GIB) -> Snapshot:
    """A container with 1 GiB under a policy; node 1 has `free` bytes, node 0 `other`."""
    mapping = ProcessMapping(7, "db", None, kind, policy, None, {1: GIB})
    return Snapshot(
        taken_at=1.0,
        machine=Machine((Node(0), Node(1))),
        cgroup_mode="v2",
        containers=(Container(ContainerId(1), "/db", "container", pod_uid="u", namespace="ns", pod="db", name="app"),),
        numa_maps={ContainerId(1): Mappings({}, {}, {}, 1, 1, by_process=(mapping,))},
        nodes=tuple(NodeMemory(node, 20 * GIB, of, Resident(), reclaimable=0) for node, of in ((0, other), (1, free))),
    )


def risks(of: Snapshot) -> list[Finding]:
    return [one for one in find(of) if one.name == "bind-oom"]


def test_bound_memory_on_a_nearly_full_node_is_a_risk() -> None:
    (found,) = risks(bound(free=GIB // 2))
    assert (found.pod, found.container, found.numa_nodes) == ("db", "app", NodeSet.of(1))
    assert found.message == (
        "its memory policy bind:1 allows node 1 only, where 512Mi of 20Gi are free or reclaimable; 1Gi are under it, "
        "and it cannot grow elsewhere"
    )


@pytest.mark.parametrize("policy", ["default", "prefer:1", "prefer (many):1", "interleave:1", "bind:many"])
def test_a_policy_that_may_go_elsewhere_is_none(policy: str) -> None:
    assert risks(bound(policy)) == []


def test_nodes_with_room_that_are_not_known_or_pages_of_a_pool_are_none() -> None:
    assert risks(bound(free=GIB)) == []
    assert risks(bound("bind:0-1", other=2 * GIB)) == []
    assert risks(bound(free=None)) == []
    assert risks(bound("bind:0-2")) == []
    assert risks(bound(kind="hugetlb")) == []


def test_page_cache_makes_room_for_bound_memory() -> None:
    there = bound()
    roomy = tuple(NodeMemory(one.node, one.total, one.free, one.resident, reclaimable=GIB) for one in there.nodes)
    assert risks(replace(there, nodes=roomy)) == []
