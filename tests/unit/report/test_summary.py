"""The sentence at the top of a report, and its numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from msgspec.structs import replace as replace_struct

from numaudit.api.selection import narrow
from numaudit.cli.main import call
from numaudit.containermanager.memory.state import Block
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.findings import Finding
from numaudit.intent.kubelet import KubeletConfig
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.report.build import build
from numaudit.report.summary import summarize
from numaudit.report.values import Report
from numaudit.report.words import kinds_in_words
from numaudit.snapshot import Allowed, Container, ContainerId, Kind, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
NODES = (Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7")))


def _host(
    held: Mapping[str, tuple[str, int, int]], promised: str | None = "0", nodes: tuple[Node, ...] = NODES
) -> Report:
    """Name -> nodes its memory may be on, and MiB on either node; all run on node 0, and each is promised `promised`.

    "" = nothing is promised; None = what is promised is not known.
    """
    ids = {name: ContainerId(number) for number, name in enumerate(held, 1)}
    promise = Promise(memory=(Block.of("memory", 10 * MIB, NodeSet.parse(promised)),) if promised else ())
    intents = tuple(ContainerIntent(f"uid-{name}", "app", cgroups=(id_,), promise=promise) for name, id_ in ids.items())
    snapshot = Snapshot(
        taken_at=1000.0,
        machine=Machine(nodes),
        cgroup_mode="v2",
        containers=tuple(
            Container(
                id_, f"/kubepods/{name}", "container", qos="Guaranteed", pod_uid=f"uid-{name}", namespace="prod",
                pod=name, name="app",
            )
            for name, id_ in ids.items()
        ),
        allowed={ids[name]: Allowed(NodeSet.parse(mems), CpuSet.of(0)) for name, (mems, _, _) in held.items()},
        residency={
            ids[name]: Resident(anon={0: near * MIB, 1: far * MIB}, shmem={0: 0, 1: 0}, hugetlb={0: 0, 1: 0})
            for name, (_, near, far) in held.items()
        },
        nodes=tuple(NodeMemory(node.id, None, None, Resident()) for node in nodes),
        intent=None if promised is None else Intent(intents, config=KubeletConfig(memory_manager_policy="Static")),
    )  # fmt: skip
    return build(snapshot, judge(snapshot, earlier=judge(replace(snapshot, taken_at=900.0))))


def test_the_worst_container_is_named_with_its_bytes_on_the_wrong_node() -> None:
    report = _host({"good": ("0", 80, 0), "bad": ("0", 10, 40), "drifted": ("0-1", 10, 39)})
    assert report.summary.text == (
        "2 of 3 promised containers are misaligned; worst: prod/bad/app, spilled, 40Mi on the wrong nodes"
    )
    assert (report.summary.misaligned, report.summary.aligned, report.summary.promised) == (2, 1, 3)


def test_one_misaligned_container_is_no_plural_and_without_wrong_bytes_its_reason_is_said() -> None:
    assert _host({"good": ("0", 80, 0), "bad": ("0-1", 10, 0)}).summary.text == (
        "1 of 2 promised containers is misaligned; worst: prod/bad/app, drifted: it may use nodes 0-1, but "
        "was promised node 0 only"
    )


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"a": ("0", 80, 0)}, "The promised container is aligned; access not measured"),
        ({"a": ("0", 80, 0), "b": ("0", 1, 0)}, "All 2 promised containers are aligned; access not measured"),
    ],
)
def test_a_node_on_which_all_is_well_is_said_to_be_so(held: Mapping[str, tuple[str, int, int]], said: str) -> None:
    assert _host(held).summary.text == said


def test_a_promise_that_spans_nodes_is_counted_apart() -> None:
    summary = _host({"a": ("0-1", 80, 9)}, promised="0-1").summary
    assert (summary.split, summary.aligned, summary.misaligned) == (1, 0, 0)
    assert summary.text == ("None of 1 promised container is misaligned; 1 is split over several nodes, as promised")


def test_without_any_promise_the_remote_bytes_are_summed() -> None:
    summary = _host({"a": ("0-1", 80, 9), "b": ("0-1", 0, 31)}, promised="").summary
    assert summary.text == (
        "No container was promised nodes; 40Mi of their 120Mi are remote to the CPUs that they may use; "
        "most: prod/b/app, 31Mi"
    )
    assert (summary.promised, summary.containers) == (0, 2)
    local = _host({"a": ("0-1", 80, 0)}, promised="").summary
    assert local.text == "No container was promised nodes; none of their 80Mi is remote to the CPUs that they may use"


def test_promises_that_are_not_known_are_unknown_and_never_fine() -> None:
    summary = _host({"a": ("0", 80, 0), "b": ("0", 8, 0)}, promised=None).summary
    assert summary.text == (
        "The verdict on 2 containers is unknown: its promise is unknown: the kubelet's promises were not read"
    )
    assert (summary.unknown, summary.promised, summary.aligned) == (2, 0, 0)


def test_a_machine_with_one_node_has_nothing_remote() -> None:
    assert _host({"a": ("0", 80, 0)}, promised="", nodes=NODES[:1]).summary.text == (
        "One NUMA node, so no memory is remote"
    )


def test_an_empty_host_says_so() -> None:
    assert _host({}).summary.text == "No container or cgroup was found"


def test_the_summary_is_about_what_was_asked_for() -> None:
    report = _host({"good": ("0", 80, 0), "bad": ("0-1", 10, 0)})
    assert narrow(report, "good").summary.text == "The promised container is aligned; access not measured"
    assert narrow(report, "good").summary.containers == 1


def test_findings_end_the_sentence_each_name_once() -> None:
    report = _host({"a": ("0", 80, 0)})
    finding = Finding("oom-risk", "warning", "m", "r", 1, "uid-a", "app", None, "prod", "a")
    other = replace_struct(finding, name="stale", container_id=None, pod_uid=None)
    summary = summarize(report.containers, report.nodes, (finding, other, finding), refused_pods=1)
    assert summary.text == (
        "The promised container is aligned; access not measured; 1 pod was refused; also found: oom-risk, stale"
    )


def test_a_critical_finding_begins_the_sentence_with_its_first_container() -> None:
    report = _host({"a": ("0-1", 80, 0)})
    risk = Finding("oom-risk", "critical", "m", "r", 1, "uid-a", "app", None, "prod", "a")
    others = [replace_struct(risk, pod="b"), replace_struct(risk, name="stale", severity="warning")]
    summary = summarize(report.containers, report.nodes, (others[1], risk, others[0]), refused_pods=0)
    assert summary.text.startswith("Critical: oom-risk (prod/a/app and 1 more); 1 of 1 promised container is misalig")
    assert summary.text.endswith("; also found: stale")
    of_host = replace_struct(risk, pod=None, namespace=None, pod_uid=None, container=None)
    assert summarize(report.containers, report.nodes, [of_host], 0).text.startswith("Critical: oom-risk; 1 of 1")


def test_an_unknown_promise_hides_no_remote_bytes() -> None:
    assert _host({"a": ("0-1", 80, 40), "b": ("0-1", 8, 1)}, promised=None).summary.text.startswith(
        "40Mi of 120Mi of prod/a/app are remote to all its CPUs; the verdict on 2 containers is unknown: its promise"
    )


def test_rows_that_are_left_out_are_still_in_the_summary(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    assert call(["report", "--root", str(fixtures / "misaligned-node"), "--top", "1", "-o", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["text"].endswith("; 2 pods were refused")
    assert (summary["misaligned"], summary["refusedPods"]) == (2, 2)


def test_the_table_begins_with_the_summary(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    assert call(["report", "--root", str(fixtures / "misaligned-node")]) == 0
    first, rows, blank, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(
        "2 of 8 promised containers are misaligned; worst: default/gu-small-numanode/app, cpu-remote, 100Mi remote"
    )
    assert rows == "10 containers; 8 sandboxes, 8 pods, 4 other cgroups"
    assert blank == ""


def test_containers_are_counted_apart_from_cgroups_of_other_kinds() -> None:
    rows = _host({"a": ("0", 1, 0), "b": ("0", 1, 0), "c": ("0", 1, 0), "d": ("0", 1, 0), "e": ("0", 1, 0)}).containers
    kinds: tuple[Kind, ...] = ("container", "sandbox", "slice", "container", "slice")
    of_kinds = [replace_struct(row, kind=kind) for row, kind in zip(rows, kinds, strict=True)]
    summary = summarize(of_kinds, (), (), 0)
    assert (summary.containers, summary.kinds) == (5, {"container": 2, "sandbox": 1, "slice": 2})
    assert kinds_in_words(summary.kinds) == "2 containers; 1 sandbox, 2 slices"


@pytest.mark.parametrize(("counts", "words"), [
    ({}, "no containers"),
    ({"container": 1}, "1 container"),
    ({"service": 2, "scope": 1, "group": 3}, "2 services, 1 scope, 3 other cgroups"),
])  # fmt: skip
def test_kinds_that_do_not_occur_are_not_named(counts: Mapping[Kind, int], words: str) -> None:
    assert kinds_in_words(counts) == words
