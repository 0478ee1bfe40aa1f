"""The rows of `numaudit top`, as values: what each cell says, and which columns stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from made_up.accesses import counted, expected, sampled, with_accesses
from made_up.reports import container, report
from numaudit.api.selection import ordered, with_words
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.verdicts import REMEDIES, Verdict, VerdictName
from numaudit.kernel.host import Host
from numaudit.report import cells
from numaudit.report.counters import NodeSeconds
from numaudit.report.memory_manager import MemoryManagerReport, MemoryTableReport
from numaudit.report.node_columns import node_rows
from numaudit.report.values import ContainerReport, Intended, NodeBytes, Report
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.top.columns import LATELY, Grid, container_columns, container_grid, node_grid
from numaudit.views.trends import KEPT, Trends, key_of

GIB = 1 << 30
COLUMNS = (
    "CONTAINER", "VERDICT", "WHY", "PROMISED", "QOS", "ALLOWED", "CPU NODES", "JUDGED", "MISPLACED", "REMOTE",
    "ACCESSED", "USED REMOTELY", "EXPECTED", "CPU REMOTE", "CPU TIME", "BY NODE", "FILE",
)  # fmt: skip


def _nodes(of: Report, most: int = 8, width: int = 80, trends: Trends | None = None) -> list[str]:
    return [line.plain for line in node_grid(of, node_rows(of), most, width, trends)]


def _grid(of: Report, shown: Sequence[ContainerReport], width: int, sort: str | None = None) -> Grid:
    return container_grid(container_columns(of, shown), width, sort)


def _promised(one: ContainerReport, nodes: str, aligned: int) -> ContainerReport:
    return replace(
        one,
        intended=Intended(NodeSet.parse(nodes), {"memory": GIB}, CpuSet.parse("0"), NodeSet.parse("0"), None),
        judged_bytes=12288,
        aligned_bytes=aligned,
        verdict=Verdict("spilled", "for a reason", None, (), REMEDIES["spilled"]),
    )


def _cells(of: Report, one: ContainerReport, width: int = 250) -> dict[str, str]:
    """By title, of a row of this one; no cell here has a blank in it."""
    grid = _grid(of, [one], width)
    titles, row = grid.head().plain, grid.row(0).plain
    shown = [name for name in COLUMNS if name in titles]
    return dict(zip(shown, [cell.strip() for cell in row.split("  ") if cell.strip()], strict=True))


def _with(of: Report, one: ContainerReport) -> Report:
    return replace(of, containers=(one,))


def test_a_row_says_what_was_promised_and_what_is() -> None:
    of = report(container())
    one = replace(
        with_accesses(_promised(of.containers[0], "0", aligned=4096), counted(0.25), sampled(12, 48)),
        cpu_seconds=(NodeSeconds(0, 3.0), NodeSeconds(1, 1.0)),
        expected_remote_ratio=0.5,
    )
    cells = _cells(_with(of, one), one)
    assert cells["CONTAINER"] == "prod/db-0/db"
    assert cells["VERDICT"] == "spilled"
    assert (cells["PROMISED"], cells["ALLOWED"], cells["CPU NODES"]) == ("0", "0", "0")
    assert (cells["JUDGED"], cells["MISPLACED"]) == ("12Ki", "8Ki")
    assert cells["ACCESSED"] == "25.0%"
    assert cells["USED REMOTELY"] == ">=12Mi"
    assert cells["EXPECTED"] == "50.0%"
    assert cells["CPU REMOTE"] == "25.0%", "of 4 s one was on node 1"
    assert cells["CPU TIME"] == "4.0 s"
    assert cells["BY NODE"] == "N0:4Ki N1:8Ki"


def _verdict(name: VerdictName, reason: str = "for a reason") -> Verdict:
    return Verdict(name, reason, None, (), None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"verdict": _verdict("drifted"), "allowed_memory_nodes": NodeSet.parse("0,2")}, "allowed 0,2; promised 0"),
        ({"verdict": _verdict("cpu-remote"), "allowed_cpu_nodes": NodeSet.parse("0-3")}, "CPUs on 0-3; promised 0"),
        ({"verdict": _verdict("cpu-remote")}, "CPU time not on 0"),
        ({"verdict": _verdict("spilled")}, "8Ki on 1; promised 0"),
        ({"verdict": _verdict("split"), "intended": None}, "promise spans "),
        ({"verdict": _verdict("aligned")}, ""),
        ({"verdict": _verdict("unknown", "its promise is unknown: no kubelet")}, "its promise is unknown"),
        ({"verdict": _verdict("unmanaged", "the pod is Burstable")}, "the pod is Burstable"),
        ({"verdict": _verdict("unmanaged", "x" * 31)}, "x" * 29 + "…"),
        ({"verdict": None}, ""),
    ],
)
def test_why_is_the_evidence_in_a_few_words(change: dict[str, object], said: str) -> None:
    one = replace(_promised(report(container()).containers[0], "0", 4096), **change)
    assert cells.why(one) == said


def test_why_of_a_remote_access_is_its_measured_share() -> None:
    one = replace(report(container()).containers[0], verdict=_verdict("remote-access"))
    assert cells.why(with_accesses(one, counted(0.25))) == "25.0% of accesses remote"
    assert cells.why(with_accesses(one, sampled(12, 48))) == ">=12Mi used remotely"


def test_what_is_only_expected_stands_in_no_column_of_accesses() -> None:
    of = report(container())
    one = with_accesses(of.containers[0], expected(0.44))
    titles = _grid(_with(of, one), [one], 250).head().plain
    assert "ACCESSED" not in titles
    assert "REMOTELY" not in titles


@pytest.mark.parametrize(("seconds", "said"), [(None, "?"), ((), "-"), ((NodeSeconds(1, 2.0),), "100.0%")])
def test_cpu_time_that_is_not_known_is_no_share(seconds: tuple[NodeSeconds, ...] | None, said: str) -> None:
    of = report(container(), container(8, "web-0", "web"))
    one = replace(_promised(of.containers[0], "0", aligned=4096), cpu_seconds=seconds)
    assert _cells(replace(of, containers=(one, of.containers[1])), one)["CPU REMOTE"] == said


def test_a_host_without_promises_has_no_column_for_them() -> None:
    of = report(container(3, pod=None))
    titles = _grid(of, of.containers, 250).head().plain
    assert "VERDICT" not in titles
    assert "MISPLACED" not in titles
    assert "REMOTE" in titles
    assert _grid(of, of.containers, 250).row(0).plain.startswith("/system.slice/unit-3.service")


@pytest.mark.parametrize("width", [20, 40, 59, 79, 119, 199])
def test_name_verdict_and_its_evidence_always_stay(width: int) -> None:
    of = report(container())
    one = _promised(of.containers[0], "0", aligned=4096)
    grid = _grid(_with(of, one), [one], width)
    assert grid.row(0).cell_len <= max(width, len("prod/db-0/db  spilled  8Ki on 1; promised 0") + 8)
    for word in ("VERDICT", "WHY"):
        assert word in grid.head().plain
    for word in ("spilled", "8Ki on 1; promised 0"):
        assert word in grid.row(0).plain


def test_no_row_is_wider_than_the_screen_and_names_stay_apart() -> None:
    of = report(*(container(number, f"{'a' * 200}-{number}", "db") for number in range(30)))
    grid = _grid(of, of.containers, 79)
    rows = [grid.row(number) for number in range(30)]
    assert {row.cell_len for row in rows} == {grid.head().cell_len}
    assert grid.head().cell_len <= 79
    assert len({row.plain.split()[0] for row in rows}) == 30


@pytest.mark.parametrize("sort", ["allowed", "judged", "verdict", "name"])
def test_the_mark_of_the_column_that_sorts_moves_no_title(sort: str) -> None:
    of = report(container())
    grid = _grid(of, of.containers, 120, sort)
    assert grid.head(sort).plain.translate(dict.fromkeys(map(ord, "▼▲"), " ")) == grid.head().plain


@given(width=st.integers(20, 250), ticks=st.integers(0, 2 * KEPT))
def test_the_newest_tick_is_at_the_right_end_of_any_row(width: int, ticks: int) -> None:
    of = report(container())
    grid = container_grid(container_columns(of, of.containers), width, lately=LATELY["bytes"])
    row = grid.row(0, [*[0] * ticks, 100])
    assert row.cell_len == grid.head().cell_len
    if grid.ticks:
        assert row.plain.endswith("█")
        assert row.plain.count("▁") == min(ticks, grid.ticks - 1) < KEPT
        assert grid.head().plain.endswith("  REMOTE LATELY")


def _held(node: int, anon: int) -> NodeBytes:
    return NodeBytes(node, anon, 0, 0, 0, None, None)


def _map(*reserved: int) -> MemoryManagerReport:
    rows = tuple(
        MemoryTableReport(node, "memory", 64 * GIB, 0, 64 * GIB, amount, 64 * GIB - amount)
        for node, amount in enumerate(reserved)
    )
    pages = MemoryTableReport(0, "hugepages-2Mi", GIB, 0, GIB, GIB, 0)
    return MemoryManagerReport((*rows, pages), (), (), None, ())


def test_a_node_says_what_is_promised_and_misplaced_on_it() -> None:
    of = replace(report(container(), container(8, "web-0", "web")), memory_manager=_map(5 * GIB, 0))
    first, second = of.containers
    on_1 = replace(_promised(first, "0", 0), resident=(_held(0, GIB), _held(1, 9 * GIB)))
    split = replace(_promised(second, "0-1", 0), resident=(_held(0, GIB), _held(1, GIB)))
    lines = _nodes(replace(of, containers=(on_1, split)), width=74)
    assert lines[0].split() == ["NODE", "TOTAL", "USED", "FREE", "PROMISED", "MISPLACED", "REMOTE", "MEMORY"]
    assert lines[1].split() == ["0", "64Gi", "32Gi", "32Gi", "5Gi", "0", "0", "█" * 10 + "░" * 10]
    assert lines[2].split() == ["1", "64Gi", "32Gi", "32Gi", "0", "9Gi", "10Gi", "▓" * 4 + "█" * 6 + "░" * 10]


def test_without_a_memory_map_a_node_says_what_is_remote() -> None:
    of = report(container(3, pod=None))  # its CPUs are on node 0
    lines = _nodes(of)
    assert lines[0].split()[-2:] == ["REMOTE", "MEMORY"]
    assert [row.split()[-2] for row in lines[1:]] == ["0", "8Ki"]
    assert lines[2].split()[-1].startswith("▓█"), "a few bytes are not rounded to nothing"


@pytest.mark.parametrize("change", [{"resident": None}, {"allowed_cpu_nodes": None}])
def test_what_is_remote_on_a_node_is_not_0_where_it_is_not_known(change: dict[str, object]) -> None:
    of, trends = report(container()), Trends()
    blind = replace(of, containers=(replace(of.containers[0], **change),))
    for seen in (of, blind):
        trends.add(seen, node_rows(seen))
    lines = _nodes(blind, width=120, trends=trends)
    assert [line.split()[4] for line in lines] == ["REMOTE", "?", "?"]
    assert [line[-2:] for line in lines[1:]] == ["▁ ", "█ "]


@pytest.mark.parametrize("name", ["kubernetes-cluster", "misaligned-node", "eight-nodes", "single-node-hybrid"])
def test_what_is_remote_on_the_nodes_is_what_is_remote_of_the_containers(fixtures: Path, name: str) -> None:
    of = Engine(Observer.of(Host.under(fixtures / name))).tick().report
    on_nodes, of_rows = [row.elsewhere for row in node_rows(of)], of.containers
    assert sum(one.remote or 0 for one in on_nodes) == sum(one.remote_bytes or 0 for one in of_rows)
    assert sum(one.misplaced or 0 for one in on_nodes) == sum(one.misplaced_bytes or 0 for one in of_rows)
    assert all(max(one.misplaced or 0, one.remote or 0) <= one.either <= one.compared for one in on_nodes)


def test_nodes_show_what_they_have_room_for() -> None:
    of, trends = replace(report(container()), memory_manager=_map(0, 0)), Trends()
    for _ in range(2 * KEPT):
        trends.add(of, node_rows(of))
    titles = ["NODE", "USED", "FREE", "MISPLACED", "REMOTE"]
    for room, more in ((50, "LATELY"), (62, "MEMORY"), (72, "PROMISED"), (79, "TOTAL")):
        assert set(_nodes(of, 8, room - 1, trends)[0].split()) == set(titles)
        titles.append(more)
        lines = _nodes(of, 8, room, trends)
        assert set(lines[0].split()) == set(titles)
        assert {len(line) for line in lines} == {room}
    lines = _nodes(of, 8, 200, trends)
    assert {len(line) for line in lines} == {200}
    assert lines[2].endswith(f"  {'█' * KEPT}")
    assert lines[2].count("░") == lines[2].count("█") - KEPT + 1, "half of its memory is free; ▓ is one"


def test_of_many_nodes_those_with_misplaced_bytes_are_shown() -> None:
    of = report(container(3, pod=None))
    nodes = tuple(replace(of.nodes[0], numa_node=number, free_bytes=number * GIB) for number in range(16))
    held = (_held(9, GIB), _held(14, 2 * GIB))
    lines = _nodes(replace(_with(of, replace(of.containers[0], resident=held)), nodes=nodes), most=4)
    assert [row.split()[0] for row in lines[1:]] == ["0", "1", "9", "14", "and"]
    assert lines[-1] == "and 12 more nodes"


def test_a_node_whose_memory_is_not_known_has_no_bar() -> None:
    of = report(container())
    lines = _nodes(replace(of, nodes=(replace(of.nodes[0], free_bytes=None),)))
    assert "█" not in lines[1]
    assert lines[1].split()[1:4] == ["64Gi", "?", "?"]


def test_reversed_rows_keep_what_is_not_known_last() -> None:
    of = report(container(1, "a"), container(2, "b"), container(3, "c"))
    known = [replace(one, judged_bytes=amount) for one, amount in zip(of.containers, (5, None, 9), strict=True)]
    assert [one.judged_bytes for one in ordered(known, "judged")] == [9, 5, None]
    assert [one.judged_bytes for one in ordered(known, "judged", reverse=True)] == [5, 9, None]
    assert [one.pod for one in ordered(known, "name", reverse=True)] == ["c", "b", "a"]
    assert [one.pod for one in ordered(known, "verdict", reverse=True)] == ["c", "b", "a"]


def test_words_are_found_in_name_and_verdict() -> None:
    of = report(container(1, "Web-0", "nginx"), container(2, "db-0", "db"))
    web = _promised(of.containers[0], "0", 0)
    both = (web, of.containers[1])
    assert with_words(both, "") == both
    assert with_words(both, "WEB spil") == (web,)
    assert with_words(both, "prod/") == both
    assert with_words(both, "web db-0") == ()


def test_a_container_that_was_started_again_is_the_same_row() -> None:
    of, again = report(container(7), container(8, pod=None)), report(container(9), container(8, pod=None))
    assert key_of(of.containers[0]) == key_of(again.containers[0])
    assert key_of(of.containers[0]) != key_of(of.containers[1])
