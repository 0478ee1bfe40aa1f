"""The kubelet's settings that a machine needs: a kubelet starts with them, on any machine and with any wish."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.containermanager.memory.state import default_machine_state
from numaudit.errors import InputError, Unavailable
from numaudit.evaluation.setup.kubelet_config import Want, kubelet_settings
from numaudit.evaluation.setup.node_reservations import STEP, Reserve, spread
from numaudit.evaluation.setup.rule import SetupEvidence
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import Intent
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.snapshot import Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.snapshot.host_settings import HostSettings, Zone
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.views.kubelet_yaml import to_yaml

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10
SERVICE, GUARANTEED, BURSTABLE = ContainerId(1), ContainerId(2), ContainerId(3)
UNITS = {"Ki": KIB, "Mi": MIB, "Gi": GIB, "M": 10**6, "": 1}
RESERVES: tuple[Reserve, ...] = ("measured", "even")
WANTS: tuple[Want, ...] = ("single-numa-node", "restricted", "pod-scope")


def amount(text: object) -> int:
    """Bytes, of the few ways in which these tests and the output write them."""
    digits = str(text).rstrip("KMGi")
    return int(digits) * UNITS[str(text)[len(digits) :]]


def machine(*memory: int, cores: int = 4, threads: int = 2, huge: int = 0, far: int = 0) -> Machine:
    """Nodes of these sizes in bytes, each with as many cores; `far`: how much further the second next node is."""
    nodes, cpus = [], []
    for node, size in enumerate(memory):
        own = CpuSet.from_ids(range(node * cores * threads, (node + 1) * cores * threads))
        for first in range(min(own), max(own), threads):
            siblings = CpuSet.from_ids(range(first, first + threads))
            cpus += [Cpu(cpu, node, node, first, siblings) for cpu in siblings]
        distances = {to: 10 + (to != node) * (10 + far * abs(to - node)) for to in range(len(memory))}
        nodes.append(Node(node, own, size, (HugePages(2 * MIB, huge),) if huge else (), distances))
    return Machine(tuple(nodes), tuple(cpus))


def evidence(
    of: Machine,
    document: dict[str, object] | None = None,
    *,
    service: dict[int, int] | None = None,
    version: str | None = "v1.36.2",
) -> SetupEvidence:
    """A service holds this much by node, and the kernel 1 MiB of each."""
    config = KubeletConfig(version=version, document={} if document is None else document)
    return SetupEvidence(
        Snapshot(
            taken_at=1.0,
            machine=of,
            cgroup_mode="v2",
            containers=(
                Container(SERVICE, "/system.slice", "service"),
                Container(GUARANTEED, "/g", "container", qos="Guaranteed", pod_uid="g"),
                Container(BURSTABLE, "/b", "container", qos="Burstable", pod_uid="b"),
            ),
            residency={SERVICE: Resident(anon=service or {0: 1}), GUARANTEED: Resident(anon={0: 50 * GIB})},
            unattributed=Resident(),
            nodes=tuple(NodeMemory(node.id, node.memory, None, Resident(), kernel_held=MIB) for node in of.nodes),
            settings=HostSettings(zones={node.id: (Zone("Normal", 1 << 20, 16),) for node in of.nodes}),
            intent=Intent(config=config),
        )
    )


def fields(given: SetupEvidence, want: Want = "single-numa-node", reserve: Reserve = "measured") -> dict[str, Any]:
    """What the printed text says."""
    found = yaml.safe_load(to_yaml(kubelet_settings(given, want, reserve)))
    assert isinstance(found, dict)
    return found


def by_node(found: dict[str, Any]) -> dict[int, int]:
    return {one["numaNode"]: amount(one["limits"]["memory"]) for one in found["reservedMemory"]}


def test_each_node_reserves_what_is_in_use_there_with_its_share_of_the_threshold_of_eviction() -> None:
    found = fields(evidence(machine(8 * GIB, 8 * GIB), service={0: 100 * MIB, 1: 13 * MIB}))
    assert by_node(found) == {0: 192 * MIB, 1: 64 * MIB}  # 100 + 1 + 50 and 13 + 1 + 50
    assert found["systemReserved"] == {"memory": "156Mi"}
    assert found["evictionHard"]["memory.available"] == "100Mi"
    assert found["evictionHard"]["nodefs.available"] == "10%"


def test_one_byte_more_than_a_step_takes_the_next_one() -> None:
    assert by_node(fields(evidence(machine(8 * GIB, 8 * GIB), service={1: 13 * MIB + 1})))[1] == 128 * MIB


def test_what_the_kernel_keeps_free_counts_where_it_is_more_than_the_share_of_eviction() -> None:
    at = evidence(machine(8 * GIB, 8 * GIB))
    zones = {node: (Zone("DMA32", 1 << 19, 0, (0, 0, pages)),) for node, pages in ((0, 63 << 8), (1, (63 << 8) + 1))}
    kept = replace(at.snapshot, settings=HostSettings(zones=zones), residency={SERVICE: Resident(anon={0: 0})})
    assert by_node(fields(SetupEvidence(kept))) == {0: 64 * MIB, 1: 128 * MIB}


def test_pods_that_are_not_guaranteed_count_and_those_that_will_be_promised_their_memory_do_not() -> None:
    at = evidence(machine(64 * GIB, 64 * GIB))
    held = {**at.snapshot.residency, BURSTABLE: Resident(shmem={1: 3 * GIB})}
    found = kubelet_settings(SetupEvidence(replace(at.snapshot, residency=held)), "restricted", "measured")
    text = to_yaml(found)
    assert by_node(yaml.safe_load(text)) == {0: 64 * MIB, 1: 3 * GIB + 64 * MIB}
    assert "services 0, pods that are not Guaranteed 3Gi, kernel 1Mi. To stay free: 50Mi" in text


def test_amounts_that_suffice_are_kept_and_their_rest_is_divided() -> None:
    document: dict[str, object] = {
        "kubeReserved": {"memory": "500M", "cpu": "1500m"},
        "systemReserved": {"memory": "1Gi"},
        "evictionHard": {"memory.available": "200Mi"},
    }
    found = fields(evidence(machine(8 * GIB, 8 * GIB), document))
    assert {name: found[name] for name in document} == document
    assert sum(by_node(found).values()) == 500 * 10**6 + 1224 * MIB
    assert found["reservedSystemCPUs"] == "0-1,8-9"


def test_a_percentage_becomes_an_amount_since_a_reboot_changes_what_it_is_of() -> None:
    found = fields(evidence(machine(8 * GIB), {"evictionHard": {"memory.available": "50%"}}))
    assert found["evictionHard"] == {"memory.available": "4Gi"}


def test_equal_parts_are_equal_but_for_a_node_that_is_too_small() -> None:
    wide = machine(8 * GIB, 256 * MIB, 8 * GIB)
    document: dict[str, object] = {"systemReserved": {"memory": "3Gi"}, "evictionHard": {"memory.available": "0%"}}
    assert by_node(fields(evidence(wide, document), reserve="even")) == {0: 1440 * MIB, 1: 192 * MIB, 2: 1440 * MIB}


def test_equal_parts_of_a_set_sum_need_no_measurement_and_else_there_is_no_answer() -> None:
    at = evidence(machine(8 * GIB, 8 * GIB), {"systemReserved": {"memory": "900Mi"}})
    unread = SetupEvidence(replace(at.snapshot, residency={}))
    assert by_node(fields(unread, reserve="even")) == {0: 500 * MIB, 1: 500 * MIB}
    with pytest.raises(Unavailable, match="was not measured: the memory of no container could be read"):
        fields(unread)
    unset = replace(unread.snapshot, intent=None)
    with pytest.raises(Unavailable, match="was not measured"):
        fields(SetupEvidence(unset), reserve="even")


def test_near_nodes_are_asked_for_where_distances_differ_and_promises_may_have_several_nodes() -> None:
    def options(count: int, far: int, want: Want = "restricted", version: str = "v1.36.2") -> object:
        of = machine(*[8 * GIB] * count, far=far)
        return fields(evidence(of, version=version), want).get("topologyManagerPolicyOptions")

    near = {"prefer-closest-numa-nodes": "true"}
    assert options(3, 1) == options(3, 1, version="v1.28.0") == near
    assert options(2, 1) is options(3, 0) is options(3, 1, "pod-scope") is options(3, 1, version="v1.27.3") is None
    assert (options(8, 0), options(9, 0)) == (None, {"max-allowable-numa-nodes": "9"})


def test_each_wish_is_a_policy_and_a_scope() -> None:
    def wished(want: Want, **document: object) -> tuple[str, str]:
        found = fields(evidence(machine(8 * GIB, 8 * GIB), document), want)
        return found["topologyManagerPolicy"], found["topologyManagerScope"]

    assert [wished(want) for want in WANTS] == [
        ("single-numa-node", "container"),
        ("restricted", "container"),
        ("single-numa-node", "pod"),
    ]
    assert wished("pod-scope", topologyManagerPolicy="restricted") == ("restricted", "pod")
    assert wished("restricted", topologyManagerScope="pod") == ("restricted", "pod")


def test_cpus_that_are_set_are_kept_and_a_node_without_any_is_named() -> None:
    at = evidence(machine(8 * GIB, 8 * GIB), {"reservedSystemCPUs": "0-1"})
    found = kubelet_settings(at, "restricted", "measured")
    assert found.document["reservedSystemCPUs"] == "0-1"
    assert "None is on node 1, where memory is reserved too." in to_yaml(found)


def test_cpus_are_not_named_where_a_cgroup_holds_the_system_since_no_kubelet_starts_with_both() -> None:
    document: dict[str, object] = {"systemReservedCgroup": "/system.slice", "systemReserved": {"cpu": "500m"}}
    text = to_yaml(kubelet_settings(evidence(machine(8 * GIB), document), "restricted", "measured"))
    assert "reservedSystemCPUs" not in yaml.safe_load(text)
    assert "With systemReservedCgroup no kubelet takes reservedSystemCPUs, so it is left out." in text
    with pytest.raises(Unavailable, match="unable to determine reserved CPU resources"):
        fields(evidence(machine(8 * GIB), {"kubeReservedCgroup": "/kubelet.slice"}))


def test_isolated_cores_are_not_for_the_system() -> None:
    at = evidence(machine(8 * GIB, cores=3))
    settings = replace(at.settings, isolated_cpus=CpuSet.parse("1"))
    assert fields(SetupEvidence(replace(at.snapshot, settings=settings)))["reservedSystemCPUs"] == "2-3"


def test_huge_pages_that_are_reserved_stay_on_their_nodes() -> None:
    shares = [{"numaNode": 1, "limits": {"hugepages-2Mi": "8Mi"}}]
    set_: dict[str, object] = {"kubeReserved": {"hugepages-2Mi": "8Mi"}, "reservedMemory": shares}
    found = fields(evidence(machine(8 * GIB, 8 * GIB, huge=16), set_))
    assert [one["limits"].get("hugepages-2Mi") for one in found["reservedMemory"]] == [None, "8Mi"]
    found = fields(evidence(machine(8 * GIB, 8 * GIB, huge=16), {"kubeReserved": {"hugepages-2Mi": "8Mi"}}))
    assert [one["limits"].get("hugepages-2Mi") for one in found["reservedMemory"]] == ["4Mi", "4Mi"]


def test_a_setting_that_stays_and_that_no_kubelet_starts_with_is_named() -> None:
    document: dict[str, object] = {"cpuManagerPolicyOptions": {"full-pcpus-only": "maybe"}}
    with pytest.raises(Unavailable, match=r"does not start .* cpuManagerPolicyOptions: .*full-pcpus-only"):
        fields(evidence(machine(8 * GIB), document))
    with pytest.raises(InputError, match="systemReserved"):
        fields(evidence(machine(8 * GIB), {"systemReserved": 3}))
    with pytest.raises(Unavailable, match="reservedSystemCPUs is not a list of CPUs"):
        fields(evidence(machine(8 * GIB), {"reservedSystemCPUs": "none"}))


def test_more_than_the_nodes_have_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"the system needs 16\.1Gi, and its nodes have 15\.9Gi"):
        fields(evidence(machine(8 * GIB, 8 * GIB), {"systemReserved": {"memory": "16Gi"}}))


def test_what_is_not_known_of_the_kubelet_is_said() -> None:
    at = evidence(machine(8 * GIB))
    text = to_yaml(kubelet_settings(SetupEvidence(replace(at.snapshot, intent=None)), "restricted", "measured"))
    for words in (
        "version is not known; 1.36 is the newest",
        "configuration is not known here",
        "one node with memory",
    ):
        assert words in " ".join(text.replace("\n# ", " ").split())


@given(st.integers(1, 40 * GIB), st.dictionaries(st.integers(0, 20), st.integers(0, 8 * GIB), min_size=1))
def test_any_amount_is_divided_exactly_and_within_each_room(total: int, rooms: dict[int, int]) -> None:
    total = min(total, sum(rooms.values()))
    parts = spread(total, rooms)
    assert sum(parts.values()) == total
    assert all(0 <= parts[node] <= room for node, room in rooms.items())


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """1 to 16 nodes of any size, some without CPUs, some without memory, with huge pages and threads."""
    threads, nodes, cpus = draw(st.integers(1, 2)), list[Node](), list[Cpu]()
    ids = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=16)))
    far = draw(st.integers(0, 3))
    for place, id_ in enumerate(ids):
        memory = draw(st.one_of(st.just(0), st.integers(1, 64 << 20))) * KIB if place else GIB
        cores = draw(st.integers(0, 4)) if place else 2
        first = [len(cpus) + threads * core for core in range(cores)]
        for cpu in first:
            siblings = CpuSet.from_ids(range(cpu, cpu + threads))
            cpus += [Cpu(one, id_, place // 2, cpu, siblings) for one in siblings]
        own = CpuSet.from_ids(cpu.id for cpu in cpus if cpu.node == id_)
        pages = HugePages(2 * MIB, draw(st.integers(0, memory // (2 * MIB) // 2)))
        nodes.append(
            Node(id_, own, memory, (pages,), {to: 10 if to == id_ else 20 + far * abs(to - id_) for to in ids})
        )
    return Machine(tuple(nodes), tuple(cpus))


def documents() -> st.SearchStrategy[dict[str, object]]:
    """Any configuration as it may be now, good or not for promises."""
    memory = st.one_of(st.integers(1, 3 << 30).map(str), st.sampled_from(["500M", "1Gi", "100Mi", "2000Ki"]))
    some = st.fixed_dictionaries({}, optional={"memory": memory, "cpu": st.sampled_from(["250m", "1", "3"])})
    threshold = st.fixed_dictionaries({}, optional={"memory.available": st.sampled_from(["5%", "1Gi", "0%", "333M"])})
    values: dict[str, st.SearchStrategy[object]] = {
        "kubeReserved": some,
        "systemReserved": some,
        "evictionHard": threshold,
        "memoryManagerPolicy": st.sampled_from(["None", "Static"]),
        "topologyManagerPolicy": st.sampled_from(["none", "best-effort", "restricted"]),
        "topologyManagerScope": st.sampled_from(["container", "pod"]),
    }
    return st.fixed_dictionaries({}, optional=values)


@given(
    machines(),
    documents(),
    st.lists(st.integers(0, 6 * GIB), min_size=16, max_size=16),
    st.sampled_from(WANTS),
    st.sampled_from(RESERVES),
    st.sampled_from(["v1.31.1", "v1.34.0", "v1.36.2", None]),
)
def test_any_machine_use_and_wish_get_settings_with_which_a_kubelet_starts(
    of: Machine, document: dict[str, object], use: list[int], want: Want, reserve: Reserve, version: str | None
) -> None:
    held = {node.id: min(size, node.memory or 0) for node, size in zip(of.nodes, use, strict=False)}
    try:
        found = fields(evidence(of, document, service=held, version=version), want, reserve)
    except Unavailable as error:
        event("refused")
        assert str(error).startswith("the system needs ")
        return
    kubelet, _ = read_kubelet({**document, **found}, of, kubernetes_version=(version or "1.36").strip("v"))
    reserved, limits = by_node(found), [found.get(name, {}) for name in ("kubeReserved", "systemReserved")]
    threshold = found["evictionHard"]["memory.available"]
    parts = [amount(one.get("memory", 0)) for one in limits] + [0 if threshold == "0%" else amount(threshold)]
    assert sum(reserved.values()) == sum(parts)
    rooms = {node.id: (node.memory or 0) - sum(pages.total for pages in node.huge_pages) * 2 * MIB for node in of.nodes}
    assert all(0 < size <= rooms[node] - STEP for node, size in reserved.items())
    if reserve == "measured":
        assert reserved.keys() == {node for node, room in rooms.items() if room >= STEP + MIB}
        assert all(size >= min(held[node], (rooms[node] - STEP) // MIB * MIB) for node, size in reserved.items())
    free = default_machine_state(of, kubelet.reserved_memory or {})
    assert all(free[node].memory_map["memory"].free > 0 for node in reserved)
