"""What is said below the tables: the reason of each verdict, and each remedy once."""

from __future__ import annotations

import io
from collections.abc import Mapping

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.findings import Finding
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.report.build import build
from numaudit.snapshot import Allowed, Container, ContainerId, Kind, Mappings, Resident, SharedMemory, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.terminal.report_tables import print_report
from screens.printed import table_of

MIB = 1 << 20
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))


def node(mems: Mapping[str, str | None], promised: bool = True) -> Snapshot:
    """Containers that were promised node 0 and run there: name -> nodes that its memory may be on."""
    ids = {name: ContainerId(number) for number, name in enumerate(mems, 1)}
    memory = (Block.of("memory", 100 * MIB, NodeSet.of(0)),)
    intents = tuple(
        ContainerIntent(f"uid-{name}", "app", cgroups=(id_,), promise=Promise(memory=memory))
        for name, id_ in ids.items()
    )
    return Snapshot(
        taken_at=1000.0,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=tuple(
            Container(
                id_,
                f"/kubepods/{name}",
                "container",
                qos="Guaranteed",
                pod_uid=f"uid-{name}",
                namespace="prod",
                pod=name,
                name="app",
            )
            for name, id_ in ids.items()
        ),
        allowed={
            ids[name]: Allowed(None if nodes is None else NodeSet.parse(nodes), CpuSet.of(0))
            for name, nodes in mems.items()
        },
        residency={id_: Resident(anon={0: 10 * MIB, 1: 0}) for id_ in ids.values()},
        intent=Intent(containers=intents if promised else (), config=KubeletConfig(memory_manager_policy="Static")),
    )


def printed(snapshot: Snapshot) -> list[str]:
    out = io.StringIO()
    print_report(build(snapshot), Console(file=out, width=500, highlight=False, markup=False))
    return out.getvalue().splitlines()


def test_the_worst_verdict_is_the_first_row_though_others_hold_as_much() -> None:
    lines = printed(node({"aa": "0", "bb": None, "cc": "1", "dd": "0"}))
    rows = table_of("\n".join(lines))[1:5]
    assert [line.split()[0] for line in rows] == [
        "prod/cc/app",
        "prod/bb/app",
        "prod/aa/app",
        "prod/dd/app",
    ]


def test_what_to_do_comes_before_the_table_and_names_a_few_of_many() -> None:
    lines = printed(node({f"{number:02}": "1" for number in range(20)}))
    table = next(number for number, line in enumerate(lines) if line.startswith("CONTAINER"))
    drifted = [number for number, line in enumerate(lines) if ": drifted: " in line and line.startswith("prod/")]
    assert len(drifted) == 3
    more = lines.index(
        "drifted: 17 more (prod/03/app, prod/04/app, prod/05/app and 14 more); -o wide says why",
    )
    (remedy,) = (number for number, line in enumerate(lines) if "Write the promised nodes back" in line)
    assert max(drifted) < more < remedy < table


@pytest.mark.parametrize(
    ("number", "folded"), [(3, []), (4, ["warning: stale: 1 more (prod/3/app); -o wide says why"])]
)
def test_of_findings_of_one_kind_three_are_explained(number: int, folded: list[str]) -> None:
    stale = Finding("stale", "warning", "", "Wait.", None, None, "app", None, "prod", None)
    found = tuple(replace(stale, pod=str(one), message=f"reason {one}") for one in range(number))
    out, of = io.StringIO(), replace(build(node({"aa": "0"})), findings=found)
    print_report(of, Console(file=out, width=500, highlight=False, markup=False))
    lines = [line for line in out.getvalue().splitlines() if line.startswith(("warning", "    -> Wait."))]
    explained = [f"warning: stale: prod/{one}/app: reason {one}" for one in range(3)]
    assert lines == [*explained, *folded, "    -> Wait."]


def test_a_remedy_comes_once_after_all_that_it_is_for() -> None:
    lines = printed(node({"aa": "1", "bb": "1", "cc": "0-1"}))
    drifted = [line for line in lines if ": drifted: " in line]
    assert len(drifted) == 3
    remedies = [number for number, line in enumerate(lines) if "Write the promised nodes back" in line]
    assert len(remedies) == 1
    assert remedies[0] > max(map(lines.index, drifted))


def test_the_reason_of_each_unknown_verdict_is_said_with_what_to_do() -> None:
    lines = printed(node({"aa": None, "bb": None, "cc": "0"}))
    place = lines.index("unknown: its allowed nodes are unknown (prod/aa/app, prod/bb/app)")
    assert lines[place + 1] == "    -> Give numaudit the source that is named; `numaudit doctor` says how."


def test_aligned_without_measured_access_is_said_as_such() -> None:
    names = "prod/aa/app, prod/bb/app, prod/cc/app and 1 more"
    assert f"aligned: access not measured ({names})" in printed(node(dict.fromkeys(("aa", "bb", "cc", "dd"), "0")))


def test_pods_that_were_refused_for_the_same_are_one_line() -> None:
    def refused(pod: str, asked: int) -> HintOutcome:
        return HintOutcome(
            "prod",
            pod,
            f"uid-{pod}",
            None,
            AdmissionOutcome.REJECTED_CAPACITY,
            "status",
            None,
            "Reason",
            "no room",
            {"memory": asked},
        )

    rejections = (*(refused(f"web-{number}", 9 * MIB) for number in range(200)), refused("db-0", 30 * MIB))
    out = io.StringIO()
    print_report(msgspec.structs.replace(build(node({"aa": "0"})), rejections=rejections), Console(file=out, width=500))
    lines = out.getvalue().splitlines()
    at = lines.index("refused: prod/web-0, prod/web-1, prod/web-2 and 197 more: rejected-capacity: no room")
    assert lines[at + 1 : at + 4] == [
        "    Requested: memory 9Mi.",
        "refused: prod/db-0: rejected-capacity: no room",
        "    Requested: memory 30Mi.",
    ]


def test_why_a_container_has_no_promise_is_said_once() -> None:
    lines = printed(node({"aa": "0", "bb": "0"}, promised=False))
    assert len([line for line in lines if line.startswith("unknown: its promise is unknown")]) == 1


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/kubepods.slice/kubepods-besteffort.slice", "slice"),
        ("/kubepods/besteffort", "group"),
        ("/kubepods.slice/kubepods-poduid.slice", "pod"),
    ],
)
def test_a_parent_of_pods_without_any_gets_no_row(path: str, kind: Kind) -> None:
    taken = node({"aa": "0"})
    empty = Container(ContainerId(9), path, kind)
    added = replace(
        taken,
        containers=(*taken.containers, empty),
        residency={**taken.residency, empty.id: Resident(anon={0: 0, 1: 0})},
    )
    assert not any(line.startswith(f"{path} ") for line in printed(added))
    held = replace(added, residency={**taken.residency, empty.id: Resident(anon={0: 2 * MIB, 1: 0})})
    assert any(line.startswith(f"{path} ") for line in printed(held))


def test_remote_memory_of_others_is_said_of_a_container_whose_own_is_in_place() -> None:
    one = node({"db": "0"})
    piece = SharedMemory("shmem", "/dev/shm/x", {1: 32 * MIB}, ContainerId(9))
    mappings = Mappings({}, {}, {}, 1, 1, (piece,))
    lines = printed(replace(one, numa_maps={ContainerId(1): mappings}))
    at = lines.index("prod/db/app: aligned: it uses memory of others on other nodes")
    assert lines[at + 1].startswith("    shared-memory: it maps at least 32Mi of shared memory there")
