"""The tables: sizes, names from outside, unknown against zero, many nodes."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from types import FrameType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from made_up.reports import container, report
from numaudit.api.state_document import verification
from numaudit.checkpoints.formats.file import MEMORY
from numaudit.checkpoints.start.outlook import KubeletAtStart
from numaudit.doctor.outcome import doctor
from numaudit.errors import printable
from numaudit.kubelet.parsers.checkpoint_file import decode
from numaudit.kubelet.questions.examination import ExaminedFile, examine
from numaudit.kubelet.questions.starting import Starting
from numaudit.report.build import build
from numaudit.report.counters import AllocatedBytes, Counters, NodeSeconds
from numaudit.report.values import Ended, Report
from numaudit.report.words import is_small_remainder, size
from numaudit.snapshot import Allowed, Check, Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.terminal import terminal
from numaudit.views.terminal.machine_tables import print_doctor
from numaudit.views.terminal.report_tables import print_report
from numaudit.views.terminal.state_tables import print_verification

MIB = 1 << 20


def _report(path: str = "/a", nodes: int = 2, resident: Resident | None = None) -> Report:
    """One group that holds 3 MiB on node 1, by default."""
    id_ = ContainerId(1)
    return build(
        Snapshot(
            taken_at=0,
            machine=Machine(tuple(Node(node, CpuSet.of(node)) for node in range(nodes))),
            cgroup_mode="v2",
            containers=(Container(id_, path, "group"),),
            allowed={id_: Allowed(NodeSet.of(0, 1), CpuSet.of(0))},
            residency={id_: Resident(anon={0: 0, 1: 3 * MIB}) if resident is None else resident},
            nodes=tuple(NodeMemory(node, 1 << 30, 0, Resident()) for node in range(nodes)),
            unattributed=Resident(anon={0: 0}),
        )
    )


def _printed(report: Report, wide: bool = False, nodes: bool = False) -> str:
    """As a pipe gets it."""
    file = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        print_report(report, terminal.console(), wide=wide, nodes=nodes)
    return file.getvalue()


def _containers(lines: list[str]) -> list[str]:
    """The table of containers, and what comes below it."""
    return lines[next(number for number, line in enumerate(lines) if line.startswith("CONTAINER")) :]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "?"),
        (0, "0"),
        (1, "1"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1536, "1.5Ki"),
        (99 * 1024 + 1000, "100Ki"),
        (100 * 1024, "100Ki"),
        (4 * MIB, "4Mi"),
        ((1 << 30) - 1, "1024Mi"),
        (52 * MIB + MIB // 10, "52.1Mi"),
        (3 << 40, "3Ti"),
        (5000 << 40, "5000Ti"),
        (-1536, "-1.5Ki"),
        (-(4 << 30), "-4Gi"),
    ],
)
def test_a_size_is_short(value: int | None, text: str) -> None:
    assert size(value) == text


@given(st.integers(-(1 << 50), 1 << 50))
def test_any_size_is_within_five_percent_and_short(value: int) -> None:
    match = re.fullmatch(r"(-?\d{1,4}(?:\.\d)?)([KMGT]i)?", size(value))
    assert match is not None
    shown = float(match[1]) * {None: 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}[match[2]]
    assert abs(shown - value) <= abs(value) * 0.05
    assert len(match[1].lstrip("-")) <= 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name", "plain name"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x7f\x9b\u2028\u202e", "\\x7f\\x9b\\u2028\\u202e"),
        ("über/数", "über/数"),
        ("x\udcff", "x\\xff"),
        ("\ud800", "\\ud800"),
        ("\xa0", "\\xa0"),
    ],
)
def test_control_characters_and_broken_utf8_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(max_size=60) | st.text("ab é\n\x00\udcff\ud800", max_size=60))
def test_any_name_is_one_printable_line(text: str) -> None:
    assert printable(text).isprintable()
    printable(text).encode()


@pytest.mark.parametrize(
    "name",
    ["[red]x[/red]", "[/nothing]", "[b]", ":smile:", "a[link=http://x]y", "\x1b]0;title\x07", "x" * 1500, "two\nlines"],
)
def test_a_name_is_shown_as_it_is_whatever_it_holds(name: str) -> None:
    report = _report(f"/{name}")
    for wide in (False, True):
        text = _printed(report, wide)
        assert printable(f"/{name}") in text
        assert _containers(text.splitlines())[1].startswith(printable(f"/{name}"))
        assert "\x1b" not in text


def test_a_hint_is_shown_as_it_is() -> None:
    file = io.StringIO()
    check = Check("cgroup", "missing", "no [memory] controller", "add [/etc/x]")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", file)
        print_doctor(doctor([check]), terminal.console())
    assert "no [memory] controller" in file.getvalue()
    assert "-> add [/etc/x]" in file.getvalue()


def test_a_terminal_gets_colour_and_a_pipe_does_not() -> None:
    colour = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
    print_report(_report(), colour)
    assert isinstance(colour.file, io.StringIO)
    assert "\x1b[31m" in colour.file.getvalue()
    assert "\x1b" not in _printed(_report())


@pytest.mark.parametrize("nodes", [2, 8, 9, 12])
def test_bytes_by_node_are_shown_for_any_number_of_nodes(nodes: int) -> None:
    row = _containers(_printed(_report(nodes=nodes)).splitlines())[1]
    assert ("N1:3Mi" in row) == (nodes > 8)
    assert "3Mi" in row.split()


@pytest.mark.parametrize("nodes", [2, 12])
def test_bytes_that_are_not_known_are_a_question_mark_for_any_number_of_nodes(nodes: int) -> None:
    report = _report(nodes=nodes)
    (container,) = report.containers
    unread = replace(container, resident=None, judged_bytes=None, remote_bytes=None)
    row = _containers(_printed(replace(report, containers=(unread,))).splitlines())[1].split()
    assert "-" not in row
    assert "0" not in row[3:]
    assert row.count("?") == 4 + (nodes if nodes == 2 else 1)


def test_types_that_the_kernel_does_not_show_are_a_question_mark() -> None:
    header, row = _containers(_printed(_report(resident=Resident(anon={0: 3 * MIB, 1: 0})), wide=True).splitlines())[:2]
    at = header.index("SHMEM") + len("SHMEM") - 1
    assert row[at] == "?"


def _on_terminal(report: Report, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    print_report(report, console, nodes=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("nodes", [1, 2, 8, 12])
def test_a_terminal_gets_whole_figures_in_lines_that_fit(width: int, nodes: int) -> None:
    report = _report(f"/system.slice/docker-{'d1' * 32}.scope", nodes)
    lines = _on_terminal(report, width)
    assert max(map(len, lines)) <= width
    header, row = _containers(lines)[:2]
    assert "…" not in header
    assert row.startswith("/system.slice/d")
    assert ".scope " in row
    assert "3Mi" in row or "N1:3Mi" in row


def test_a_terminal_names_the_columns_it_has_no_room_for_and_a_pipe_has_room_for_all() -> None:
    report = _report("/a", nodes=8)
    piped = _printed(report, nodes=True).splitlines()
    lines = _on_terminal(report, 60)
    notes = [line for line in lines if line.startswith("left out: ")]
    for first, expected, note in (("CONTAINER", "FILE", notes[0]), ("NODE", "LIST", notes[1])):
        (titles, kept) = (next(line.split() for line in of if line.startswith(first)) for of in (piped, lines))
        gone = set(titles) - set(kept)
        assert expected in gone
        assert gone <= set(re.split(r"[,; ]+", note))
    assert "left out" not in _printed(report)


@pytest.mark.parametrize("width", [10, 20, 30, 40, 52, 60])
@pytest.mark.parametrize("nodes", [1, 4, 12])
def test_no_figure_is_cut_off_however_narrow_the_terminal_and_those_left_out_are_counted(
    width: int, nodes: int
) -> None:
    held = Resident(anon={node: (100 + node) * MIB + MIB // 10 for node in range(nodes)})
    lines = _on_terminal(_report(f"/system.slice/docker-{'d1' * 32}.scope", nodes, held), width)
    text = "\n".join(lines)
    shown = sum(re.search(rf"\b{100 + node}Mi\b", text) is not None for node in range(nodes))
    assert shown == nodes or (shown and f"+{nodes - shown}" in text)
    start = next(number for number, line in enumerate(lines) if line.startswith("NODE"))
    residuals = [row.split()[-1] for row in lines[start + 1 : start + 1 + nodes]]
    at = _printed(_report("/a", nodes, held), nodes=True).splitlines()
    start = next(number for number, line in enumerate(at) if line.startswith("NODE"))
    assert residuals == [row.split()[-2] for row in at[start + 1 : start + 1 + nodes]]
    assert "…" not in re.sub(r"/sys\S*…\S*", "", text)


def test_a_table_that_cannot_get_narrow_enough_is_printed_whole() -> None:
    table = terminal.new_table("POD", "~WHY", ">SIZE")
    table.add_row("11909391e6eae33a104bafa75980e9ea", "a reason /with/a/path/that/is/long/itself", "200Mi")
    console = Console(file=io.StringIO(), width=20)
    terminal.print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.splitlines()[1] == "11909391e6eae33a104bafa75980e9ea  a reason          200Mi"
    folded = "".join(line[34:50].rstrip() for line in text.splitlines()[1:])
    assert folded == "a reason/with/a/path/that/is/long/itself"


def test_a_long_note_is_set_in_from_its_second_line_on() -> None:
    console = Console(file=io.StringIO(), width=24)
    terminal.print_note("  why: the node was full at that time", console)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "  why: the node was\n      full at that time\n"


def test_the_finding_of_a_checkpoint_is_broken_between_words(fixtures: Path) -> None:
    path = fixtures / "memory-manager-state/groups-overlap/memory_manager_state"
    file = decode(MEMORY, path.read_bytes())
    outlook = examine(file, None, KubeletAtStart((1, 36), None), "")
    console = Console(file=io.StringIO(), width=60)
    print_verification(verification(ExaminedFile("file", file, outlook, Starting(), with_machine=False)), console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("  error: groups-overlap: "))
    assert lines[start + 1].startswith("      ")
    words = set(re.findall(r"\w+", " ".join(finding.message + finding.remedy for finding in outlook.findings)))
    assert words <= set(re.findall(r"\w+", "\n".join(lines)))


def test_small_remainders_of_parents_are_counted_instead_of_shown() -> None:
    report = _report(resident=Resident(anon={0: 1}, file={0: 2}))
    (container,) = report.containers
    parent = replace(report, containers=(replace(container, whole=False),))
    assert "left out: 1 cgroup that holds less than 1 MiB of its own; -o wide shows all" in _printed(parent)
    assert "/a " not in _printed(parent)
    assert "/a " in _printed(parent, wide=True)
    assert "/a " in _printed(report)
    for path, is_small in (("/kubepods/system", True), ("/x/kubepods/system/burstable", True), ("/system", False)):
        group = replace(container, path=path, kind="group")
        assert is_small_remainder(group) == is_small, path


def test_a_row_costs_little_however_many_there_are() -> None:
    """Counted in calls of functions: rich's own table makes some 5,000 for each row."""
    some = report(*(container(number, pod=f"db-{number}") for number in range(10, 310)))
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        text = _printed(some, wide=True)
    finally:
        sys.setprofile(before)
    assert text.count("prod/db-") >= 300
    assert calls / 300 < 1500


def test_what_ended_cgroups_counted_is_a_note_for_they_have_no_row() -> None:
    nothing = msgspec.convert(dict.fromkeys(Counters.__struct_encode_fields__), Counters)
    seen = replace(nothing, cpu_seconds=(NodeSeconds(0, 1.25),))
    given = (AllocatedBytes(0, 1, MIB),)
    unseen = replace(nothing, cpu_seconds=(NodeSeconds(1, 2.0),), allocated=given)
    text = _printed(replace(_report(), ended=Ended(seen=seen, unseen=unseen)))
    assert "cgroups that ended meanwhile, and have no row: 3.25 s of CPU time, 1Mi allocated" in text
    assert "ended meanwhile" not in _printed(_report())


def test_a_wide_table_shows_the_mean_distance_and_a_narrow_one_only_the_expected_share() -> None:
    """A quarter of a second of eight ran on node 1; a third of the bytes is on node 0. Node 1 is at distance 20."""
    far = report(container(), anon={0: 4096, 1: 8192})
    (one,) = far.containers
    local = (7.5 * 4096 + 0.25 * 8192) / (7.75 * 12288)
    assert one.distance_ratio == pytest.approx(local + 2 * (1 - local))
    wide, narrow = _containers(_printed(far, wide=True).splitlines()), _printed(far)
    assert "DISTANCE" in wide[0]
    assert f"{one.distance_ratio:.2f}" in wide[1].split()
    assert "DISTANCE" not in narrow


def test_a_distance_that_the_firmware_does_not_give_is_a_question_mark() -> None:
    known = report(container())
    unknown = replace(known, containers=tuple(replace(one, distance_ratio=None) for one in known.containers))
    header, row = _containers(_printed(unknown, wide=True).splitlines())[:2]
    end = header.index("DISTANCE") + len("DISTANCE")
    assert row[:end].endswith("       ?")
