"""Which processes have memory on wrong nodes: the five largest, their facts, and names from outside inert."""

from __future__ import annotations

import io

from msgspec.structs import replace
from rich.console import Console

from numaudit.containermanager.memory.state import Block
from numaudit.encoding.value import Timestamp
from numaudit.evaluation.alignment import judge
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import (
    Allowed,
    Container,
    ContainerId,
    Mappings,
    NodeMemory,
    ProcessMapping,
    Resident,
    Snapshot,
)
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.terminal.one_container import print_processes

MIB = 1 << 20
DB = ContainerId(1)
MACHINE = Machine((Node(0, CpuSet.of(0), 1 << 30), Node(1, CpuSet.of(1), 1 << 30)))


def row(pid: int, sizes: dict[int, int], kind: str = "anon", file: str | None = None) -> ProcessMapping:
    return ProcessMapping(pid, "postgres", Timestamp(1_700_000_000), kind, "default", file, sizes)


def spilled(*rows: ProcessMapping, processes: int = 1) -> Report:
    """Promised node 0; 32 MiB are on node 1 for the second tick."""
    memory = (Block.of("memory", 100 * MIB, NodeSet.of(0)),)
    snapshot = Snapshot(
        taken_at=1000.0,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=(
            Container(DB, "/kubepods/db", "container", qos="Guaranteed", pod_uid="uid", namespace="prod", pod="db",
                      name="app"),
        ),
        allowed={DB: Allowed(NodeSet.of(0), CpuSet.of(0))},
        residency={DB: Resident(anon={0: MIB, 1: 32 * MIB}, shmem={})},
        numa_maps={DB: Mappings({}, {}, {}, 1, processes, (), rows)},
        nodes=tuple(NodeMemory(node, 1 << 30, 512 * MIB, Resident()) for node in (0, 1)),
        intent=Intent(
            containers=(ContainerIntent("uid", "app", cgroups=(DB,), promise=Promise(memory=memory)),),
            config=KubeletConfig(memory_manager_policy="Static"),
        ),
    )  # fmt: skip
    return build(snapshot, judge(snapshot, earlier=judge(replace(snapshot, taken_at=985.0))))


def printed(report: Report) -> list[str]:
    out = io.StringIO()
    print_processes(report, Console(file=out, width=500, highlight=False, markup=False))
    return out.getvalue().splitlines()


def test_the_mappings_with_the_most_bytes_elsewhere_come_first_and_five_are_enough() -> None:
    rows = [row(pid, {0: 64 * MIB, 1: pid * MIB}) for pid in range(1, 8)]
    (one,) = spilled(*rows, row(9, {0: 99 * MIB})).containers
    assert [(each.pid, each.bytes_by_node) for each in one.elsewhere or ()] == [
        (pid, {1: pid * MIB}) for pid in (7, 6, 5, 4, 3)
    ]


def test_a_process_is_shown_with_its_start_kind_policy_and_shared_file() -> None:
    lines = printed(spilled(row(7, {1: 32 * MIB}, "shmem", "/dev/shm/held")))
    assert lines[1] == "prod/db/app: on nodes other than 0, by process"
    assert lines[3].split() == ["7", "postgres", "2023-11-14", "22:13:20", "shmem", "default", "32Mi", "/dev/shm/held"]
    assert lines[4] == "now: node 0 has 512Mi of 1Gi free, it may use memory of node 0"


def test_processes_that_were_not_read_are_said() -> None:
    assert printed(spilled(row(7, {1: MIB}), processes=3))[-1] == "1 of its 3 processes were read"


def test_nothing_is_printed_where_no_process_has_memory_elsewhere() -> None:
    assert printed(spilled(row(7, {0: MIB}))) == []


def test_a_process_that_ended_has_a_question_mark() -> None:
    ended = ProcessMapping(7, None, None, "heap", "default", None, {1: MIB})
    assert printed(spilled(ended))[3].split() == ["7", "?", "?", "heap", "default", "1Mi"]


def test_a_spill_says_that_its_beginning_is_not_known() -> None:
    (one,) = spilled(row(7, {1: 32 * MIB})).containers
    assert one.verdict is not None
    assert one.verdict.name == "spilled"
    (unknown,) = [each for each in one.unknown if each.what == "when its bytes came to other nodes"]
    assert "the kernel keeps no history" in unknown.reason
