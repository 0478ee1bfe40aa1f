"""Ranks as reports show them, hide them, and judge a gate by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from made_up.reports import container, report
from numaudit.api.ranks_document import RankRow, in_order
from numaudit.cli.main import call
from numaudit.encoding.value import Timestamp
from numaudit.evaluation.ranks.judge import summary
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, Rank, RankProblem, RankVerdict
from numaudit.ranks.declaration import Declaration, HeldDevice
from numaudit.report.gates import GateLimits, judge_gate
from numaudit.report.processes import ProcessesReport, ranks_report
from numaudit.snapshot.processes import ContainerProcesses, WatchedProcesses
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.rank_columns import rank_columns

GPU = HeldDevice("gpu", "0000:3b:00.0", 1)
TOLD = Declaration("vllm", "_VLLM_INTERNAL_NUMACTL_ARGS", "environment", "bind", NodeSet.of(1), CpuSet.parse("4-7"))
NOT_SET = RankProblem("declared-not-in-force", "not-set", "nobody set it")


def rank(
    number: int | None = 0, verdict: RankVerdict = "in-force", *problems: RankProblem, counts: bool = True
) -> Rank:
    return Rank(
        pid=100 + (number or 0),
        process="python3",
        rank=number,
        counts=counts,
        declarations=(TOLD,),
        devices=(),
        devices_elsewhere=(),
        idle_nodes=None,
        verdict=verdict,
        detail=problems[0].detail if problems else "",
        problems=problems,
        judged_bytes=0,
        shared_elsewhere_bytes=0,
        memory_only_bytes=0,
    )


def cells(one: Rank, **places: object) -> dict[str, str]:
    """Title -> text of a row, of a rank in one container."""
    known = {"allowed_cpu_nodes": NodeSet.of(1), "threads_by_node": {0: 0, 1: 3}, "bytes_by_node": {0: 1 << 20, 1: 0}}
    fields = {name: getattr(one, name) for name in Rank.__struct_fields__}
    row = RankRow(**fields, container="ml/job", commands=(), **{**known, **places})  # type: ignore[arg-type]
    return {column.title: column.text(row) for column, _ in rank_columns((row,))}


def gate(*ranks: Rank, unread: str | None = None, asked: bool = True) -> tuple[str, str]:
    found = ProcessesReport((), 0 if unread is None else 2, unread, "start", None, None, ranks, summary(ranks))
    (alone,) = report(container()).containers
    (check,) = judge_gate(replace(alone, processes=found if asked else None), GateLimits(ranks=True))
    return check.state, check.evidence


def test_a_gate_passes_only_if_every_rank_is_in_force() -> None:
    assert gate(rank(0), rank(1)) == ("passed", "2 of 2 ranks are where they were bound.")
    state, said = gate(rank(0), rank(1, "declared-not-in-force", NOT_SET), unread="gone")
    assert (state, said) == ("failed", "1 of 2 ranks is where they were bound; rank 1: nobody set it.")


def test_a_gate_is_inconclusive_where_something_is_not_known() -> None:
    assert gate(rank(0), rank(1, "unknown"))[0] == "inconclusive"
    assert gate(rank(0), unread="run as root") == (
        "inconclusive",
        "2 of its processes were not read: run as root",
    )
    assert gate()[0] == "inconclusive"
    assert gate(asked=False) == ("inconclusive", "its processes were not read")


def test_a_helper_decides_nothing() -> None:
    helper = rank(None, "declared-not-in-force", NOT_SET, counts=False)
    assert gate(rank(0), helper) == ("passed", "Its rank is where it was bound.")


UNBOUND = replace(
    rank(None, "unbound", counts=False), declarations=(Declaration("ray", "ray::", "arguments"),), detail="on all CPUs"
)


def test_an_unbound_process_decides_nothing_and_is_said() -> None:
    assert gate(UNBOUND) == ("inconclusive", "1 process is bound to no node.")
    assert gate(rank(0), UNBOUND) == ("passed", "Its rank is where it was bound; 1 process is bound to no node.")
    shown = ["python3", "100", "(?)", "ray", "nothing", "1", "N0 1Mi", "unbound", "on all CPUs"]
    assert list(cells(UNBOUND).values()) == shown
    assert ranks_report(
        WatchedProcesses(ContainerProcesses((), 2, None, "start"), {}, Timestamp(0)), (rank(0), UNBOUND)
    ).verdicts == {
        **dict.fromkeys(RANK_VERDICTS, 0),
        "in-force": 1,
        "unbound": 1,
    }


def test_the_worst_rank_comes_first_and_helpers_last() -> None:
    helper = rank(None, "declared-not-in-force", NOT_SET, counts=False)
    wrong = rank(2, "thread-astray", NOT_SET)
    assert in_order([helper, rank(0), wrong]) == [wrong, rank(0), helper]


def test_a_row_says_what_was_declared_and_of_devices_where_there_are_some() -> None:
    row = cells(rank())
    assert (row["BY"], row["DECLARED"]) == ("vllm", "bind 1; CPUs 4-7")
    assert "DEVICES" not in row
    with_gpu = replace(rank(), devices=(GPU, replace(GPU, numa_node=None)))
    assert cells(with_gpu)["DEVICES"] == "gpu 0000:3b:00.0 (N1), gpu 0000:3b:00.0 (N?)"


def test_what_is_not_known_of_a_row_is_no_zero() -> None:
    row = cells(rank(), threads_by_node=None, bytes_by_node=None)
    assert (row["RUNS ON"], row["MEMORY"]) == ("?", "?")


def test_a_device_on_another_node_is_noted_beside_the_verdict_and_fails_no_gate() -> None:
    apart = replace(rank(0), devices=(GPU,), devices_elsewhere=(GPU,))
    note = "it has GPU 0000:3b:00.0 (node 1) open, but is bound to another node"
    assert cells(apart)["WHY"] == note
    assert gate(apart, rank(1)) == ("passed", f"2 of 2 ranks are where they were bound; rank 0: {note}.")


def test_a_public_report_has_verdicts_and_no_declarations(capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    where = ("--root", str(fixtures / "ranks"), "vllm-0", "--processes", "-o", "json")
    assert call(["report", *where]) == 0
    shown = json.loads(capsys.readouterr().out)["containers"][0]["processes"]
    assert call(["report", *where, "--redact"]) == 0
    public = json.loads(capsys.readouterr().out)["containers"][0]["processes"]
    assert [one["verdict"] for one in public["ranks"]] == [one["verdict"] for one in shown["ranks"]]
    assert {one["verdict"] for one in shown["ranks"]} == {"in-force", "thread-astray", "first-touch-before-bind"}
    assert all(one["declarations"] for one in shown["ranks"])
    assert [one["declarations"] for one in public["ranks"]] == [[]] * 4
    assert "VLLM" in shown["ranksSummary"]
    assert "VLLM" not in json.dumps(public)


def test_ranks_are_no_gate_for_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["assert", "--ranks", "--", "true"]) == 2
    assert "--ranks is for containers" in capsys.readouterr().err
