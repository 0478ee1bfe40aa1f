"""Devices beside the promise: which source says that one is elsewhere, where sources differ, and their interrupts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.findings import Finding, find
from numaudit.intent.node import ClaimPromise, ContainerIntent, Intent, Promise, PromisedDevices
from numaudit.ranks.declaration import DeviceKind, HeldDevice
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.processes import ContainerDevice, ContainerDevices, Interrupts
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

GPU, NIC = "0000:3b:00.0", "0000:af:02.1"
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
ON_NODE_0 = (Block.of("memory", 1 << 30, NodeSet.of(0)),)


def tick(promise: Promise, *held: ContainerDevice, promised: Mapping[str, HeldDevice] | None = None) -> Snapshot:
    intent = Intent(containers=(ContainerIntent("uid", "train", cgroups=(7,), promise=promise),))
    found = ContainerDevices(held, (), promised or {})
    return Snapshot(0.0, MACHINE, "v2", devices={ContainerId(7): found}, intent=intent)


def plugin(node: int | None, id_: str = GPU) -> tuple[PromisedDevices, ...]:
    return (PromisedDevices("vendor.example/gpu", (id_,), None if node is None else NodeSet.of(node)),)


def device(node: int | None, address: str = GPU, kind: DeviceKind = "gpu") -> ContainerDevice:
    return ContainerDevice(kind, address, node, ("descriptor",))


def texts(taken: Snapshot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in find(taken):
        found.setdefault(one.name, []).append(one.message)
    return found


def by_sysfs(node: int | None) -> dict[str, HeldDevice]:
    return {GPU: HeldDevice("gpu", GPU, node)}


def test_where_both_sources_agree_one_finding_names_both() -> None:
    taken = tick(Promise(ON_NODE_0, None, plugin(1)), device(1), promised=by_sysfs(1))
    assert texts(taken) == {
        "device-remote": [
            f"vendor.example/gpu ({GPU}) is on node 1 by the device plugin and sysfs, "
            "but the promised memory is on node 0"
        ]
    }


def test_a_device_that_only_sysfs_places_is_remote_by_sysfs() -> None:
    taken = tick(Promise(ON_NODE_0), device(1, NIC, "network"), device(0), device(None, "0000:01:00.0"))
    (text,) = texts(taken)["device-remote"]
    assert text == f"its network adapter {NIC} is on node 1 by sysfs, but the promised memory is on node 0"


def test_a_plugin_s_device_that_sysfs_does_not_know_is_remote_by_the_plugin() -> None:
    (text,) = texts(tick(Promise(ON_NODE_0, None, plugin(1, "dev-7"))))["device-remote"]
    assert "(dev-7) is on node 1 by the device plugin, but" in text


def test_a_plugin_without_topology_leaves_it_to_sysfs() -> None:
    found = texts(tick(Promise(ON_NODE_0, None, plugin(None)), promised=by_sysfs(1)))
    assert found.keys() == {"device-remote"}
    assert "is on node 1 by sysfs" in found["device-remote"][0]


def test_sources_that_differ_are_a_finding_and_only_one_of_them_says_remote() -> None:
    found = texts(tick(Promise(ON_NODE_0, None, plugin(0)), device(1), promised=by_sysfs(1)))
    assert found["device-node-disagrees"] == [
        f"vendor.example/gpu ({GPU}) is on node 0 by the device plugin, on node 1 by sysfs ({GPU})"
    ]
    assert [text.partition(" by ")[2] for text in found["device-remote"]] == [
        "sysfs, but the promised memory is on node 0"
    ]


@pytest.mark.parametrize("sysfs", [None, 0])
def test_sources_of_which_one_says_nothing_or_the_same_do_not_differ(sysfs: int | None) -> None:
    assert texts(tick(Promise(ON_NODE_0, None, plugin(0)), promised=by_sysfs(sysfs))) == {}


def test_without_promised_memory_the_exclusive_cpus_count() -> None:
    (text,) = texts(tick(Promise((), CpuSet.parse("1-2"), ()), device(1)))["device-remote"]
    assert text.endswith("but its exclusive CPUs are on node 0")


def with_claim(own: Promise, claim: ClaimPromise, *held: ContainerDevice) -> Snapshot:
    """The kubelet's promise and a claim's, each on its own."""
    both = replace(own, cpus=(own.cpus or CpuSet()) | (claim.cpus or CpuSet()))
    taken = tick(both, *held)
    assert taken.intent is not None
    one = replace(taken.intent.containers[0], by_managers=own, claims=(claim,))
    return replace(taken, intent=Intent(containers=(one,)))


def test_a_claimed_device_away_from_the_kubelets_cpus_names_both_sources() -> None:
    """No upstream component aligns them."""
    claim = ClaimPromise("default", "nic", "u", "dra.net", ("node-a/pci-0000-af-02-1",))
    (text,) = texts(with_claim(Promise((), CpuSet.parse("1-2")), claim, device(1, NIC, "network")))["device-remote"]
    assert text == (
        f"its network adapter {NIC} of claim default/nic (dra.net) is on node 1 by sysfs, "
        "but the CPUs promised by the kubelet are on node 0"
    )


def test_a_device_is_remote_to_the_claimed_cpus_though_it_is_near_the_kubelets() -> None:
    claim = ClaimPromise("default", "cpus", "u", "dra.cpu", cpus=CpuSet.parse("4-5"))
    (text,) = texts(with_claim(Promise(ON_NODE_0), claim, device(0)))["device-remote"]
    assert text.endswith("by sysfs, but the CPUs promised by claim default/cpus (dra.cpu) are on node 1")


def test_a_device_beside_all_sources_is_not_remote() -> None:
    claim = ClaimPromise("default", "cpus", "u", "dra.cpu", cpus=CpuSet.parse("1"))
    assert "device-remote" not in texts(with_claim(Promise(ON_NODE_0), claim, device(0)))


def test_without_any_promise_no_device_is_remote() -> None:
    assert find(tick(Promise((), CpuSet(), plugin(1)), device(1))) == ()


def test_of_two_instances_of_a_container_neither_is_judged_by_what_it_holds() -> None:
    taken = tick(Promise(ON_NODE_0), device(1))
    assert taken.intent is not None
    (one,) = taken.intent.containers
    assert find(replace(taken, intent=Intent(containers=(replace(one, cgroups=(7, 8)),)))) == ()


def interrupts(kind: DeviceKind, fired: Mapping[int, int]) -> tuple[Finding, ...]:
    held = ContainerDevice(kind, NIC, 0, ("network-namespace",), ("net1",), Interrupts(9, {0: 4, 1: 5}, fired))
    return find(tick(Promise(ON_NODE_0), held))


def test_interrupts_that_mostly_fire_elsewhere_are_information() -> None:
    (found,) = interrupts("network", {0: 1, 1: 3})
    assert (found.name, found.severity, found.numa_nodes) == ("interrupts-remote", "info", NodeSet.of(1))
    assert found.message == (
        f"3 of the 4 interrupts of its network adapter {NIC} (net1) that have fired run on node 1, but the promised "
        "memory is on node 0"
    )


@pytest.mark.parametrize(
    ("kind", "fired"), [("network", {0: 2, 1: 2}), ("network", {}), ("network", {0: 5}), ("storage", {1: 4})]
)
def test_other_interrupts_are_none(kind: DeviceKind, fired: Mapping[int, int]) -> None:
    assert interrupts(kind, fired) == ()
