"""Rows of processes: which are shown, with what policy, and what the notes say of what is not known."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from numaudit.report.process_columns import COLUMNS, MOST, ProcessRow, notes, process_columns, process_rows
from numaudit.report.processes import ProcessesReport, processes_report
from numaudit.snapshot.counted import CountBasis, CountedOfProcess, ProcessAccesses, Sampled, SeenRemote
from numaudit.snapshot.processes import (
    ContainerProcesses,
    MappedMemory,
    ProcessPlacement,
    ThreadGroup,
    TimeSource,
    UnreadPart,
)
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20


def group(policy: str | None = "bind:1", threads: int = 1, ran: Mapping[int, float] | None = None) -> ThreadGroup:
    return ThreadGroup(
        threads, 7, ("a", "b"), CpuSet.of(4), NodeSet.of(1), NodeSet.of(0, 1), policy, {1: threads}, ran or {}
    )


def process(pid: int = 7, *groups: ThreadGroup, memory: tuple[MappedMemory, ...] | None = ()) -> ProcessPlacement:
    source: TimeSource | None = "last-cpu" if any(one.cpu_seconds for one in groups) else None
    return ProcessPlacement(pid, "rank", 1, None, None, 1, groups or (group(),), memory, source, None, None, ())


def report(*processes: ProcessPlacement) -> ProcessesReport:
    return processes_report(ContainerProcesses(processes, len(processes), None, "start"), None, None, ())


def cells(row: ProcessRow) -> dict[str, str]:
    return {column.title: column.text(row) for column in COLUMNS}


def test_policies_of_large_mappings_are_beside_that_of_the_thread() -> None:
    memory = (
        MappedMemory("hugetlb", "interleave:0-1", {0: 2 * MIB, 1: 2 * MIB}),
        MappedMemory("anon", "bind:1", {1: 9 * MIB}),
        MappedMemory("shmem", "prefer:0", {0: MIB - 1}),
    )
    (row,) = process_rows(report(process(7, memory=memory)))
    assert cells(row)["POLICY"] == "bind:1; hugetlb 4Mi interleave:0-1"
    assert cells(row)["MEMORY"] == "N1 11Mi, N0 3.0Mi"


def test_what_is_not_known_is_a_question_mark_and_nothing_a_dash() -> None:
    (row,) = process_rows(report(replace(process(7, group(policy=None), memory=None), process=None)))
    found = cells(row)
    assert [found[title] for title in ("PROCESS", "POLICY", "MEMORY", "CPU TIME", "EXPECTED")] == [
        "?",
        "?",
        "?",
        "-",
        "-",
    ]
    unread = replace(process(7), thread_groups=(), threads=None)
    (row,) = process_rows(report(unread))
    assert {cells(row)[title] for title in ("THREADS", "CPUS", "CPU NODES", "POLICY", "ELSEWHERE")} == {"?"}


def test_a_differing_thread_group_has_a_row_below_its_process() -> None:
    found = process_rows(report(process(7, group(), group("default", 2, {0: 1.5}))))
    assert [cells(row)["PID"] for row in found] == ["7", ""]
    assert cells(found[1])["PROCESS"] == "  2 threads: a, b"
    assert (cells(found[1])["POLICY"], cells(found[1])["CPU TIME"]) == ("default", "N0 ~1.5s")


def test_of_many_processes_those_with_the_most_memory_are_shown_by_their_ids() -> None:
    many = [process(pid, memory=(MappedMemory("anon", "bind:1", {1: pid * MIB}),)) for pid in range(1, MOST + 11)]
    found = report(*many)
    assert [row.process.pid for row in process_rows(found)] == list(range(11, MOST + 11))
    assert "and 10 processes more with less memory; -o json has all" in notes(found, None, None)


def test_a_column_of_samples_is_there_only_with_samples() -> None:
    assert "USED REMOTELY" not in [column.title for column in process_columns(report(process()))]


def test_notes_say_on_what_basis_the_share_of_the_container_is() -> None:
    found = report(process(), process(8))
    assert next(iter(notes(found, 0.25, "processes"))) == (
        "EXPECTED of the container is the sum over its 2 processes, by their CPU time: 25.0%."
    )
    assert next(iter(notes(found, 0.5, "container"))) == "EXPECTED of the container is of it as a whole: 50.0%."


def test_one_reason_of_many_processes_is_one_note() -> None:
    unread = (UnreadPart("mappings", "Permission denied"),)
    found = report(*(replace(process(pid), unread=unread) for pid in (1, 2, 3)))
    assert "mappings of 3 processes not read: Permission denied" in notes(found, None, None)


def test_a_process_has_the_bytes_that_hint_faults_saw_it_use_remotely() -> None:
    used = {7: SeenRemote({(0, 1): 3 * MIB}, 0.0, 0)}
    processes = ContainerProcesses((process(7), process(8)), 2, None, "measurement")
    found = processes_report(processes, Sampled({}, by_process=used), None, ())
    assert [cells(row)["USED REMOTELY"] for row in process_rows(found)] == [">=3Mi", "-"]
    assert found.none_used_remotely is None
    assert "USED REMOTELY" in [column.title for column in process_columns(found)]


BASIS = CountBasis("made_up", "lines", includes_prefetch=False)
SECOND = 10**9


def counted_report(accesses: ProcessAccesses | None, *pids: int) -> ProcessesReport:
    processes = ContainerProcesses(tuple(process(pid) for pid in pids), len(pids), None, "measurement")
    return processes_report(processes, None, accesses, ())


def test_a_process_has_the_remote_share_of_its_own_counted_accesses() -> None:
    counted = {
        7: CountedOfProcess(75_000, 25_000, SECOND, SECOND),
        8: CountedOfProcess(0, 10_000, SECOND, SECOND // 2),  # others had the counters, too
        9: CountedOfProcess(9_000, 999, SECOND, SECOND),
        10: CountedOfProcess(0, 0, 0, 0),
        11: CountedOfProcess(0, 0, SECOND, 0),
    }
    late = {12: "it began after the measurement did", 13: "it began after the measurement did"}
    found = counted_report(ProcessAccesses(BASIS, counted, late), *counted, *late)
    shown = [cells(row)["COUNTED REMOTE"] for row in process_rows(found)]
    assert shown == ["25.0%", "~100.0%", "?", "-", "?", "?", "?"]
    assert found.accesses_uncounted is None
    assert "COUNTED REMOTE" in [column.title for column in process_columns(found)]
    assert "accesses of 2 processes not counted: it began after the measurement did" in notes(found, None, None)
    reasons = {one.pid: None if one.accesses is None else one.accesses.reason for one in found.items}
    assert (reasons[7], reasons[10]) == (None, None)
    assert "9999 counted accesses are too few" in (reasons[9] or "")
    assert "the counters never ran" in (reasons[11] or "")


def test_a_report_without_counted_accesses_has_no_column_and_the_reason() -> None:
    refused = ProcessAccesses(None, {}, {}, "this machine shows no PMU of its cores")
    late = ProcessAccesses(BASIS, {}, {7: "it began after the measurement did"})
    idle = ProcessAccesses(BASIS, {7: CountedOfProcess(0, 0, 0, 0)}, {})
    reasons = []
    for accesses in (None, refused, late, idle):
        found = counted_report(accesses, 7)
        assert "COUNTED REMOTE" not in [column.title for column in process_columns(found)]
        reasons.append(found.accesses_uncounted or "")
    assert "--duration" in reasons[0]
    assert reasons[1:] == [
        "this machine shows no PMU of its cores",
        "it began after the measurement did",
        "none of its processes ran",
    ]
