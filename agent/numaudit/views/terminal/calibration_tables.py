"""The tables of `numaudit calibrate`: two matrices of nodes, what could not be measured, and what to know of it."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.text import Text

from numaudit.errors import printable
from numaudit.pmu.calibration import Calibration, Figure, PairSpeed
from numaudit.views.terminal.terminal import new_table, print_table

_GIGA = 1e9
UNSTABLE = "~"


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
    table = new_table(title, *(f">{node}" for node in nodes))
    for cpu_node in sorted({pair.cpu_numa_node for pair in found.pairs}):
        row = {pair.numa_node: show(pair) for pair in found.pairs if pair.cpu_numa_node == cpu_node}
        table.add_row(str(cpu_node), *(row[node] for node in nodes))
    print_table(table, out)


def _show(figure: Figure | None, unit: float) -> str:
    if figure is None:
        return "-"
    return f"{'' if figure.is_stable else UNSTABLE}{figure.value / unit:.1f}"
