"""Each rule about the kubelet: where it is wrong, where it is right, and where it cannot tell."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from made_up.node_setup import (
    GIB,
    MIB,
    Case,
    Change,
    case,
    config,
    each_container,
    each_node,
    host,
    intent,
    judged,
    kubelet,
    mapped,
    node,
    settings,
    snapshot,
    so_many_nodes,
    uncovered,
)
from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.headroom import Unpromised, is_uncovered
from numaudit.intent.node import ClaimPromise
from numaudit.snapshot import Swap
from numaudit.snapshot.host_settings import Zone
from numaudit.topology.nodeset import CpuSet

PAGES_OF_64_MIB = 64 * MIB // 4096
UNKNOWN_VERSION = config(version=None)


def kept(pages: int, *protection: int) -> Change:
    """So many pages of node 2 are kept by the kernel."""
    zone = Zone("Normal", 250_000, pages - max(protection, default=0), protection)
    return settings(zones={id_: (zone if id_ == 2 else Zone("Normal", 250_000, 1, ()),) for id_ in range(4)})


def claim(**fields: object) -> Change:
    """Each container has a resource claim."""
    return each_container(claims=(ClaimPromise("ns", "c", "u", "dra.example.com", **fields),))  # type: ignore[arg-type]


def reserved(**limits: str) -> Change:
    entries = [{"numaNode": int(node_[1:]), "limits": {"memory": size}} for node_, size in limits.items()]
    return kubelet(reservedMemory=entries)


FROM_FILE = config(origins={"memory_manager_policy": "file"})
CPUS_CLAIM, MEMORY_CLAIM = claim(cpus=CpuSet.of(3)), claim(memory=(Block((1,), "memory", GIB),))
SWAP = snapshot(swap=Swap(GIB, GIB))
NO_SWAP_KNOWN = snapshot(swap=None)
CASES = (
    case("reserved-uncovered", "warning", "node 2: memory without a promise uses at least 136Mi, and nothing is"),
    case("reserved-uncovered", "error", "node 3", mapped(3, free=0, reserved=GIB)),
    case("reserved-uncovered", "pass", "", mapped(2, system_reserved=200 * MIB), mapped(3, system_reserved=200 * MIB)),
    case("reserved-uncovered", "not-judged", "map of the nodes is not known", intent(machine=None)),
    case("reserved-uncovered", "not-judged", "the memory of no container could be read", snapshot(residency={})),
    case("reserved-below-kernel", "warning", "node 2: nothing is reserved, and the", kept(PAGES_OF_64_MIB + 1)),
    case("reserved-below-kernel", "warning", "keeps 117Mi free", kept(30_000, 0, 100, 29_900)),
    case("reserved-below-kernel", "pass", "", kept(PAGES_OF_64_MIB)),
    case("reserved-below-kernel", "pass", "", kept(PAGES_OF_64_MIB + 1), mapped(2, system_reserved=4096)),
    case("reserved-below-kernel", "not-judged", "no zone of node 0", settings(zones={})),
    case("reserved-below-kernel", "not-judged", "denied", settings(zones=None, unread={"zones": "denied"})),
    case("topology-none", "warning", "topologyManagerPolicy is none", kubelet(topologyManagerPolicy="none")),
    case("topology-none", "pass", ""),
    case("topology-none", "not-judged", "Topology Manager is not known", config(topology_manager_policy=None)),
    case("topology-best-effort", "warning", "best-effort", kubelet(topologyManagerPolicy="best-effort")),
    case("topology-best-effort", "pass", "", kubelet(topologyManagerPolicy="restricted")),
    case("topology-best-effort", "not-judged", "Memory Manager is not known", config(memory_manager_policy=None)),
    case("memory-none", "warning", "but memoryManagerPolicy is None", kubelet(memoryManagerPolicy="None")),
    case(
        "memory-none",
        "info",
        "cpuManagerPolicy is static, but",
        kubelet(memoryManagerPolicy="None", topologyManagerPolicy="none"),
    ),
    case("memory-none", "pass", "", kubelet(memoryManagerPolicy="None"), MEMORY_CLAIM),
    case("memory-none", "pass", ""),
    case("memory-none", "not-judged", "Memory Manager is not known", config(memory_manager_policy=None)),
    case("cpu-none", "warning", "cpuManagerPolicy is none", kubelet(cpuManagerPolicy="none")),
    case("cpu-none", "pass", "", kubelet(cpuManagerPolicy="none"), CPUS_CLAIM),
    case("cpu-none", "pass", ""),
    case("cpu-none", "not-judged", "CPU Manager is not known", config(cpu_manager_policy=None)),
    case("reserved-exceeds-node", "error", "node 1 offers 18446744073709551615", mapped(1, allocatable=2**64 - 1)),
    case("reserved-exceeds-node", "error", "node 1 offers", mapped(1, free=2 * GIB)),
    case(
        "reserved-exceeds-node",
        "error",
        "node 0",
        reserved(n0="2Gi"),
        kubelet(systemReserved={"cpu": "1", "memory": "1848Mi"}),
    ),
    case("reserved-exceeds-node", "pass", ""),
    case("reserved-exceeds-node", "not-judged", "version is not known", UNKNOWN_VERSION),
    case("reserved-sum", "error", 'is not equal to the value "300Mi"', reserved(n0="200Mi")),
    case("reserved-sum", "pass", "", reserved(n0="100Mi", n3="200Mi")),
    case("reserved-sum", "not-judged", "version is not known", UNKNOWN_VERSION),
    case(
        "reserved-sum",
        "not-judged",
        "by flags of the kubelet",
        kubelet(systemReserved=None, kubeReserved=None, cpuManagerPolicy="none"),
        FROM_FILE,
    ),
    case(
        "reserved-sum",
        "not-judged",
        "by flags of the kubelet",
        kubelet(systemReserved={"cpu": "1"}, kubeReserved=None),
        FROM_FILE,
    ),
    case("max-numa-nodes", "error", "more than 8 NUMA Nodes", so_many_nodes(9)),
    case("max-numa-nodes", "error", "single", kubelet(topologyManagerPolicy="single"), FROM_FILE),
    case("max-numa-nodes", "warning", "upstream's would not start", kubelet(topologyManagerPolicy="single")),
    case("max-numa-nodes", "pass", "", so_many_nodes(8)),
    case("max-numa-nodes", "not-judged", "refuses another setting", kubelet(memoryManagerPolicy="static")),
    case("max-numa-nodes", "not-judged", "version is not known", UNKNOWN_VERSION),
    case("kubelet-refuses", "error", "memoryManagerPolicy: ", kubelet(memoryManagerPolicy="static"), FROM_FILE),
    case("kubelet-refuses", "warning", "this kubelet runs with it, and", kubelet(memoryManagerPolicy="static")),
    case("kubelet-refuses", "pass", ""),
    case("kubelet-refuses", "not-judged", "cannot tell", kubelet(systemPartition={"cpus": "0"})),
    case("numa-nodes-explode", "error", "2^16 sets", so_many_nodes(16)),
    case("numa-nodes-explode", "pass", "", so_many_nodes(15)),
    case("numa-nodes-explode", "pass", "", so_many_nodes(16), kubelet(topologyManagerPolicy="none")),
    case("numa-nodes-explode", "not-judged", "is not known", so_many_nodes(16), config(topology_manager_policy=None)),
    case("reserved-cpus-node", "warning", "6-7 are on node 3", kubelet(reservedSystemCPUs="6-7")),
    case("reserved-cpus-node", "pass", "", kubelet(reservedSystemCPUs="0,7")),
    case("reserved-cpus-node", "pass", ""),
    case("reserved-cpus-node", "not-judged", "not a list of CPUs", kubelet(reservedSystemCPUs="all")),
    case("reserved-cpus-node", "not-judged", "the nodes of", kubelet(reservedSystemCPUs="6"), node(3, cpus=None)),
    case("dra-conflict", "warning", "dra.example.com also assigns CPUs", CPUS_CLAIM),
    case("dra-conflict", "warning", "dra.example.com also assigns memory", MEMORY_CLAIM),
    case("dra-conflict", "pass", "", CPUS_CLAIM, kubelet(cpuManagerPolicy="none")),
    case("dra-conflict", "pass", "", claim(devices=("pool/gpu-0",))),
    case("dra-conflict", "not-judged", "CPU Manager is not known", CPUS_CLAIM, config(cpu_manager_policy=None)),
    case("cgroup-v1", "error", "cgroup hybrid", snapshot(cgroup_mode="hybrid"), config(version="v1.35.0")),
    case("cgroup-v1", "warning", "cgroup v1", snapshot(cgroup_mode="v1"), config(version="v1.34.9")),
    case("cgroup-v1", "warning", "cgroup v1", snapshot(cgroup_mode="v1"), kubelet(failCgroupV1=False)),
    case("cgroup-v1", "pass", ""),
    case("cgroup-v1", "not-judged", "cgroup hierarchy is not known", snapshot(cgroup_mode=None)),
    case("scope-container", "info", "2 Guaranteed pods have several containers", host("misaligned-node")),
    case("scope-container", "pass", "", host("misaligned-node"), kubelet(topologyManagerScope="pod")),
    case("scope-container", "pass", ""),
    case("scope-container", "not-judged", "pods are not known", host("misaligned-node"), intent(pods=None)),
    case("closest-needed", "info", "are 12 to 32", kubelet(topologyManagerPolicy="restricted")),
    case(
        "closest-needed",
        "pass",
        "",
        kubelet(topologyManagerPolicy="restricted", topologyManagerPolicyOptions={"prefer-closest-numa-nodes": "T"}),
    ),
    case("closest-needed", "pass", ""),
    case(
        "closest-needed",
        "not-judged",
        "no distances",
        kubelet(topologyManagerPolicy="restricted"),
        each_node(lambda one: replace(one, distances={})),
    ),
    case("eviction-blind", "info", "starts no eviction"),
    case("eviction-blind", "pass", "", kubelet(memoryManagerPolicy="None")),
    case("eviction-blind", "not-judged", "Memory Manager is not known", config(memory_manager_policy=None)),
    case("reboot-drift", "info", "may change with a reboot"),
    case("reboot-drift", "info", "", kubelet(memoryManagerPolicyOptions={"memory-drift-tolerance": "off"})),
    case("reboot-drift", "pass", "", kubelet(memoryManagerPolicyOptions={"memory-drift-tolerance": "1%"})),
    case("reboot-drift", "not-judged", "configuration is not known", config(document=None)),
    case("swap-limited", "info", "1Gi of swap, for daemons", SWAP),
    case("swap-limited", "info", "for Burstable pods", SWAP, kubelet(memorySwap={"swapBehavior": "LimitedSwap"})),
    case("swap-limited", "error", "does not start again", SWAP, kubelet(failSwapOn=True)),
    case("swap-limited", "info", "for daemons", SWAP, kubelet(failSwapOn=True), config(origins={"version": "metrics"})),
    case("swap-limited", "pass", ""),
    case("swap-limited", "not-judged", "swap space of this host is not known", NO_SWAP_KNOWN),
    case("strict-off", "info", "reservation is off", kubelet(reservedSystemCPUs="0"), config(version="1.35")),
    case("strict-off", "pass", "", kubelet(reservedSystemCPUs="0"), config(version="1.34")),
    case(
        "strict-off",
        "pass",
        "",
        kubelet(reservedSystemCPUs="0", cpuManagerPolicyOptions={"strict-cpu-reservation": "1"}),
    ),
    case("strict-off", "not-judged", "version is not known", kubelet(reservedSystemCPUs="0"), UNKNOWN_VERSION),
)


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_a_rule_about_the_kubelet_finds_what_is_wrong_and_only_that(one: Case) -> None:
    found = judged(one)
    assert (found.state, one.says in "; ".join(found.messages)) == (one.state, True), found.messages


def test_each_rule_about_the_kubelet_is_shown_wrong_right_and_unknown() -> None:
    assert uncovered(CASES, "kubelet") == {}


@pytest.mark.parametrize(
    ("beyond", "size", "is_too_much"),
    [
        (64 * MIB, GIB, False),
        (64 * MIB + 1, GIB, True),
        (GIB, 100 * GIB, False),
        (GIB + 1, 100 * GIB, True),
    ],
)
def test_memory_beyond_a_reservation_matters_above_64_mib_and_one_percent_of_the_node(
    beyond: int, size: int, is_too_much: bool
) -> None:
    assert is_uncovered(Unpromised(0, beyond, 0), size) is is_too_much
