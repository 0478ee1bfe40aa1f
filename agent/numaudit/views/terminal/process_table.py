"""Processes that have memory on the wrong nodes, of the containers that were asked for by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from numaudit.report.names import display_name
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import UNKNOWN, size
from numaudit.snapshot import ProcessMapping
from numaudit.topology.nodeset import NodeSet
from numaudit.views.terminal.terminal import new_table, print_note, print_table


def print_processes(report: Report, out: Console) -> None:
    """For each container the mappings with the most bytes on other nodes than it should use, and what is known now."""
    for one in report.containers:
        if one.elsewhere:
            wanted = _wanted(one)
            out.print()
            out.print(Text(f"{display_name(one)}: on other nodes than {wanted or 'none'}, by process", "bold"))
            nodes = sorted({node for row in one.elsewhere for node in row.bytes_by_node})
            table = new_table(
                ">PID", "PROCESS", "STARTED (UTC)", "KIND", "POLICY", *(f">N{node}" for node in nodes), "SHARED FILE"
            )
            for row in one.elsewhere:
                sizes = [size(row.bytes_by_node.get(node, 0)) for node in nodes]
                table.add_row(
                    str(row.pid), row.process or UNKNOWN, _time(row), row.kind, row.policy, *sizes, row.file or ""
                )
            print_table(table, out)
            for note in _now(one, report):
                print_note(note, out, "dim")


def _wanted(one: ContainerReport) -> NodeSet:
    promised = None if one.intended is None else one.intended.memory_nodes
    return promised or one.allowed_cpu_nodes or NodeSet()


def _time(row: ProcessMapping) -> str:
    if row.started_at is None:
        return UNKNOWN
    return datetime.fromtimestamp(row.started_at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _now(one: ContainerReport, report: Report) -> Iterator[str]:
    """Facts that may explain where new pages go; the kernel says nothing of the time when the old ones came there."""
    free = [
        f"node {node.numa_node} has {size(node.free_bytes)} of {size(node.total_bytes)} free"
        for node in report.nodes
        if node.numa_node in _wanted(one)
    ]
    allowed = one.allowed_memory_nodes
    may_use = (
        "the nodes that it may use are not known" if allowed is None else f"it may use memory of {allowed.in_words}"
    )
    yield f"now: {', '.join([*free, may_use])}"
    if one.mappings is not None and one.mappings.processes_read < one.mappings.processes:
        yield f"{one.mappings.processes_read} of its {one.mappings.processes} processes were read"
