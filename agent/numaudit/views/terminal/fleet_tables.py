"""A cluster as tables, for people. Every name is the server's word, so it is made printable."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from numaudit.api.fleet_document import FleetContainer, FleetFit, FleetForecast, FleetNode, FleetReport
from numaudit.errors import printable
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.words import UNKNOWN, size
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_STATE_STYLE = {"reporting": "", "stale": "yellow", "down": "red", "gone": "yellow"}
_FIT_STYLE = {"fits": "green", "near": "yellow", "refused": "red", "unmanaged": "", "unknown": "yellow"}


def print_fleet(found: FleetReport, top: int, out: Console) -> None:
    """One sentence, then the worst containers, the `top` worst nodes, what was refused, and what room is left."""
    _line(out, found.summary)
    if found.worst:
        _line(out, "")
        print_table(_containers(found.worst), out)
    nodes = [one for one in found.nodes if _is_worth_a_line(one)][:top]
    if nodes:
        _line(out, "")
        print_table(_nodes(nodes), out)
    if found.refusals:
        _line(out, "")
        table = new_table("REFUSED IN THE LAST HOUR", "OUTCOME", ">PODS")
        for refusal in found.refusals:
            table.add_row(printable(refusal.reason), printable(refusal.outcome), str(refusal.pods))
        for one in found.refused_workloads:
            table.add_row(printable(f"{one.namespace}/{one.workload}"), "", str(one.pods))
        print_table(table, out)
    if found.allocatable_bytes:
        _line(out, "")
        table = new_table(">NUMA NODES", ">LARGEST REQUEST", "ON")
        for room in found.largest_rooms:
            table.add_row(str(room.numa_nodes), size(room.bytes), printable(room.node))
        print_table(table, out)
        _line(
            out,
            f"{size(found.free_bytes)} of {size(found.allocatable_bytes)} allocatable memory are free; "
            f"{size(found.stranded_bytes)} of that cannot serve a container on one NUMA node",
        )
    _notes(found.notices, out)


def print_fits(found: FleetForecast, out: Console) -> None:
    """One sentence, then every node."""
    _line(out, found.sentence)
    table = new_table("NODE", "STATE", ">FITS", "NUMA NODES", "OUTCOME", "~WHY")
    for one in found.nodes:
        table.add_row(
            printable(one.node),
            Text(one.state, _FIT_STYLE[one.state]),
            _fits(one),
            "-" if one.memory_nodes is None else str(one.memory_nodes),
            printable(one.outcome or "-"),
            printable(one.message or ""),
        )
    print_table(table, out)
    for one in found.nodes:
        for way in one.admitting_changes:
            _note(f"{one.node}: {way} would let it in.", out)
    for text in found.not_considered:
        _note(f"not considered: {text}", out)
    _notes(found.notices, out)


def _containers(worst: Iterable[FleetContainer]) -> Table:
    table = new_table("CONTAINER", "NODE", "VERDICT", ">MISPLACED", ">JUDGED", "PROMISED", ">REMOTE", "FINDINGS")
    for one in worst:
        name = "/".join(filter(None, (one.namespace, one.pod, one.container)))
        remote = "-" if one.remote_ratio is None else f"{one.remote_ratio:.0%} {one.remote_source}"
        table.add_row(
            printable(name),
            printable(one.node),
            Text(printable(one.verdict), "red"),
            size(one.misplaced_bytes),
            size(one.judged_bytes),
            UNKNOWN if one.intended_memory_nodes is None else str(one.intended_memory_nodes),
            printable(remote),
            printable(",".join(one.findings)) or "-",
        )
    return table


def _nodes(nodes: Iterable[FleetNode]) -> Table:
    columns = ("NODE", "STATE", ">AGE", ">CONTAINERS", ">MISALIGNED", ">MISPLACED", ">FREE", ">REFUSED", "~PROBLEMS")
    table = new_table(*columns)
    for one in nodes:
        table.add_row(
            printable(one.node),
            Text(one.state, _STATE_STYLE[one.state]),
            "-" if one.age_seconds is None else f"{one.age_seconds:.0f}s",
            str(one.containers),
            str(one.misaligned),
            size(one.misplaced_bytes),
            "-" if one.free_bytes is None else size(one.free_bytes),
            str(one.refused_pods),
            printable("; ".join(one.problems)) or "-",
        )
    return table


def _is_worth_a_line(node: FleetNode) -> bool:
    """Something is wrong there."""
    has_misaligned = any(node.verdicts.get(name) for name in MISALIGNED)
    return node.state != "reporting" or has_misaligned or bool(node.refused_pods or node.problems)


def _fits(one: FleetFit) -> str:
    return "-" if one.fits is None else f"{one.fits}{'+' if one.may_fit_more else ''}"


def _notes(texts: Iterable[str], out: Console) -> None:
    for text in texts:
        _note(text, out)


def _note(text: str, out: Console) -> None:
    print_note(printable(text), out)


def _line(out: Console, text: str) -> None:
    out.print(Text(printable(text)), soft_wrap=True)
