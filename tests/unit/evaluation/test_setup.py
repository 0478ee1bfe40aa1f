"""Rules about how a node is set up: on a captured cluster's node as it is, and with one thing changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from made_up.node_setup import (
    Change,
    changed,
    device,
    each_container,
    intent,
    kubelet,
    nodes,
    settings,
    sockets,
    sysctl,
)
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError
from numaudit.evaluation.setup import RULES, SetupResult, examine, skipped_rules
from numaudit.evaluation.setup.facts import facts_of, labels_of
from numaudit.intent.node import Promise
from numaudit.kernel.host import Host
from numaudit.ranks.declaration import DeviceKind, HeldDevice
from numaudit.snapshot import Snapshot
from numaudit.snapshot.host_settings import HostSettings, Zone
from numaudit.topology.machine import Node
from numaudit.topology.nodeset import CpuSet


@pytest.fixture(scope="module")
def node(fixtures: Path) -> Snapshot:
    """Of a kubelet 1.36 with static managers and single-numa-node, four nodes; nodes 2 and 3 reserve nothing."""
    return Engine(Observer.of(Host.under(fixtures / "kubernetes-cluster"))).tick().snapshot


def result(node: Snapshot, rule: str, settings: HostSettings | None = None) -> SetupResult:
    return next(one for one in examine(replace(node, settings=settings)) if one.id == rule)


def test_a_node_that_reserves_nothing_where_memory_is_used_is_named_with_its_users(node: Snapshot) -> None:
    found = result(node, "reserved-uncovered")
    assert (found.state, list(found.numa_nodes or ())) == ("warning", [2, 3])
    assert found.messages[0].startswith("node 2: memory without a promise uses at least 136Mi, and nothing is reserved")
    assert "/system.slice/containerd.service 95.6Mi" in found.messages[0]


def test_what_an_accepted_rule_finds_is_accepted_with_its_reason_and_a_rule_that_holds_stays_so(node: Snapshot) -> None:
    accepted = {"reserved-uncovered": "builds run there", "topology-none": "unused"}
    found = {one.id: one for one in examine(node, accepted)}
    assert found["reserved-uncovered"].state == "accepted"
    assert found["reserved-uncovered"].accepted == "builds run there"
    assert (found["topology-none"].state, found["topology-none"].accepted) == ("pass", None)


def test_what_a_rule_has_found_stands_where_the_rest_of_it_cannot_be_judged(node: Snapshot) -> None:
    """A map that offers more than a node has is wrong, whatever the kubelet's version is."""
    intent = node.intent
    assert intent is not None and intent.machine is not None
    table = intent.machine[1].memory_map["memory"]
    wrapped = replace(table, allocatable=table.total + 1)
    wrong = replace(intent.machine[1], memory_map={**intent.machine[1].memory_map, "memory": wrapped})
    config = replace(intent.config, version=None)
    assert result(replace(node, intent=replace(intent, config=config)), "reserved-exceeds-node").state == "not-judged"
    with_both = replace(intent, config=config, machine={**intent.machine, 1: wrong})
    found = result(replace(node, intent=with_both), "reserved-exceeds-node")
    assert (found.state, list(found.numa_nodes or ())) == ("error", [1])


def test_without_a_kubelet_its_rules_say_so(node: Snapshot) -> None:
    alone = replace(node, intent=None)
    states = {one.id: one for one in examine(alone) if one.area == "kubelet"}
    assert {one.state for one in states.values()} == {"not-judged"}
    assert states["reserved-sum"].messages == ("no kubelet was found here",)


def test_a_skipped_rule_is_left_out_and_an_unknown_one_is_refused() -> None:
    assert skipped_rules("topology-none, slit-flat,") == {"topology-none", "slit-flat"}
    with pytest.raises(InputError, match="there is no rule 'topology-non'; did you mean topology-none"):
        skipped_rules("topology-non")


def test_each_rule_has_one_name_and_tells_why_and_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.why.endswith(".")
        assert rule.remedy
        assert rule.source.startswith("https://")


DEFAULTS = kubelet(memoryManagerPolicy="None", cpuManagerPolicy="none", topologyManagerPolicy="none")
STATIC_ON_ONE_NODE = kubelet(
    topologyManagerPolicy="best-effort", reservedMemory=[{"numaNode": 0, "limits": {"memory": "300Mi"}}]
)
NOTHING_PROMISED = (intent(machine=None), each_container(promise=Promise()))
ONE_NODE = nodes(Node(0, CpuSet.from_ids(range(8)), 16 << 30, distances={0: 10}))
OF_A_LAPTOP = settings(
    huge_pages="always",
    command_line=("transparent_hugepage=always",),
    devices=(device("network", None), device("storage", None, 1)),
    zones={0: (Zone("DMA32", 500_000, 5000, (0, 0, 15_000)), Zone("Normal", 3_600_000, 12_000, (0, 0, 0)))},
)
OF_A_DISTRIBUTION = (sysctl("kernel.numa_balancing", 1), settings(kernel=(6, 8), huge_pages="always"))


@pytest.mark.parametrize("guest", [settings(is_guest=True), settings(is_guest=False), settings(is_guest=None)])
@pytest.mark.parametrize("policies", [DEFAULTS, STATIC_ON_ONE_NODE])
def test_nothing_is_wrong_with_a_cluster_on_a_laptop(guest: Change, policies: Change) -> None:
    found = faults(ONE_NODE, OF_A_LAPTOP, *NOTHING_PROMISED, policies, guest)
    assert found <= {"reboot-drift"}  # where its Memory Manager is Static


@pytest.mark.parametrize("of", [sockets(0, 0, 1, 1), sockets(0, 1, 2, 3), sockets(0, 0, 0, 0)])
def test_nothing_is_wrong_with_a_kubelet_and_a_kernel_as_they_come(of: Change) -> None:
    assert faults(DEFAULTS, *NOTHING_PROMISED, *OF_A_DISTRIBUTION, of) <= {"hugepages-uneven"}


def test_a_distribution_s_kernel_below_promises_is_no_more_than_worth_knowing() -> None:
    found = {one.id for one in examine(changed(*OF_A_DISTRIBUTION).snapshot) if one.state in ("error", "warning")}
    assert found == {"reserved-uncovered", "fractional-cpu"}  # as they are in this capture


def faults(*changes: Change) -> set[str]:
    return {one.id for one in examine(changed(*changes).snapshot) if one.is_fault}


def facts(snapshot: Snapshot) -> dict[tuple[str, int | None], str | int | None]:
    found = facts_of(snapshot)
    assert len({(one.name, one.numa_node) for one in found}) == len(found)
    return {(one.name, one.numa_node): one.value for one in found}


def test_the_facts_of_a_node_are_what_its_files_say(node: Snapshot) -> None:
    found = facts(node)
    assert found["memoryManagerPolicy", None] == "Static"
    assert found["topologyManagerPolicyOptions", None] == "none"
    assert [found["reservedMemory", of] for of in range(4)] == [200 << 20, 100 << 20, 0, 0]
    assert [found["huge pages", of] for of in range(4)] == ["none", "16 of 2Mi", "32 of 2Mi", "none"]
    assert found["distances", 3] == "32 20 12 10"
    assert found["kernel", None] == "6.12.117+deb12-cloud-amd64"


def test_devices_are_counted_by_kind_on_each_node_and_apart_where_the_firmware_names_none(node: Snapshot) -> None:
    kinds: list[tuple[DeviceKind, int | None]] = [("gpu", 1), ("network", 1), ("gpu", 1), ("storage", None)]
    devices = tuple(HeldDevice(kind, f"0000:0{i}:00.0", at) for i, (kind, at) in enumerate(kinds))
    found = facts(replace(node, settings=HostSettings(devices=devices)))
    assert [found["devices", of] for of in range(4)] == ["none", "2 gpu, 1 network", "none", "none"]
    assert found["devices without a node", None] == "1 storage"


def test_what_was_not_read_is_not_known_and_no_kubelet_has_no_policies(node: Snapshot) -> None:
    found = facts(replace(node, settings=None, intent=None))
    assert {found[name, None] for name in ("kernel", "kernel parameters", "transparent_hugepage")} == {None}
    assert found["devices", 0] is None
    assert not [name for name, _ in found if name.startswith(("kubelet", "reserved", "memoryManager"))]
    without_map = facts(replace(node, intent=replace(node.intent, machine=None) if node.intent else None))
    assert (without_map["reservedMemory", 0], without_map["reserved huge pages", 0]) == (None, None)


def test_the_series_of_a_node_has_its_settings_and_nothing_where_they_were_not_read(node: Snapshot) -> None:
    settings = HostSettings(
        release="6.12.1", command_line=("numa=off",), huge_pages="madvise", sysctls={"vm.zone_reclaim_mode": 1}
    )
    found = labels_of(facts_of(replace(node, settings=settings)))
    assert found == ("6.12.1", "1", "", "madvise", "1", "numa=off")
    assert not any(labels_of(()))
