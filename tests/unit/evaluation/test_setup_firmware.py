"""Each rule about firmware and devices: where it is wrong, where it is right, and where it cannot tell."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from made_up.node_setup import (
    GIB,
    Case,
    Change,
    case,
    device,
    each_container,
    each_node,
    host,
    intent,
    judged,
    node,
    nodes,
    settings,
    snapshot,
    sockets,
    uncovered,
)
from numaudit.intent.node import Promise, PromisedDevices
from numaudit.topology.machine import Cpu, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

GUEST = settings(is_guest=True)
NO_FLAG = settings(is_guest=None)
ONE_NODE = nodes(Node(0, CpuSet.from_ids(range(8)), GIB, distances={0: 10}))
TWO_SOCKETS = sockets(0, 0, 1, 1)
NO_SRAT = settings(acpi_tables=frozenset({"FACP"}))
FLAT = each_node(lambda one: replace(one, distances={to: 10 if to == one.id else 20 for to in range(4)}))
NO_DISTANCES = each_node(lambda one: replace(one, distances={}))
NIC, GPU = device("network", 1), device("gpu", 0)


def sizes(small: int, large: int) -> Change:
    """Memory of node 0 and of the other three."""
    return each_node(lambda one: replace(one, memory=small if one.id == 0 else large))


def guest_of(cpus: int, memory: int) -> Change:
    return snapshot(machine=Machine((Node(0, memory=memory),), tuple(Cpu(id_, 0) for id_ in range(cpus))))


def plugin(*ids: str, on: NodeSet | None = None) -> Change:
    return each_container(promise=Promise(devices=(PromisedDevices("nic.example.com/vf", ids, on),)))


FIRMWARE = (
    case("interleaved", "error", "2 sockets, one NUMA node and no SRAT table", ONE_NODE, TWO_SOCKETS, NO_SRAT),
    case("interleaved", "warning", "2 sockets, one NUMA node", ONE_NODE, TWO_SOCKETS),
    case("interleaved", "pass", "", TWO_SOCKETS),
    case("interleaved", "pass", "", ONE_NODE, sockets(0, 0, 0, 0)),
    case("interleaved", "pass", "", ONE_NODE, TWO_SOCKETS, settings(command_line=("numa=off",))),
    case("interleaved", "not-judged", "a virtual machine", ONE_NODE, TWO_SOCKETS, GUEST),
    case("interleaved", "not-judged", "is not shown here", ONE_NODE, TWO_SOCKETS, NO_FLAG),
    case("interleaved", "not-judged", "the sockets of the CPUs", ONE_NODE, sockets(0, None, 1, 1)),
    case("vm-flat", "info", "of 33 CPUs and 1Gi", guest_of(33, GIB), GUEST),
    case("vm-flat", "info", "of 1 CPUs", guest_of(1, (512 << 30) + 1), GUEST),
    case("vm-flat", "pass", "", guest_of(32, 512 << 30), GUEST),
    case("vm-flat", "pass", "", guest_of(64, GIB)),
    case("vm-flat", "not-judged", "is not shown here", guest_of(64, GIB), NO_FLAG),
    case("slit-flat", "info", "4 nodes on 2 sockets are all at distance 20", FLAT, TWO_SOCKETS),
    case("slit-flat", "pass", "", FLAT, sockets(0, 1, 2, 3)),
    case("slit-flat", "pass", "", FLAT, sockets(0, 0, 0, 0)),
    case("slit-flat", "pass", "", TWO_SOCKETS),
    case("slit-flat", "not-judged", "a virtual machine", FLAT, TWO_SOCKETS, GUEST),
    case("slit-flat", "not-judged", "no distances that can be used", NO_DISTANCES),
    case(
        "slit-asymmetric",
        "info",
        "from node 0 to node 1 is 25, and the way back 12",
        node(0, distances={0: 10, 1: 25, 2: 20, 3: 32}),
    ),
    case("slit-asymmetric", "pass", ""),
    case("slit-asymmetric", "not-judged", "no distances that can be used", NO_DISTANCES),
    case("node-no-memory", "warning", "node 3 has CPUs 4-5 and no memory", host("memory-only-node")),
    case("node-no-memory", "pass", "", host("tiered")),
    case("node-no-memory", "not-judged", "the memory of node 1 is not known", node(1, memory=None)),
    case("nodes-unequal", "info", "node 0 has 1000Mi", sizes(1000 << 20, (1100 << 20) + 4096)),
    case("nodes-unequal", "pass", "", sizes(1000 << 20, 1100 << 20)),
    case("nodes-unequal", "info", "", sizes(1000 << 20, 1500 << 20)),
    case("nodes-unequal", "warning", "node 1 1.5Gi", sizes(1000 << 20, (1500 << 20) + 4096)),
    case("nodes-unequal", "pass", "", host("tiered")),
    case("nodes-unequal", "not-judged", "the memory of node 1 is not known", node(1, memory=None)),
    case("cxl-ordinary", "warning", "node 3 has no CPUs, and 1.2Gi", node(3, cpus=CpuSet())),
    case("cxl-ordinary", "pass", "", node(3, cpus=None)),
    case("cxl-ordinary", "pass", ""),
    case("cxl-ordinary", "not-judged", "map of the nodes is not known", intent(machine=None)),
    case(
        "no-hmat",
        "info",
        "no speed of node 3, which has no CPUs",
        node(3, cpus=CpuSet()),
        settings(acpi_tables=frozenset({"SRAT"})),
    ),
    case("no-hmat", "pass", "", host("tiered"), settings(acpi_tables=frozenset({"SRAT"}))),
    case("no-hmat", "pass", "", node(3, cpus=CpuSet())),
    case("no-hmat", "not-judged", "ACPI tables is not shown here", settings(acpi_tables=None)),
)
DEVICES = (
    case(
        "device-no-node", "warning", "no node for 1 PCI device: network", settings(devices=(device("network", None),))
    ),
    case("device-no-node", "info", "", settings(devices=(device("gpu", None),)), GUEST),
    case("device-no-node", "pass", ""),
    case("device-no-node", "not-judged", "PCI devices is not shown here", settings(devices=None)),
    case("plugin-no-topology", "warning", "0000:3b:00.0 is on node 0", plugin("0000:3b:00.0", "vf1")),
    case("plugin-no-topology", "pass", "", plugin("0000:3b:00.0", on=NodeSet.of(0))),
    case("plugin-no-topology", "pass", "", plugin("GPU-1234")),
    case("plugin-no-topology", "not-judged", "PCI devices is not shown here", settings(devices=None)),
    case("gpu-nic-far", "info", "GPUs are on node 0 and network adapters on node 1", settings(devices=(GPU, NIC))),
    case("gpu-nic-far", "pass", "", settings(devices=(GPU, NIC, device("gpu", 1)))),
    case("gpu-nic-far", "pass", "", settings(devices=(GPU,))),
    case("gpu-nic-far", "not-judged", "PCI devices is not shown here", settings(devices=None)),
)


@pytest.mark.parametrize("one", [*FIRMWARE, *DEVICES], ids=lambda one: one.name)
def test_a_rule_about_firmware_and_devices_finds_what_is_wrong_and_only_that(one: Case) -> None:
    found = judged(one)
    assert (found.state, one.says in "; ".join(found.messages)) == (one.state, True), found.messages


def test_each_rule_about_firmware_and_devices_is_shown_wrong_right_and_unknown() -> None:
    assert (uncovered(FIRMWARE, "firmware"), uncovered(DEVICES, "devices")) == ({}, {})
