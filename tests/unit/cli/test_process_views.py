"""The processes of a container in a narrow terminal, on its page, and in `numaudit explain`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from made_up.reports import report
from numaudit.api.selection import narrow
from numaudit.cli.main import call
from numaudit.cli.observe.report_work import observe_whole
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.processes import ProcessesReport
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import ContainerId
from numaudit.views.page.own_page import own_section
from numaudit.views.page.report_page import report_page
from numaudit.views.terminal.one_container import print_process_table


@pytest.fixture(scope="module")
def server(fixtures: Path) -> ContainerReport:
    report = observe_whole(Observer.of(Host.under(fixtures / "ranks")), 60.0, None, with_processes=True).report
    return next(one for one in narrow(report, "vllm-0").containers if one.kind == "container")


def test_mappings_are_read_of_the_containers_alone_that_are_named(fixtures: Path) -> None:
    def named(whole: Report) -> frozenset[ContainerId]:
        return frozenset(ContainerId(one.id) for one in narrow(whole, "vllm-0").containers if one.id is not None)

    found = observe_whole(Observer.of(Host.under(fixtures / "ranks")), 60.0, None, selected=named).report
    read = {one.id for one in found.containers if one.mappings is not None}
    assert read
    assert read == {one.id for one in narrow(found, "vllm-0").containers}
    assert len(found.containers) > len(read)


@pytest.mark.parametrize(
    ("width", "left_out"), [(80, "left out: THREADS, CPUS, CPU TIME, ELSEWHERE (no room)"), (150, None)]
)
def test_columns_that_find_no_room_are_named(server: ContainerReport, width: int, left_out: str | None) -> None:
    file = io.StringIO()
    print_process_table(server, Console(file=file, width=width, highlight=False, markup=False))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert (left_out is None) == ("left out" not in text)
    assert left_out is None or left_out in text
    assert "VLLM::Worker_TP3" in text


def test_a_containers_page_has_a_table_of_its_processes(server: ContainerReport) -> None:
    text = str(own_section(server, (), "#"))
    assert "<caption>Processes</caption>" in text
    assert "VLLM::Worker_TP2" in text
    assert "1 thread: nccl-net" in text
    assert "the sum over its 4 processes" in text


def test_a_selection_without_processes_says_so_on_the_page(server: ContainerReport) -> None:
    none = ProcessesReport((), 0, None, "start", None, None, (), None)
    text = report_page(replace(report(), containers=(replace(server, processes=none),)))
    assert "No processes: what was asked for has none." in text


def test_the_page_bounds_its_tables_and_says_how_many_it_left_out(server: ContainerReport) -> None:
    many = tuple(replace(server, id=number) for number in range(1, 53))
    text = report_page(replace(report(), containers=many))
    assert text.split('id="processes"')[1].split("</section>")[0].count("<caption>Processes</caption>") == 50
    assert "and 2 more containers with processes; -o json has all" in text


def test_explain_has_the_processes_in_its_document_and_says_the_basis(
    capsys: pytest.CaptureFixture[str], fixtures: Path
) -> None:
    assert call(["explain", "vllm-0", "--root", str(fixtures / "ranks")]) == 0
    assert "(the sum over its processes)" in capsys.readouterr().out
    assert call(["explain", "vllm-0", "--root", str(fixtures / "ranks"), "-o", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["container"]["expectedBasis"] == "processes"
    assert [len(one["threadGroups"]) for one in item["container"]["processes"]["items"]] == [1, 1, 2, 1]
