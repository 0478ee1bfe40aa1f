"""A cluster as tables, for people. Every name is the server's word, so it is made printable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from numaudit.api.fleet_document import FleetContainer, FleetFit, FleetForecast, FleetNode, FleetReport, misaligned
from numaudit.errors import printable
from numaudit.evaluation.findings import gravity
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.words import UNKNOWN, size
from numaudit.views.terminal.terminal import new_table, print_note, print_table

MOST_TOP = 200
"""Rows of a table at most."""
_STATE_STYLE = {"unsafe": "bold red", "reporting": "", "stale": "yellow", "down": "red", "gone": "yellow"}
_FIT_STYLE = {"fits": "green", "short": "red", "near": "yellow", "refused": "red", "unmanaged": "", "unknown": "yellow"}


def print_fleet(found: FleetReport, top: int, out: Console) -> None:
    """One sentence, then the `top` worst nodes and containers, what was refused, and what room is left."""
    _note(found.summary, out)
    nodes = [one for one in found.nodes if _is_worth_a_line(one)]
    if nodes:
        _note("", out)
        print_table(_nodes(nodes[:top]), out)
        _more(len(nodes) - top, top, "node has problems", "nodes have problems", out)
    if found.worst:
        _note("", out)
        print_table(_containers(found.worst), out)
        left = misaligned(found.verdicts) - len(found.worst)
        _more(left, len(found.worst), "container is misaligned", "containers are misaligned", out)
    if found.refusals:
        _note("", out)
        table = new_table("REFUSED IN THE LAST HOUR", "OUTCOME", ">PODS")
        for refusal in found.refusals:
            table.add_row(printable(refusal.reason), printable(refusal.outcome), str(refusal.pods))
        for one in found.refused_workloads:
            table.add_row(printable(f"{one.namespace}/{one.workload}"), "", str(one.pods))
        print_table(table, out)
    if found.allocatable_bytes:
        _note("", out)
        table = new_table(">NUMA NODES", ">LARGEST REQUEST", "ON")
        for room in found.largest_rooms:
            table.add_row(str(room.numa_nodes), size(room.bytes), printable(room.node))
        print_table(table, out)
        _note(
            f"{size(found.free_bytes)} of {size(found.allocatable_bytes)} allocatable memory are free; "
            f"{size(found.stranded_bytes)} of that cannot serve a container on one NUMA node",
            out,
        )
    _notes(found.notices, out)


def print_fits(found: FleetForecast, out: Console) -> None:
    """One sentence, then every node."""
    _note(found.sentence, out)
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
    table = new_table("~CONTAINER", "NODE", "VERDICT", ">MISPLACED", "PROMISED", ">REMOTE", "~FINDINGS")
    for one in worst:
        name = "/".join(filter(None, (one.namespace, one.pod, one.container)))
        remote = "-" if one.remote_ratio is None else f"{one.remote_ratio:.0%} {one.remote_source}"
        table.add_row(
            printable(name),
            printable(one.node),
            Text(printable(one.verdict), "red"),
            size(one.misplaced_bytes),
            UNKNOWN if one.intended_memory_nodes is None else str(one.intended_memory_nodes),
            printable(remote),
            printable(",".join(one.findings)) or "-",
        )
    return table


def _nodes(nodes: Iterable[FleetNode]) -> Table:
    table = new_table("NODE", "STATE", ">MISALIGNED", ">MISPLACED", "~PROBLEMS")
    for one in nodes:
        state = "unsafe" if one.restart_unsafe else one.state
        is_seen = one.containers > 0
        table.add_row(
            printable(one.node),
            Text(state, _STATE_STYLE[state]),
            f"{one.misaligned} of {one.containers}" if is_seen else UNKNOWN,
            size(one.misplaced_bytes) if is_seen else UNKNOWN,
            printable("; ".join(_problems(one))) or "-",
        )
    return table


def _problems(node: FleetNode) -> Iterator[str]:
    """The gravest first; the states of the agent and of its containers have columns of their own."""
    yield from node.problems
    yield from (f"{name} ({count})" for name, count in _gravest(node.findings))
    if count := node.verdicts.get("unknown"):
        yield f"verdict unknown ({count})"
    if node.refused_pods:
        yield f"pods refused ({node.refused_pods})"


def _gravest(findings: Mapping[str, int]) -> list[tuple[str, int]]:
    """Those of containers, without what is only for information."""
    return sorted((one for one in findings.items() if gravity(one[0]) < 2), key=lambda one: (gravity(one[0]), one[0]))


def _more(count: int, shown: int, one: str, several: str, out: Console) -> None:
    """Number of rows that a cut leaves out."""
    if count > 0:
        _note(f"{count} more {one if count == 1 else several}; --top {min(MOST_TOP, shown + count)} shows more", out)


def _is_worth_a_line(node: FleetNode) -> bool:
    """Something is wrong there."""
    has_misaligned = any(node.verdicts.get(name) for name in MISALIGNED)
    others = node.refused_pods or node.problems or node.verdicts.get("unknown") or _gravest(node.findings)
    return node.state != "reporting" or has_misaligned or bool(others)


def _fits(one: FleetFit) -> str:
    return "-" if one.fits is None else f"{one.fits}{'+' if one.may_fit_more else ''}"


def _notes(texts: Iterable[str], out: Console) -> None:
    for text in texts:
        _note(text, out)


def _note(text: str, out: Console) -> None:
    print_note(printable(text), out)
