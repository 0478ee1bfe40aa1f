"""One container of a report in full: its figures by node, all the others, and its processes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from numaudit.errors import printable
from numaudit.report import cells
from numaudit.report.columns import columns_of, everywhere
from numaudit.report.process_columns import COLUMNS, notes, process_columns, process_rows
from numaudit.report.values import ContainerReport, NodeReport, Report
from numaudit.report.words import UNKNOWN, display_name, in_utc, size
from numaudit.snapshot import ProcessMapping
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.account import device_lines
from numaudit.views.terminal.fit import STYLES, print_columns, print_explained
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_MOST_NODES = 8
"""On a larger machine, nodes that have nothing to do with the container are left out."""
_BY_NODE = ("CONTAINER", "PROMISED", "ALLOWED", "CPU NODES", "BY NODE", "FILE")
"""Columns of the table of containers that the table of nodes shows."""
_GAP = "   "
_NONE = "-"


def print_one_container(one: ContainerReport, report: Report, out: Console) -> None:
    """A column for each node: promised, allowed, CPUs and bytes; below it the other figures of its row."""
    nodes = _nodes(one, report.nodes)
    table = new_table(display_name(one), *(f">N{node.numa_node}" for node in nodes))
    intended = one.intended
    table.add_row("promised memory", *_marks(nodes, None if intended is None else intended.memory_nodes or NodeSet()))
    table.add_row("allowed memory", *_marks(nodes, one.allowed_memory_nodes))
    table.add_row("promised CPUs", *_counts(nodes, None if intended is None else intended.cpus))
    table.add_row("allowed CPUs", *_counts(nodes, one.allowed_cpus))
    table.add_row("judged bytes", *(cells.on_node(node.numa_node, one) for node in nodes))
    table.add_row("page cache", *(_file(node.numa_node, one) for node in nodes))
    print_table(table, out)
    for line in _lines(list(_figures(one, report)), out.width):
        out.print(Text(_GAP).join(line))
    if len(nodes) < len(report.nodes):
        print_note(f"{len(nodes)} of {len(report.nodes)} nodes shown; on the others it has and may use nothing", out)


def _nodes(one: ContainerReport, nodes: Sequence[NodeReport]) -> Sequence[NodeReport]:
    if len(nodes) <= _MOST_NODES:
        return nodes
    promised = None if one.intended is None else one.intended.memory_nodes
    with_memory = {row.numa_node for row in one.resident or () if row.judged or row.file}
    wanted = with_memory.union(promised or (), one.allowed_cpu_nodes or ())
    return [node for node in nodes if node.numa_node in wanted] or nodes


def _marks(nodes: Sequence[NodeReport], wanted: NodeSet | None) -> Iterator[str]:
    for node in nodes:
        yield UNKNOWN if wanted is None else "yes" if node.numa_node in wanted else _NONE


def _counts(nodes: Sequence[NodeReport], cpus: CpuSet | None) -> Iterator[str]:
    """The number of them that each node has."""
    for node in nodes:
        here = None if cpus is None or node.cpus is None else cpus & node.cpus
        yield UNKNOWN if here is None else _NONE if not here else f"{len(here)}"


def _file(node: int, one: ContainerReport) -> str:
    row = next((row for row in one.resident or () if row.numa_node == node), None)
    return size(None if row is None else row.file)


def _figures(one: ContainerReport, report: Report) -> Iterator[Text]:
    """TITLE value, of every other column that has one; the verdict comes first."""
    columns = columns_of("table", report)
    for column, place in sorted(columns, key=lambda pair: pair[0].title != "VERDICT"):
        text = column.text(one)
        if column.title not in _BY_NODE and text:
            tone = None if column.tone is None else column.tone(one)
            yield Text.assemble((f"{column.heading(place)} ", "bold"), (text, STYLES[tone]))


def _lines(figures: Sequence[Text], width: int) -> Iterator[list[Text]]:
    """As many figures in a line as there is room for."""
    line: list[Text] = []
    for one in figures:
        taken = sum(each.cell_len for each in line) + len(_GAP) * len(line)
        if line and taken + one.cell_len > min(width, 120):
            yield line
            line = []
        line.append(one)
    yield line


def print_processes(report: Report, out: Console) -> None:
    """For each container the mappings with the most bytes on other nodes than it should use, and what is known now."""
    for one in report.containers:
        if one.elsewhere:
            wanted = _wanted(one)
            out.print()
            out.print(Text(f"{display_name(one)}: on nodes other than {wanted or 'none'}, by process", "bold"))
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


def print_devices(report: Report, out: Console, *, is_named: bool) -> None:
    """The PCI devices of each container that has some; of one that is named, also that it has none, or why not."""
    for one in report.containers:
        found = one.devices
        if found is not None and (found.items or (is_named and len(report.containers) == 1)):
            out.print()
            out.print(Text(f"{display_name(one)}: its devices", "bold"))
            for line in device_lines(found):
                print_note(printable(line), out)


def print_process_tables(report: Report, out: Console) -> None:
    """A table for each container that has processes, and what the columns mean."""
    shown = [one for one in report.containers if one.processes is not None and one.processes.alive]
    for one in shown:
        out.print()
        out.print(Text(f"{display_name(one)}: its processes", "bold"))
        print_process_table(one, out)
        _print_ranks(one, out)
    if shown:
        print_explained(everywhere(COLUMNS), out)
    elif any(one.processes is not None for one in report.containers):
        print_note("no processes: what was asked for has none", out)


def print_process_table(one: ContainerReport, out: Console, *, indented: bool = False) -> None:
    """Rows and notes; nothing where its processes were not read."""
    found = one.processes
    if found is None:
        return
    indent = "  " if indented else ""
    print_columns(everywhere(process_columns(found)), process_rows(found), out, indent=indent)
    for note in notes(found, one.expected_remote_ratio, one.expected_basis):
        print_note(f"{indent}{note}", out, "dim")


def _print_ranks(one: ContainerReport, out: Console) -> None:
    """In a sentence; nothing where no process declares a placement."""
    if one.processes is not None and one.processes.ranks_summary is not None:
        command = f"numaudit ranks {shlex.quote(display_name(one))}"
        print_note(printable(f"{one.processes.ranks_summary} `{command}` lists them."), out, "bold")


def _wanted(one: ContainerReport) -> NodeSet:
    promised = None if one.intended is None else one.intended.memory_nodes
    return promised or one.allowed_cpu_nodes or NodeSet()


def _time(row: ProcessMapping) -> str:
    if row.started_at is None:
        return UNKNOWN
    return in_utc(row.started_at).removesuffix(" UTC")


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
