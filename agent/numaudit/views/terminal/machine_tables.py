"""The tables of `numaudit topology`, `ranks`, `config show`, and `doctor` with its self-test and calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from numaudit.api.document import CheckState, Doctor, SelfTestCheck, Setting, Topology, TopologyNode
from numaudit.api.ranks_document import HostRanks, of_unread
from numaudit.errors import printable
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.pmu.calibration import Calibration, Figure, PairSpeed
from numaudit.report.words import UNKNOWN, cpu_list, or_unknown, size
from numaudit.snapshot import Check
from numaudit.topology.tiers import MemorySpeed, TierSettings, in_words
from numaudit.views.rank_columns import MOST, rank_columns
from numaudit.views.terminal.fit import print_columns
from numaudit.views.terminal.terminal import new_table, print_command, print_note, print_rows, print_table

_STATE_STYLE = {"ok": "green", "reduced": "yellow", "missing": "red", "n/a": "dim"}
_CHECK_STYLE: dict[CheckState, str] = {
    "passed": "green",
    "failed": "red",
    "inconclusive": "yellow",
    "not tried": "yellow",
}
_GIGA = 1e9
UNSTABLE = "~"
_OF_A_RUNNING_HOST = ("rights",)
"""Checks that a capture always passes."""


def print_doctor(found: Doctor, out: Console, *, is_capture: bool = False) -> None:
    """A group for each question, a line for each reason, and a sentence at the end.

    Of a capture, what only a running kernel could answer is left out.
    """
    shown = [one for one in found.checks if not (is_capture and _is_live_only(one))]
    asked = {name for question in found.questions for name in question.checks}
    table = new_table("CHECK", "STATE", "~DETAIL")
    _add_group("host", "", [one for one in shown if one.name not in asked], table)
    for question in found.questions:
        _add_group(question.link, question.question, [one for one in shown if one.name in question.checks], table)
    print_table(table, out)
    out.print()
    print_note(_summary(found, is_capture=is_capture), out, "bold")


def _is_live_only(check: Check) -> bool:
    return check.reason == "not-live" or check.name in _OF_A_RUNNING_HOST


def _add_group(title: str, question: str, checks: Sequence[Check], table: Table) -> None:
    if not checks:
        return
    table.add_row(Text(title, "bold"), "", Text(question, "bold"))
    for (_, state, detail, hint), alike in groupby(checks, _reason):
        first, *others = (one.name for one in alike)
        table.add_row(f"  {first}", Text(state, _STATE_STYLE[state]), printable(detail))
        if others:
            table.add_row("", "", Text(f"the same for {', '.join(others)}", "dim"))
        if hint is not None:
            table.add_row("", "", Text(f"-> {printable(hint)}", "dim"))


def _reason(one: Check) -> tuple[str, str, str, str | None]:
    """Checks that lack the same thing are one line; each that works has its own."""
    return one.name if one.state == "ok" else "", one.state, one.detail, one.hint


def _summary(found: Doctor, *, is_capture: bool) -> str:
    answered = [one for one in found.questions if one.answered]
    subject = "This capture" if is_capture else "This host"
    text = f"{subject} can answer {len(answered)} of {len(found.questions)} questions"
    lacking = [one.question for one in found.questions if not one.answered]
    return f"{text}, but not {', nor '.join(lacking)}." if lacking else f"{text}."


def print_selftest(checks: Sequence[SelfTestCheck], out: Console) -> None:
    """One line for each check: what should be seen, and what was."""
    rows = (
        (one.name, Text(one.state, _CHECK_STYLE[one.state]), printable(one.expected), printable(one.seen))
        for one in checks
    )
    print_rows(("CHECK", "STATE", "~EXPECTED", "~SEEN"), rows, out)


def print_calibration(found: Calibration, out: Console) -> None:
    """Rows are the CPUs' nodes, columns the memory's. `~` marks what did not repeat."""
    _print_matrix("LATENCY (ns)", found, lambda pair: _show(pair.latency_ns, 1.0), out)
    out.print()
    _print_matrix("READ (GB/s)", found, lambda pair: _show(pair.bytes_per_second, _GIGA), out)
    for pair in found.pairs:
        if pair.reason is not None:
            where = f"CPUs of node {pair.cpu_numa_node}, memory of node {pair.numa_node}"
            out.print(Text(f"not measured: {where}: {printable(pair.reason)}"))
    for note in found.notes:
        out.print(Text(f"note: {note}"))


def _print_matrix(title: str, found: Calibration, show: Callable[[PairSpeed], str], out: Console) -> None:
    nodes = sorted({pair.numa_node for pair in found.pairs})
    by_nodes = {(pair.cpu_numa_node, pair.numa_node): show(pair) for pair in found.pairs}
    of_cpus = sorted({pair.cpu_numa_node for pair in found.pairs})
    rows = ((str(cpus), *(by_nodes[cpus, node] for node in nodes)) for cpus in of_cpus)
    print_rows((title, *(f">{node}" for node in nodes)), rows, out)


def _show(figure: Figure | None, unit: float) -> str:
    if figure is None:
        return "-"
    return f"{'' if figure.is_stable else UNSTABLE}{figure.value / unit:.1f}"


def print_topology(topology: Topology, out: Console) -> None:
    """Nodes with CPUs, memory and huge pages, then the distances, then memory tiers."""
    titles = ("NODE", ">CPUS", "~CPU LIST", "SOCKETS", ">CORES", ">MEMORY", "~HUGE PAGES (free of total)")
    print_rows(titles, map(_node, topology.nodes), out)
    out.print()
    _print_distances(topology, out)
    _print_tiers(topology, out)
    for problem in topology.problems:
        out.print(Text(f"not known: {problem}", "yellow"))


def _node(node: TopologyNode) -> tuple[str, ...]:
    return (
        str(node.numa_node),
        or_unknown(None if node.cpus is None else len(node.cpus)),
        cpu_list(node.cpus),
        UNKNOWN if node.cpus is None else ",".join(map(str, node.sockets)),
        or_unknown(node.cores),
        size(node.memory_bytes),
        ", ".join(f"{size(p.page_size)}: {or_unknown(p.free)} of {p.total}" for p in node.huge_pages),
    )


def _print_distances(topology: Topology, out: Console) -> None:
    if not any(node.distances for node in topology.nodes):
        if not topology.problems:
            out.print(Text("the kernel shows no distances between nodes"))
        return
    ids = [node.numa_node for node in topology.nodes]
    rows = ((str(node.numa_node), *(or_unknown(node.distances.get(one)) for one in ids)) for node in topology.nodes)
    print_rows(("DISTANCE", *(f">{one}" for one in ids)), rows, out)


def _print_tiers(topology: Topology, out: Console) -> None:
    """Nothing where the kernel shows no tiers, and one line where there is one."""
    tiers = topology.memory_tiers
    if tiers is not None and len(tiers) > 1:
        out.print()
        titles = ("NODE", ">MEMORY TIER", ">DEMOTES TO", ">READ LATENCY", ">WRITE", ">READ BANDWIDTH", ">WRITE")
        rows = (
            (
                str(node.numa_node),
                or_unknown(node.memory_tier) if node.memory_bytes else "no memory",
                str(node.demotion_targets or "nowhere"),
                *(["unknown"] * 4 if node.memory_speed is None else _figures(node.memory_speed)),
            )
            for node in topology.nodes
        )
        print_rows(titles, rows, out)
    if tiers is not None:
        out.print(Text(in_words(len(tiers), TierSettings(topology.demotion_enabled, topology.numa_balancing))))


def _figures(speed: MemorySpeed) -> list[str]:
    latencies = (speed.read_latency_nanoseconds, speed.write_latency_nanoseconds)
    widths = (speed.read_bytes_per_second, speed.write_bytes_per_second)
    return [
        *("unknown" if one is None else f"{one} ns" for one in latencies),
        *("unknown" if one is None else f"{size(one)}/s" for one in widths),
    ]


def print_settings(settings: Sequence[Setting], out: Console) -> None:
    """One line for each setting, with where its value came from."""
    rows = ((one.key, printable(one.value) or "unset", printable(one.origin)) for one in settings)
    print_rows(("SETTING", "~VALUE", "~FROM"), rows, out)


_MOST_COMMANDS = 8
"""Printed; `-o wide` has all."""


def print_ranks(found: HostRanks, out: Console, *, wide: bool = False) -> None:
    """The answer, the commands that help, and a line for each rank. `wide`: all of them."""
    is_wrong = any(one.counts and one.verdict in NOT_WHERE_BOUND for one in found.items)
    style = "bold red" if is_wrong else "bold" if found.items or not found.not_read else "yellow"
    print_note(printable(found.sentence), out, style)
    commands = [command for one in found.items for command in one.commands]
    shown = commands if wide else commands[:_MOST_COMMANDS]
    for command in shown:
        print_command(f"    {command}", out)
    if len(shown) < len(commands):
        print_note(f"    and {len(commands) - len(shown)} more commands; -o wide shows all", out, "dim")
    if found.items:
        out.print()
        rows = found.items if wide else found.items[:MOST]
        print_columns(rank_columns(rows, wide=wide), rows, out, explains=True)
        if len(rows) < len(found.items):
            print_note(f"and {len(found.items) - len(rows)} more; -o wide shows all", out, "dim")
        if found.not_read:
            unread = of_unread(found.processes, found.not_read, found.not_read_reason)
            print_note(printable(f"There may be more ranks: {unread}."), out, "yellow")
