"""Will the kubelet start? Every cause has a name, and what a kubelet refuses is never called fine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fixture_trees import FIXTURES
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.file import Checkpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.start.memory_start import machine_changes, reserved_in
from numaudit.checkpoints.start.outlook import KubeletAtStart, Outlook, examine
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.replay import check_start
from numaudit.containermanager.memory.state import (
    Block,
    MemoryState,
    MemoryTable,
    NUMANodeState,
    charge,
    default_machine_state,
)
from numaudit.topology.machine import Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet

KUBELET = FIXTURES / "kubelet-1.36"
TROUBLE = FIXTURES / "memory-manager-state"
GI = 2**30
MI = 2**20

ONE_RUNNING = KUBELET / "standalone-single-numa-node/1-running"
POD_LEVEL = KUBELET / "standalone-pod-level-resources/1"
NEWEST = KubeletAtStart()
PODS_ON = KubeletAtStart(pod_level=True)
INCOMPLETE = ["pod-level-incomplete", "pod-level-charged-again"]
PODS_OFF = KubeletAtStart(pod_level=False)


def read(path: Path) -> Checkpoint:
    data = path.read_bytes()
    return checkpoints.parse(checkpoints.kind_of(path.name, data), data)


def outlook_of(checkpoint: Checkpoint, machine: Machine | None = None, kubelet: KubeletAtStart = NEWEST) -> Outlook:
    return examine(checkpoint, checkpoints.verify(checkpoint), machine, kubelet)


def names(outlook: Outlook) -> list[str]:
    return [finding.name for finding in outlook.findings]


def guest(*totals: int, huge: tuple[int, ...] = (16, 16, 16, 16), sizes: tuple[int, ...] = (2 * MI, GI)) -> Machine:
    """The four-node machine of the captured files: 2 CPUs a node, 2 MiB pages as given, no 1 GiB pages."""
    return Machine(
        nodes=tuple(
            Node(
                id_,
                CpuSet.of(2 * id_, 2 * id_ + 1),
                total,
                tuple(HugePages(size, huge[id_] if size == 2 * MI else 0) for size in sizes),
            )
            for id_, total in enumerate(totals)
        ),
        cpus=tuple(Cpu(cpu, cpu // 2, 0, cpu) for cpu in range(2 * len(totals))),
    )


FIRST_BOOT = (1055182848, 950448128, 1056247808, 1054326784)
ANOTHER_BOOT = (1055182848, 989007872, 1017688064, 1054330880)


def test_a_kubelet_starts_again_on_the_machine_its_file_is_from() -> None:
    for name in ("memory_manager_state", "cpu_manager_state"):
        outlook = outlook_of(read(ONE_RUNNING / name), guest(*FIRST_BOOT))
        assert outlook.is_valid
        assert outlook.starts_now == "yes"
    memory = outlook_of(read(ONE_RUNNING / "memory_manager_state"), guest(*FIRST_BOOT))
    assert names(memory) == ["reboot-may-change-totals"]
    assert memory.starts_after_reboot == "at risk"
    assert outlook_of(read(ONE_RUNNING / "cpu_manager_state"), guest(*FIRST_BOOT)).starts_after_reboot == "yes"


def test_a_file_without_its_machine_is_judged_by_itself() -> None:
    outlook = outlook_of(read(ONE_RUNNING / "memory_manager_state"))
    assert (outlook.findings, outlook.starts_now, outlook.starts_after_reboot) == ((), "unknown", "unknown")


def test_policy_none_starts_everywhere() -> None:
    outlook = outlook_of(MemoryCheckpoint.of("None", MemoryState({})))
    assert (outlook.findings, outlook.starts_now, outlook.starts_after_reboot) == ((), "yes", "yes")
    assert outlook_of(CpuCheckpoint.of("none", CPUState(CpuSet()))).starts_after_reboot == "yes"


def test_totals_of_another_boot_are_drift() -> None:
    """Two boots of one real guest, 38 MB apart on two nodes."""
    outlook = outlook_of(read(ONE_RUNNING / "memory_manager_state"), guest(*ANOTHER_BOOT))
    drift = [finding for finding in outlook.findings if finding.severity == "error"]
    assert [(one.name, one.where) for one in drift] == [
        ("memory-total-drift", f"machineState.{node}.memoryMap.memory.total") for node in (1, 2, 3)
    ]
    assert drift[0].message == (
        "node 1: memory total is 906Mi (950448128 bytes) in the file, 943Mi (989007872 bytes) on this machine "
        "(+38559744); the sum over all nodes +4096"
    )
    assert (outlook.is_valid, outlook.starts_now, outlook.starts_after_reboot) == (False, "no", "no")


def test_bytes_that_moved_to_the_other_node_are_drift() -> None:
    """kubernetes/kubernetes#131253 and #109996."""
    file = read(TROUBLE / "total-moved-between-nodes/memory_manager_state")
    pages = (HugePages(2 * MI, 0), HugePages(GI, 0))
    totals = (134799134720, 135291469824)
    assert names(
        outlook_of(file, Machine(tuple(Node(i, memory=t, huge_pages=pages) for i, t in enumerate(totals))))
    ) == ["reboot-may-change-totals"]
    for drift, cause in ((128 * MI, "memory-total-drift"), (128 * MI + 4096, "memory-size-changed")):
        one = Machine(
            (Node(0, memory=totals[0], huge_pages=pages), Node(1, memory=totals[1] + drift, huge_pages=pages))
        )
        assert names(outlook_of(file, one))[:1] == [cause]
    moved = (totals[0] - 43696128, totals[1] + 43696128)
    outlook = outlook_of(file, Machine(tuple(Node(i, memory=t, huge_pages=pages) for i, t in enumerate(moved))))
    assert names(outlook)[:2] == ["memory-total-drift", "memory-total-drift"]
    assert "(-43696128); the sum over all nodes is the same" in outlook.findings[0].message
    assert "drain first and delete the file" in outlook.findings[0].remedy
    assert outlook.starts_now == "no"


def test_memory_that_came_or_went_is_not_called_drift() -> None:
    halved = (FIRST_BOOT[0], FIRST_BOOT[1], FIRST_BOOT[2] // 2, FIRST_BOOT[3])
    outlook = outlook_of(read(ONE_RUNNING / "memory_manager_state"), guest(*halved))
    assert "memory-size-changed" in names(outlook)
    assert "memory-total-drift" not in names(outlook)


def test_overlapping_groups_leave_the_start_to_chance() -> None:
    """kubernetes/kubernetes#113035."""
    outlook = outlook_of(read(TROUBLE / "groups-overlap/memory_manager_state"))
    assert names(outlook) == ["groups-overlap"]
    assert outlook.findings[0].message == "node 1 is in group [0, 1], but node 0 in [0]"
    assert (outlook.is_valid, outlook.starts_now) == (False, "at risk")


def test_pod_entries_that_the_checksum_leaves_out_are_stale() -> None:
    """kubernetes/kubernetes#139050."""
    outlook = outlook_of(read(TROUBLE / "stale-pod-entries/memory_manager_state"), kubelet=PODS_ON)
    assert outlook.verification.form == "V1"
    assert names(outlook) == ["stale-pod-entries"]
    assert "4b2b5407482bb7e6c64357a490c8912e" in outlook.findings[0].message


def test_a_pod_without_blocks_in_its_containers_is_incomplete() -> None:
    """kubernetes/kubernetes#141993."""
    outlook = outlook_of(read(TROUBLE / "pod-level-incomplete/memory_manager_state"), kubelet=PODS_ON)
    assert outlook.verification.form == "V2"
    assert names(outlook) == ["pod-level-incomplete", "pod-level-charged-again"]
    assert outlook.findings[0].where == "podEntries.fa499850f2e2a52f13167a7b3d4a65c8"


@pytest.mark.parametrize(
    ("pod", "container", "message"),
    [
        ((), (Block((0,), "memory", 1),), "pod uid has no blocks of its own"),
        ((Block((0,), "memory", 9),), (Block((0,), "memory", 10),), "has 10 bytes of memory outside the pod's own"),
        ((Block((0,), "memory", 9),), (Block((1,), "memory", 9),), "has 9 bytes of memory outside the pod's own"),
        ((Block((0,), "memory", 9),), (Block((0,), "hugepages-2Mi", 9),), "has 9 bytes of hugepages-2Mi outside"),
    ],
)
def test_blocks_of_a_container_lie_within_those_of_its_pod(
    pod: tuple[Block, ...], container: tuple[Block, ...], message: str
) -> None:
    table = MemoryTable(100, 0, 100, 0, 100)
    machine = {id_: NUMANodeState(0, {"memory": table, "hugepages-2Mi": table}, (id_,)) for id_ in (0, 1)}
    file = MemoryCheckpoint.of(
        "Static", MemoryState(machine, {"uid": {"app": container}}, {"uid": pod}), pod_level=True
    )
    file = replace(file, pod_entries={"uid": pod or None})
    file = replace(file, checksum=checkpoints.verify(file).computed)
    found = [one.message for one in outlook_of(file, kubelet=PODS_ON).findings if one.name == "pod-level-incomplete"]
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize("name", ["memory_manager_state", "cpu_manager_state"])
def test_a_pod_level_file_is_corrupt_for_a_kubelet_without_the_gate(name: str) -> None:
    file = read(POD_LEVEL / name)
    assert names(outlook_of(file)) == names(outlook_of(file, kubelet=PODS_ON)) == ["pod-level-charged-again"]
    for kubelet, on in (
        (PODS_OFF, "1.36 with PodLevelResourceManagers off"),
        (KubeletAtStart((1, 35), True), "1.35 with"),
    ):
        outlook = outlook_of(file, kubelet=kubelet)
        assert "format-not-accepted" in names(outlook)
        assert on in outlook.findings[0].message
        assert outlook.starts_now == "no"


def test_a_wrong_checksum_stops_the_start_and_all_further_judgement() -> None:
    for name in ("memory_manager_state", "cpu_manager_state"):
        file = replace(read(ONE_RUNNING / name), checksum=1)
        outlook = outlook_of(file, guest(*ANOTHER_BOOT))
        assert names(outlook) == ["checksum-mismatch"]
        assert outlook.starts_now == "no"
        assert outlook.findings[0].message.startswith("the file says 1, its content gives ")


def test_a_checksum_of_0_is_taken_by_1_36_alone() -> None:
    file = replace(read(ONE_RUNNING / "memory_manager_state"), checksum=0)
    assert names(outlook_of(file)) == ["checksum-missing"]
    assert names(outlook_of(file, kubelet=KubeletAtStart((1, 35)))) == ["checksum-missing", "format-not-accepted"]


def test_changed_huge_pages_are_named() -> None:
    """The capture of a real kubelet that did not start after 16 pages became 12 on one node."""
    file = read(KUBELET / "standalone-restart-errors/1/memory_manager_state")
    assert names(outlook_of(file, guest(*ANOTHER_BOOT))) == ["reboot-may-change-totals"]
    outlook = outlook_of(file, guest(*ANOTHER_BOOT, huge=(16, 16, 12, 16)))
    assert names(outlook) == ["huge-pages-changed", "reboot-may-change-totals"]
    assert outlook.findings[0].message == (
        "node 2: hugepages-2Mi total is 32Mi in the file, 24Mi on this machine (-8388608)"
    )
    assert "nr_hugepages" in outlook.findings[0].remedy
    assert outlook.starts_now == "no"


def test_another_machine_is_named_by_what_it_lacks() -> None:
    file = read(ONE_RUNNING / "memory_manager_state")
    assert "nodes-changed" in names(outlook_of(file, guest(*FIRST_BOOT[:3])))
    assert "huge-page-sizes-changed" in names(outlook_of(file, guest(*FIRST_BOOT, sizes=(2 * MI,))))


def broken(**changes: object) -> MemoryCheckpoint:
    """A two-node file in which one thing is wrong, with a fitting checksum."""
    machine = Machine(tuple(Node(id_, memory=8 * GI) for id_ in (0, 1)))
    default = default_machine_state(machine, {0: {"memory": GI}})
    block = Block((0,), "memory", GI)
    state = MemoryState(charge(default, (0,), "memory", GI), {"uid": {"app": (block,)}})
    return MemoryCheckpoint.of(str(changes.pop("policy", "Static")), structs.replace(state, **changes))


def table(total: int, system: int, allocatable: int, reserved: int, free: int) -> dict[int, NUMANodeState]:
    node = {"memory": MemoryTable(total, system, allocatable, reserved, free)}
    return {0: NUMANodeState(0, node, (0,))}


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (broken(), []),
        (broken(policy="static"), ["policy-unknown"]),
        (broken(machine={}), ["machine-state-missing"]),
        (broken(machine={}, entries={}), []),
        (broken(entries={}), ["entries-do-not-add-up"]),
        (broken(entries={"uid": {"app": (Block((5,), "memory", 1),)}}), ["assignment-to-missing-node"]),
        (broken(entries={"uid": {"app": (Block((0,), "hugepages-1Gi", 1),)}}), ["assignment-to-missing-node"]),
        (broken(machine=table(10, 1, 8, 0, 8), entries={}), ["table-inconsistent"]),
        (broken(machine=table(10, 1, 9, 0, 8), entries={}), ["table-inconsistent", "entries-do-not-add-up"]),
        (broken(machine=table(10, 11, 2**64 - 1, 0, 2**64 - 1), entries={}), ["reservation-too-large"]),
    ],
)
def test_each_inner_contradiction_has_a_name(file: MemoryCheckpoint, expected: list[str]) -> None:
    assert names(outlook_of(file)) == expected


def test_unknown_keys_are_findings() -> None:
    data = (ONE_RUNNING / "cpu_manager_state").read_bytes().replace(b'"policyName"', b'"extra":1,"policyName"')
    outlook = outlook_of(checkpoints.parse("cpu_manager_state", data))
    assert names(outlook) == ["unknown-key"]
    assert outlook.findings[0].where == "extra"
    assert outlook.is_valid


def cpus(default: str, held: dict[str, str], **more: CpuSet) -> CpuCheckpoint:
    entries = {"uid": {name: CpuSet.parse(text) for name, text in held.items()}}
    return CpuCheckpoint.of(
        "static", CPUState(CpuSet.parse(default), entries if held else {}, more), pod_level=bool(more)
    )


@pytest.mark.parametrize(
    ("file", "expected", "says"),
    [
        (cpus("0,2-7", {"app": "1"}), [], ""),
        (cpus("0,2-7", {"init": "1", "app": "1"}), [], ""),
        (cpus("", {}), [], ""),
        (cpus("", {"app": "1"}), ["cpu-state-refused"], "default cpuset cannot be empty"),
        (cpus("0-7", {"app": "1"}), ["cpu-state-refused"], 'cpuset: "1" overlaps with default cpuset "0-7"'),
        (cpus("0,2-9", {"app": "1"}), ["cpu-state-refused"], 'CPUs "0-7" doesn\'t match with CPUs in state "0-9"'),
        (cpus("2-7", {"app": "1"}), ["cpus-not-in-state"], "CPU 0 is online but in no set of the file"),
        (cpus("0,3-7", {"app": "1"}, uid=CpuSet.of(1, 2)), ["pod-level-charged-again"], ""),
        (cpus("0,3-7", {}, uid=CpuSet.of(1, 2)), INCOMPLETE, "none of its containers has any"),
        (cpus("0,3-7", {"app": "1-2"}, uid=CpuSet.of(1)), INCOMPLETE, "has CPU 2 outside the pod's own"),
    ],
)
def test_the_cpu_state_is_judged_with_the_kubelets_words(file: CpuCheckpoint, expected: list[str], says: str) -> None:
    outlook = outlook_of(file, guest(*FIRST_BOOT), PODS_ON)
    assert names(outlook) == expected
    assert says in "".join(finding.message for finding in outlook.findings)


@pytest.mark.parametrize("held", [{}, {"app": "1"}])
def test_a_machine_whose_cpus_are_not_known_leaves_the_cpu_state_unknown(held: dict[str, str]) -> None:
    blind = structs.replace(guest(*FIRST_BOOT), cpus=())
    outlook = outlook_of(cpus("0,2-7", held), blind)
    assert names(outlook) == []
    assert (outlook.starts_now, outlook.starts_after_reboot) == ("unknown", "unknown")
    assert outlook_of(cpus("", {"app": "1"}), blind).starts_now == "no"
    memory = read(ONE_RUNNING / "memory_manager_state")
    assert outlook_of(memory, blind) == outlook_of(memory, guest(*FIRST_BOOT))


def test_a_cpu_whose_node_is_not_known_is_online_all_the_same() -> None:
    machine = guest(*FIRST_BOOT)
    half = structs.replace(machine, cpus=(*machine.cpus[:-1], structs.replace(machine.cpus[-1], node=None)))
    assert outlook_of(cpus("0,2-7", {"app": "1"}), half).starts_now == "yes"


def test_cpus_in_no_set_are_refused_before_strict_reservation_existed() -> None:
    file = cpus("2-7", {"app": "1"})
    assert names(outlook_of(file, guest(*FIRST_BOOT), KubeletAtStart((1, 31)))) == ["cpu-state-refused"]
    assert names(outlook_of(file)) == []


def test_pod_entries_without_checksum_are_findings() -> None:
    stale = replace(cpus("0,2-7", {"app": "1"}), pod_entries={"uid": "1"})
    assert names(outlook_of(stale, guest(*FIRST_BOOT))) == ["stale-pod-entries"]
    assert names(outlook_of(CpuCheckpoint.of("Static", CPUState(CpuSet.of(0))))) == ["policy-unknown"]


def test_a_corrupt_device_file_does_not_stop_the_kubelet_but_is_an_error() -> None:
    file = DeviceCheckpoint.of((PodDevices("u", "c", "r", {0: ("d",)}, b""),), {"r": ("d",)})
    assert outlook_of(file).findings == ()
    outlook = outlook_of(structs.replace(file, checksum=5))
    assert names(outlook) == ["devices-lost"]
    assert (outlook.is_valid, outlook.starts_now) == (False, "yes")


totals = st.integers(4 * GI, 4 * GI + 3)
blocks = st.lists(
    st.builds(Block, st.sampled_from([(0,), (1,), (0, 1)]), st.just("memory"), st.integers(0, GI)), max_size=3
)
small = st.integers(-1, 1)


@given(blocks, st.tuples(totals, totals), st.tuples(small, small, small), st.sampled_from([(1, 28), (1, 36)]))
def test_starts_now_is_no_exactly_when_a_kubelet_refuses(
    wanted: list[Block], live: tuple[int, int], noise: tuple[int, int, int], version: tuple[int, int]
) -> None:
    """Whatever is wrong with the file or has changed on the machine."""
    default = default_machine_state(Machine(tuple(Node(id_, memory=4 * GI) for id_ in (0, 1))), {})
    state = default
    for block in wanted:
        state = charge(state, block.numa_affinity or (), block.type, block.size)
    one = state[0].memory_map["memory"]
    changed = structs.replace(one, reserved=max(0, one.reserved + noise[0]), allocatable=one.allocatable + noise[1])
    node = structs.replace(
        state[0],
        memory_map={"memory": changed},
        number_of_assignments=max(0, state[0].number_of_assignments + noise[2]),
    )
    entries = {f"pod-{index}": {"app": (block,)} for index, block in enumerate(wanted)}
    file = MemoryCheckpoint.of("Static", MemoryState({**state, 0: node}, entries))
    machine = Machine(tuple(Node(id_, memory=total) for id_, total in enumerate(live)))
    outlook = outlook_of(file, machine, KubeletAtStart(version))
    live_default = default_machine_state(machine, reserved_in(file.state.machine))
    refused = check_start(file.state, live_default, version=version)
    if outlook.starts_now == "at risk":
        assert "groups-overlap" in names(outlook)
    else:
        assert outlook.starts_now == ("yes" if refused is None else "no")
    assert (refused is None) <= (not list(machine_changes(file.state.machine, live_default)))
