"""The processes of the container that is open, with their judged memory by node. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console

from numaudit.report.words import UNKNOWN, size
from numaudit.snapshot import ProcessMapping
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_MOST = 30


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """One process: bytes by node of its anonymous and shared memory, stack, heap and huge pages."""

    pid: int
    name: str | None
    """None = it has ended."""
    bytes_by_node: dict[int, int]

    @property
    def bytes(self) -> int:
        return sum(self.bytes_by_node.values())


def processes_of(mappings: Iterable[ProcessMapping]) -> list[ProcessMemory]:
    """One for each process, the largest first."""
    found: dict[int, ProcessMemory] = {}
    for one in mappings:
        by_node = found.setdefault(one.pid, ProcessMemory(one.pid, one.process, {})).bytes_by_node
        for node, held in one.bytes_by_node.items():
            by_node[node] = by_node.get(node, 0) + held
    return sorted(found.values(), key=lambda one: (-one.bytes, one.pid))


def print_memory_of_processes(mappings: Iterable[ProcessMapping], out: Console) -> None:
    """A row for each of the largest processes, and the number of the others."""
    found = processes_of(mappings)
    print_note("processes", out, "bold")
    if not found:
        print_note("  none of them could be read", out)
        return
    nodes = sorted({node for one in found for node in one.bytes_by_node})
    table = new_table("  ", ">PID", "PROCESS", *(f">N{node}" for node in nodes))
    for one in found[:_MOST]:
        sizes = (size(one.bytes_by_node.get(node, 0)) for node in nodes)
        table.add_row("", str(one.pid), one.name or UNKNOWN, *sizes)
    print_table(table, out)
    if len(found) > _MOST:
        print_note(f"  and {len(found) - _MOST} more", out, "dim")
    if len(found) > 1:
        print_note("  Memory that several processes share counts for each of them.", out, "dim")
