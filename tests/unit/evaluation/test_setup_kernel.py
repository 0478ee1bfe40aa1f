"""Each rule about the kernel: where it is wrong, where it is right, and where it cannot tell."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from made_up.node_setup import (
    Case,
    Change,
    case,
    each_container,
    host,
    intent,
    judged,
    kubelet,
    mapped,
    node,
    settings,
    snapshot,
    sockets,
    sysctl,
    uncovered,
)
from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.setup.rule import SetupEvidence, SetupState
from numaudit.intent.node import Promise
from numaudit.snapshot.host_settings import Zone
from numaudit.topology.machine import HugePagePool
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.tiers import TierSettings

UNREAD = settings(sysctls={}, unread={"sysctls": "permission denied"})
BALANCING = sysctl("kernel.numa_balancing", 1)
TWO_NODES = each_container(promise=Promise(memory=(Block((0, 1), "memory", 1 << 30),)))
NO_PROMISE = each_container(promise=Promise())


def movable(pages: int) -> Change:
    """ZONE_MOVABLE has this many of a thousand pages of node 2."""
    return settings(zones={2: (Zone("Normal", 1000 - pages, 1), Zone("Movable", pages, 1))})


def tiers(*, demotion: bool | None, keeps_cpuset: bool | None) -> Change:
    return snapshot(tiers=TierSettings(demotion, 0, keeps_cpuset))


def without_cpu_7(before: SetupEvidence) -> SetupEvidence:
    online = tuple(cpu for cpu in before.machine.cpus if cpu.id != 7)
    return node(3, cpus=CpuSet.of(6))(snapshot(machine=replace(before.machine, cpus=online))(before))


def isolated(*cpus: int) -> Change:
    return settings(isolated_cpus=CpuSet.of(*cpus))


def of_sysctl(rule: str, state: SetupState, name: str, wrong: int, right: int) -> tuple[Case, ...]:
    return (
        case(rule, state, f"{name} is", sysctl(name, wrong)),
        case(rule, "pass", "", sysctl(name, right)),
        case(rule, "not-judged", "the setting is not shown here", sysctl(name, None)),
        case(rule, "not-judged", "permission denied", UNREAD),
    )


CASES = (
    case("numa-off", "error", "numa=off", settings(command_line=("numa=off",)), sockets(0, 0, 1, 1)),
    case("numa-off", "info", "acpi=off", settings(command_line=("acpi=off",)), sockets(0, 0, 0, 0)),
    case("numa-off", "info", "", settings(command_line=("numa=noacpi",), is_guest=True), sockets(0, 0, 1, 1)),
    case("numa-off", "info", "", settings(command_line=("numa=off",), is_guest=None), sockets(0, 0, 1, 1)),
    case("numa-off", "info", "", settings(command_line=("numa=off",)), sockets(None, None, None, None)),
    case("numa-off", "pass", "", settings(command_line=("numa=fake=2", "acpi=force"))),
    case("numa-off", "not-judged", "command line is not shown here", settings(command_line=None)),
    case("numa-fake", "warning", "numa=fake=4G", settings(command_line=("numa=fake=4G",))),
    case("numa-fake", "pass", "", settings(command_line=("numa=on",))),
    case("numa-fake", "not-judged", "command line is not shown here", settings(command_line=None)),
    *of_sysctl("oom-allocating", "error", "vm.oom_kill_allocating_task", 1, 0),
    *of_sysctl("panic-oom", "error", "vm.panic_on_oom", 2, 1),
    *of_sysctl("overcommit-2", "warning", "vm.overcommit_memory", 2, 1),
    *of_sysctl("numa-stat-off", "warning", "vm.numa_stat", 0, 1),
    *of_sysctl("zone-reclaim", "info", "vm.zone_reclaim_mode", 1, 0),
    case("hugepages-uneven", "info", "2Mi: node 0 has 0, node 1 has 16, node 2 has 32, node 3 has 0"),
    case("hugepages-uneven", "pass", "", host("misaligned-node")),
    case("hugepages-uneven", "pass", "", host("misaligned-node"), node(3, huge_pages=())),
    case("hugepages-uneven", "not-judged", "one NUMA node has memory", host("single-node-hybrid")),
    case("hugepages-late", "warning", "node 1 has 32Mi of hugepages-2Mi, and", mapped(1, "hugepages-2Mi", total=0)),
    case("hugepages-late", "pass", ""),
    case("hugepages-late", "not-judged", "map of the nodes is not known", intent(machine=None)),
    case("isolcpus-kubelet", "warning", "CPU 6 of the kubelet's shared pool is isolated", isolated(1, 6)),
    case(
        "isolcpus-kubelet",
        "warning",
        "2-3 of reservedSystemCPUs are",
        isolated(2, 3),
        kubelet(reservedSystemCPUs="1-3"),
    ),
    case("isolcpus-kubelet", "pass", "", isolated(1, 2, 3, 4, 5)),
    case("isolcpus-kubelet", "pass", ""),
    case("isolcpus-kubelet", "not-judged", "shared pool is not known", intent(shared_cpus=None)),
    case("balancing-useless", "info", "is 1, and every promise here is of one", BALANCING, settings(kernel=(6, 15))),
    case("balancing-useless", "pass", "", BALANCING, settings(kernel=(6, 16))),
    case("balancing-useless", "pass", "", settings(kernel=(6, 1))),
    case("balancing-useless", "pass", "", sysctl("kernel.numa_balancing", 2), settings(kernel=(6, 1))),
    case("balancing-useless", "pass", "", BALANCING, TWO_NODES, settings(kernel=(6, 1))),
    case("balancing-useless", "not-judged", "the kernel's release is not shown", BALANCING, settings(kernel=None)),
    case("balancing-useless", "not-judged", "no container with a promise runs now", BALANCING, NO_PROMISE),
    case("balancing-multi", "info", "promises here span nodes", BALANCING, TWO_NODES),
    case("balancing-multi", "pass", "", BALANCING),
    case("balancing-multi", "not-judged", "no container with a promise runs now", BALANCING, NO_PROMISE),
    case("demotion", "warning", "this kernel ignores cpusets", tiers(demotion=True, keeps_cpuset=False)),
    case("demotion", "info", "may ignore cpusets", tiers(demotion=True, keeps_cpuset=None)),
    case("demotion", "pass", "", tiers(demotion=True, keeps_cpuset=True)),
    case("demotion", "pass", "", tiers(demotion=False, keeps_cpuset=False)),
    case("demotion", "not-judged", "demotion_enabled is not shown", tiers(demotion=None, keeps_cpuset=False)),
    case("demotion", "not-judged", "all memory is of one tier"),
    case("movable-only", "warning", "90 % of the memory of node 2 is in ZONE_MOVABLE", movable(900)),
    case("movable-only", "pass", "", movable(899)),
    case("movable-only", "pass", "", movable(1000), node(2, cpus=CpuSet())),
    case("movable-only", "not-judged", "/proc/zoneinfo is not shown here", settings(zones=None)),
    case("thp-always", "info", "are both always", settings(huge_pages="always", defrag="always")),
    case("thp-always", "pass", "", settings(huge_pages="always", defrag="madvise")),
    case("thp-always", "not-judged", "transparent huge pages is not shown here", settings(huge_pages=None)),
    case("overcommit-huge", "info", "of 2Mi is 8", snapshot(huge_page_pools=(HugePagePool(2 << 20, 0, 8),))),
    case("overcommit-huge", "pass", "", snapshot(huge_page_pools=(HugePagePool(2 << 20, 0, 0),))),
    case("overcommit-huge", "not-judged", "2Mi is not known", snapshot(huge_page_pools=(HugePagePool(2 << 20),))),
    case("cpus-offline", "info", "CPU 7 is offline, and of those online node 0 has 2", without_cpu_7),
    case("cpus-offline", "pass", "", settings(present_cpus=CpuSet.from_ids(range(16)))),
    case("cpus-offline", "pass", ""),
    case("cpus-offline", "not-judged", "CPUs that are present is not shown here", settings(present_cpus=None)),
)


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_a_rule_about_the_kernel_finds_what_is_wrong_and_only_that(one: Case) -> None:
    found = judged(one)
    assert (found.state, one.says in "; ".join(found.messages)) == (one.state, True), found.messages


def test_each_rule_about_the_kernel_is_shown_wrong_right_and_unknown() -> None:
    assert uncovered(CASES, "kernel") == {}
