"""What the rules of `numaudit setup` look at, of a captured host on which some things are changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from msgspec.structs import replace

from fixture_trees import FIXTURES
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import QosClass
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.setup import RULES, SetupResult
from numaudit.evaluation.setup.rule import SetupEvidence, SetupState
from numaudit.intent.pods import PodContainer, PodFacts
from numaudit.kernel.host import Host
from numaudit.ranks.declaration import DeviceKind, HeldDevice
from numaudit.snapshot import Snapshot
from numaudit.snapshot.host_settings import HostSettings, Zone
from numaudit.topology.machine import Node
from numaudit.topology.nodeset import CpuSet

Change = Callable[[SetupEvidence], SetupEvidence]
GIB, MIB = 1 << 30, 1 << 20
NODE = "kubernetes-cluster"
"""A kubelet 1.36 with static managers and single-numa-node on four nodes of two CPUs; nodes 2 and 3 reserve nothing."""
GOOD = HostSettings(
    kernel=(6, 18),
    command_line=(),
    zones={id_: (Zone("Normal", 250_000, 1000, (0, 0)),) for id_ in range(4)},
    sysctls={
        "kernel.numa_balancing": 0,
        "vm.numa_stat": 1,
        "vm.oom_kill_allocating_task": 0,
        "vm.overcommit_memory": 1,
        "vm.panic_on_oom": 0,
        "vm.zone_reclaim_mode": 0,
    },
    huge_pages="madvise",
    defrag="madvise",
    isolated_cpus=CpuSet(),
    present_cpus=CpuSet.from_ids(range(8)),
    acpi_tables=frozenset({"SRAT", "SLIT", "HMAT"}),
    is_guest=False,
    devices=(HeldDevice("network", "0000:3b:00.0", 0), HeldDevice("gpu", "0000:5e:00.0", 0)),
)
_POLICIES = {
    "memoryManagerPolicy": "memory_manager_policy",
    "cpuManagerPolicy": "cpu_manager_policy",
    "topologyManagerPolicy": "topology_manager_policy",
    "topologyManagerScope": "topology_manager_scope",
}


class Case(NamedTuple):
    """One line of a table of rules."""

    rule: str
    state: SetupState
    says: str
    """A part of its messages."""
    changes: Sequence[Change] = ()

    @property
    def name(self) -> str:
        return f"{self.rule}-{self.state}-{self.says}"


def case(rule: str, state: SetupState, says: str, *changes: Change) -> Case:
    return Case(rule, state, says, changes)


def judged(one: Case) -> SetupResult:
    """What the rule finds on that host."""
    return next(rule for rule in RULES if rule.id == one.rule).judge(changed(*one.changes))


def changed(*changes: Change) -> SetupEvidence:
    evidence = SetupEvidence(replace(_captured(NODE), settings=GOOD))
    for change in changes:
        evidence = change(evidence)
    return evidence


def uncovered(cases: Sequence[Case], area: str) -> dict[str, set[str]]:
    """Rule of the area -> which of wrong, right and unknown no case shows."""
    kinds = {"pass": "right", "not-judged": "unknown"}
    shown: dict[str, set[str]] = {rule.id: set() for rule in RULES if rule.area == area}
    for one in cases:
        shown[one.rule].add(kinds.get(one.state, "wrong"))
    wanted = {"wrong", "right", "unknown"}
    return {rule: wanted - found for rule, found in shown.items() if found != wanted}


@cache
def _captured(name: str) -> Snapshot:
    return Engine(Observer.of(Host.under(FIXTURES / name))).tick().snapshot


def host(name: str) -> Change:
    """Another captured host."""
    return lambda before: SetupEvidence(replace(_captured(name), settings=before.settings))


def snapshot(**fields: object) -> Change:
    return lambda before: SetupEvidence(replace(before.snapshot, **fields))


def settings(**fields: object) -> Change:
    return lambda before: snapshot(settings=replace(before.settings, **fields))(before)


def sysctl(name: str, value: int | None) -> Change:
    """None = the kernel has no such one."""

    def change(before: SetupEvidence) -> SetupEvidence:
        others = {key: other for key, other in before.settings.sysctls.items() if key != name}
        return settings(sysctls=others if value is None else {**others, name: value})(before)

    return change


def intent(**fields: object) -> Change:
    return lambda before: snapshot(intent=replace(before.intent, **fields))(before)


def kubelet(**fields: object) -> Change:
    """Fields of its configuration."""

    def change(before: SetupEvidence) -> SetupEvidence:
        policies = {_POLICIES[name]: value for name, value in fields.items() if name in _POLICIES}
        document = {**before.document, **fields}
        return intent(config=replace(before.config, document=document, **policies))(before)

    return change


def config(**fields: object) -> Change:
    """What is known of the kubelet, such as its version."""
    return lambda before: intent(config=replace(before.config, **fields))(before)


def nodes(*changed: Node) -> Change:
    """Other nodes than the host has."""
    return lambda before: snapshot(machine=replace(before.machine, nodes=changed))(before)


def each_node(change: Callable[[Node], Node]) -> Change:
    return lambda before: nodes(*map(change, before.machine.nodes))(before)


def node(id_: int, **fields: object) -> Change:
    return each_node(lambda one: replace(one, **fields) if one.id == id_ else one)


def so_many_nodes(count: int) -> Change:
    return nodes(*(Node(id_, CpuSet.of(id_), GIB, distances={0: 10}) for id_ in range(count)))


def sockets(*of_nodes: int | None) -> Change:
    """The socket of each node."""

    def change(before: SetupEvidence) -> SetupEvidence:
        cpus = tuple(replace(cpu, socket=of_nodes[cpu.node or 0]) for cpu in before.machine.cpus)
        return snapshot(machine=replace(before.machine, cpus=cpus))(before)

    return change


def mapped(id_: int, resource: str = "memory", **fields: int) -> Change:
    """A table of the Memory Manager's map."""

    def change(before: SetupEvidence) -> SetupEvidence:
        machine = dict(before.intent.machine or {})
        tables = dict(machine[id_].memory_map)
        tables[resource] = replace(tables[resource], **fields)
        machine[id_] = replace(machine[id_], memory_map=tables)
        return intent(machine=machine)(before)

    return change


def each_container(**fields: object) -> Change:
    """Of the kubelet's intent."""
    return lambda before: intent(containers=tuple(replace(one, **fields) for one in before.intent.containers))(before)


def pod(*containers: dict[str, Any], qos: QosClass = "Guaranteed", **spec: object) -> Change:
    """The only pod: containers by their resources, of which limits are requests too where those are not given."""

    def change(before: SetupEvidence) -> SetupEvidence:
        parts = [{"name": f"c{number}", "resources": one} for number, one in enumerate(containers)]
        manifest = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": parts, **spec}}
        named = tuple(PodContainer(f"c{number}", "app") for number in range(len(parts)))
        facts = PodFacts("u", "shop", "web", qos, "Running", containers=named, spec=read_pod(manifest))
        return intent(pods={"u": facts})(before)

    return change


def device(kind: DeviceKind, on: int | None, slot: int = 0) -> HeldDevice:
    return HeldDevice(kind, f"0000:{slot:02x}:00.0", on)
