"""The processes of an open container, as `numaudit top` shows them."""

from __future__ import annotations

import io

from rich.console import Console

from numaudit.snapshot import ProcessMapping
from numaudit.views.top.processes import print_memory_of_processes, processes_of

MIB = 1 << 20


def _mapping(pid: int, by_node: dict[int, int], kind: str = "anon", name: str | None = "db") -> ProcessMapping:
    return ProcessMapping(pid, name, None, kind, "default", None, {node: held * MIB for node, held in by_node.items()})


def test_mappings_of_a_process_are_added_and_the_largest_process_comes_first() -> None:
    found = processes_of([_mapping(7, {0: 1}), _mapping(9, {0: 1, 1: 4}), _mapping(7, {0: 2}, "heap")])
    assert [(one.pid, one.bytes_by_node) for one in found] == [(9, {0: MIB, 1: 4 * MIB}), (7, {0: 3 * MIB})]


def _printed(*mappings: ProcessMapping) -> list[str]:
    file = io.StringIO()
    print_memory_of_processes(mappings, Console(file=file, width=80, highlight=False, markup=False))
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_a_process_has_its_memory_on_each_node() -> None:
    assert _printed(_mapping(7, {0: 3}), _mapping(9, {1: 4}, name=None)) == [
        "processes",
        "PID PROCESS N0 N1",
        "9 ? 0 4Mi",
        "7 db 3Mi 0",
        "Memory that several processes share counts for each of them.",
    ]


def test_many_processes_are_counted_and_none_is_said() -> None:
    assert "and 70 more" in _printed(*(_mapping(pid, {0: 1}) for pid in range(1, 101)))
    assert _printed() == ["processes", "none of them could be read"]
