"""The report for people: what to do, containers, nodes, headroom, and all that is to be said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from numaudit.api.selection import shown_of
from numaudit.containermanager.pod.spec import MEMORY, full_name
from numaudit.errors import printable
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.columns import columns_of, placed
from numaudit.report.memory_manager import HolderReport, MemoryManagerReport
from numaudit.report.node_columns import NODE_COLUMNS, node_rows
from numaudit.report.nodes import NodePair, given, moved, sampled
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import (
    amounts,
    display_name,
    is_small_remainder,
    kinds_in_words,
    requested,
    size,
    small_remainders,
)
from numaudit.topology.quantity import at_most, plural, some_of
from numaudit.views.headroom import HUGE_PAGES, largest, largest_with_huge_pages, map_columns, map_rows, warnings
from numaudit.views.notes import (
    Note,
    NoteItem,
    finding_notes,
    not_known,
    rates_in_words,
    sources_in_trouble,
    verdict_notes,
)
from numaudit.views.terminal.fit import container_table, print_columns, print_explained
from numaudit.views.terminal.one_container import print_one_container
from numaudit.views.terminal.terminal import print_command, print_note, print_rows, print_table


def print_headroom(manager: MemoryManagerReport, out: Console, *, whole: bool = True) -> None:
    """The largest container that would be admitted, then the memory map by node, and who holds it.

    `whole` False: no legend, and holders only of groups of several nodes.
    """
    print_note(largest(manager), out, "bold")
    columns = [(column, place) for column, place in map_columns(manager) if column.title != "TYPE"]
    print_columns(columns, [row for row in map_rows(manager) if row.table.type == MEMORY], out, explains=whole)
    if manager.huge_pages:
        out.print()
        print_columns(HUGE_PAGES, list(manager.huge_page_rows()), out, explains=whole)
        for line in largest_with_huge_pages(manager):
            print_note(line, out)
    for line in _holders(manager, whole):
        print_note(line, out)
    for line in warnings(manager):
        print_note(line, out, "yellow")


def _holders(manager: MemoryManagerReport, whole: bool) -> Iterator[str]:
    by_group: dict[tuple[int, ...], list[HolderReport]] = {}
    for one in manager.holders:
        by_group.setdefault(tuple(one.group), []).append(one)
    for nodes, holders in by_group.items():
        if whole or len(nodes) > 1:
            what = (
                f"group {holders[0].group} is kept together by" if len(nodes) > 1 else f"node {nodes[0]} is promised to"
            )
            yield f"{what} {', '.join(map(_holder, holders))}"


def _holder(one: HolderReport) -> str:
    stale = "; stale" if one.stale else ""
    return printable(f"{full_name(one.namespace, one.pod, one.pod_uid, None)} ({amounts(one.bytes)}{stale})")


_STYLES = {"unknown": "yellow", "critical": "red", "error": "red", "warning": "yellow", "info": "dim"}
"""By the first word of a note's title."""
_MOST = 3
"""Findings, or containers, of one remedy that are explained above the table, which has all containers."""


def print_what_to_do(report: Report, shown: Sequence[ContainerReport], out: Console, *, whole: bool) -> bool:
    """Findings, misaligned containers and refused pods, the worst first, each remedy once after those that it is for.

    `whole`: explain every one. False = there is nothing to do.
    """
    misaligned = [note for note in verdict_notes(shown) if note.title in MISALIGNED]
    print_notes([*finding_notes(report.findings), *misaligned], out, None if whole else _MOST)
    _print_refused(report, out)
    return bool(report.findings or misaligned or report.rejections)


def print_reasons(shown: Sequence[ContainerReport], out: Console) -> None:
    """The reasons of the other verdicts."""
    others = (note for note in verdict_notes(shown) if note.title not in MISALIGNED)
    print_notes((replace(note, remedy=None) if note.title == "unmanaged" else note for note in others), out)
    judged = [(one, one.verdict) for one in shown if one.verdict is not None]
    if unseen := [display_name(one) for one, verdict in judged if verdict.reason == "access not measured"]:
        print_note(f"aligned: access not measured ({some_of(unseen)})", out)
    for remedy in {verdict.remedy for one, verdict in judged if verdict.name == "unmanaged" and one.pod_uid}:
        print_note(f"unmanaged: {remedy}", out, "dim")


def print_notes(notes: Iterable[Note], out: Console, most: int | None = None, indent: str = "") -> None:
    """A line for each item, its causes below it, and the remedy after the items that it is for."""
    for note in notes:
        style = _STYLES.get(note.title.partition(":")[0], "")
        for item in note.items[:most]:
            first = (note.title, item.subject) if item.container is None else (item.subject, note.title)
            print_note(indent + ": ".join(filter(None, (*map(printable, first), text_of(item)))), out, style)
            for cause in item.causes:
                print_note(f"{indent}    {printable(cause)}", out, "dim")
        if most is not None and (others := note.items[most:]):
            names = some_of([printable(item.subject) for item in others if item.subject])
            whose = f" ({names})" if names else ""
            print_note(f"{indent}{note.title}: {len(others)} more{whose}; -o wide says why", out, style)
        if note.remedy is not None:
            print_note(f"    -> {note.remedy}", out, "dim")
        with_commands = [item for item in note.items[:most] if item.commands]
        for item in with_commands:
            whose = f"  # {item.subject}" if len(with_commands) > 1 else ""
            for command in item.commands:
                print_command(f"{indent}       {printable(command + whose)}", out)


def text_of(item: NoteItem) -> str:
    """With the first of the names for which it holds."""
    return printable(f"{item.text} ({some_of(item.names)})" if item.names else item.text)


def _print_refused(report: Report, out: Console) -> None:
    """A workload may have hundreds of pods that were refused for the same: they are one line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for refused in report.rejections:
        same = refused.outcome, printable(refused.message or ""), printable(requested(refused))
        alike.setdefault(same, []).append(printable(f"{refused.namespace}/{refused.pod}"))
    for (outcome, message, asked), names in alike.items():
        print_note(f"refused: {some_of(names)}: {outcome}: {message}", out, "yellow")
        if asked:
            print_note(f"    Requested: {asked}.", out, "dim")
    if alike and (room := _admissible(report)):
        print_note(f"    {room}", out, "dim")


def _admissible(report: Report) -> str:
    manager = report.memory_manager
    if manager is None or not manager.admissible:
        return ""
    largest = max(manager.admissible, key=lambda one: one.bytes)
    cpus = f" ({manager.cpus_in_words})" if manager.cpus_in_words else ""
    most, nodes = at_most(largest.bytes), plural(largest.node_count, "node")
    return f"At most {most} of memory would be admitted now, on {nodes}{cpus}."


_RESIDUAL = (
    "RESIDUAL = the node's own count - containers - unattributed (anon, shmem, file, hugetlb), each read on its own."
)


def print_report(
    report: Report,
    out: Console,
    *,
    wide: bool = False,
    nodes: bool = False,
    of: int | None = None,
    is_named: bool = False,
    next_step: str | None = None,
) -> None:
    """The summary, what is wrong and what to do, the containers, the nodes, and what is not known.

    `nodes`: with the tables of nodes, as `wide` has them too. `of`: containers before any were left out. `is_named`:
    somebody asked for these containers by name; of a single one the report shows all figures. `next_step`: what to do
    where one node has nothing to show.
    """
    print_note(report.summary.text, out, "bold")
    print_note(kinds_in_words(report.summary.kinds), out)
    shown = [one for one in report.containers if wide or not is_small_remainder(one)]
    out.print()
    if print_what_to_do(report, shown, out, whole=wide):
        out.print()
    alone = is_named and not wide and len(shown) == 1
    if alone:
        print_one_container(shown[0], report, out)
    else:
        table, columns = container_table(report, shown, wide, out.width)
        print_table(table, out)
        if of is not None and len(report.containers) < of:
            print_note(shown_of(len(shown), of), out)
        gone = [f"{', '.join(columns)} (no room)"] if columns else []
        gone += [small_remainders(len(report.containers) - len(shown))] if len(shown) < len(report.containers) else []
        if gone:
            print_note(f"left out: {'; '.join(gone)}; -o wide shows all", out)
    if wide or nodes:
        _print_nodes(report, out)
    with out.capture() as captured:
        _print_notes(report, shown, out, wide)
        if next_step is not None and len(report.nodes) == 1 and not is_named:
            print_note(next_step, out)
        if alone and out.is_terminal:
            print_note("`numaudit explain` says why it was promised there; -o wide shows its cgroups.", out, "dim")
        elif not wide and not nodes and out.is_terminal:
            print_note("--nodes shows the nodes, -o wide also every cgroup and the meaning of the columns.", out, "dim")
    if notes := captured.get():
        out.file.write(f"\n{notes}")


def _print_nodes(report: Report, out: Console) -> None:
    out.print()
    print_columns(placed(NODE_COLUMNS, "table", report), node_rows(report), out, more="; -o wide shows all")
    print_note(_RESIDUAL, out, "dim")
    if report.memory_manager is not None:
        out.print()
        print_headroom(report.memory_manager, out, whole=False)


def print_matrix(report: Report, out: Console) -> None:
    """Pages given to each container: from the CPU's node (rows) to the page's node (columns)."""
    for one in report.containers:
        title = f"given to {display_name(one)}, by CPU's node and page's node"
        _print_pairs(report, title, "CPU ON", given(one), size, out)


def print_accesses(report: Report, out: Console) -> None:
    """Sampled pages of each container: from the CPU's node (rows) to the memory's node (columns)."""
    for one in report.containers:
        pages = sampled(one)
        title = f"pages of {display_name(one)} sampled by NUMA hint faults, by CPU's node and memory's node"
        more = f"; {pages.beside} were brought to the CPU's node by that" if pages.beside else ""
        _print_pairs(report, title + more, "CPU ON", pages.amounts, str, out)


def print_moved_pages(report: Report, out: Console) -> None:
    """Pages that NUMA balancing moved when each container used them: from their node (rows) to the CPU's (columns)."""
    for one in report.containers:
        pages = moved(one)
        title = f"moved by NUMA balancing for {display_name(one)}, from node to node"
        more = f"; {size(pages.beside)} could not be moved" if pages.beside else ""
        _print_pairs(report, title + more, "FROM", pages.amounts, size, out)


def _print_pairs(
    report: Report, title: str, rows: str, amounts: Mapping[NodePair, int], text: Callable[[int], str], out: Console
) -> None:
    """A table with a row for each node that has some, and a column for each node. Nothing where there is none."""
    if not amounts:
        return
    nodes: list[int | None] = [node.numa_node for node in report.nodes]
    columns = [*nodes, None] if any(to is None for _, to in amounts) else nodes
    out.print()
    out.print(Text(title, "bold"))
    starts = sorted({start for start, _ in amounts}, key=lambda node: (node is None, node))
    lines = ((_node_name(start), *(text(amounts.get((start, to), 0)) for to in columns)) for start in starts)
    print_rows((rows, *(f">{_node_name(node)}" for node in columns)), lines, out)


def _node_name(node: int | None) -> str:
    return "UNKNOWN" if node is None else f"N{node}"


def _print_notes(report: Report, shown: Sequence[ContainerReport], out: Console, wide: bool) -> None:
    if wide:
        print_explained(columns_of("table", report, wide=wide), out)
    print_reasons(shown, out)
    ended = _ended(report)
    if ended:
        print_note(ended, out, "dim")
    for line in rates_in_words(report):
        print_note(line, out)
    for item in not_known(report, shown):
        print_note(f"not known: {text_of(item)}", out, "yellow")
    for sources, why in sources_in_trouble(report):
        print_note(printable(f"{sources}: {why}"), out, "yellow")


def _ended(report: Report) -> str | None:
    """Counts of containers and cgroups that ended during the measurement, which have no row."""
    ended = report.ended
    if ended is None or not (ended.cpu_seconds or ended.allocated_bytes):
        return None
    amounts = f"{ended.cpu_seconds:.2f} s of CPU time, {size(ended.allocated_bytes)} allocated"
    return f"cgroups that ended meanwhile, and have no row: {amounts}"
