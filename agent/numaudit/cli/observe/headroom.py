"""`numaudit headroom`: memory that the Memory Manager can still promise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import options
from numaudit.errors import Unavailable

if TYPE_CHECKING:
    from numaudit.report.values import Report


@click.command(
    epilog="""\b
Examples:
  numaudit headroom
  numaudit headroom --root ./captured -o json

Exit codes: 0 fine, 2 usage, 3 the memory map is unknown: no kubelet, policy None, or no permission.
"""
)
@options.output("table", "json")
@options.root
def command(output: str, root: Path | None) -> None:
    """Show how much memory the kubelet can still promise.

    For each node and group it shows the largest container that would be admitted now, free memory that no container of
    one node can get, the pods that keep the group together, and memory without a promise.
    """
    from numaudit.cli import printing
    from numaudit.engine.engine import Engine
    from numaudit.engine.observer import Observer

    host = options.host(root)
    report = Engine(Observer.of(host)).tick().report
    found = report.memory_manager
    if found is None:
        raise Unavailable(f"the kubelet's memory map is not known on this host: {_why_not(report)}")
    if output == "json":
        printing.json_of_host("Headroom", found, host, report.taken_at)
    else:
        from numaudit.views.terminal import report_tables

        with printing.table_of_host(host, report.taken_at) as out:
            report_tables.print_headroom(found, out)


def _why_not(report: Report) -> str:
    from numaudit.checkpoints.formats.file import MEMORY
    from numaudit.kubelet.host_files import ON_A_NODE

    intent = next((one for one in report.sources if one.source == "intent"), None)
    if intent is not None and intent.state == "absent":
        return f"{intent.reason}; {ON_A_NODE}"
    if report.kubelet is not None and report.kubelet.memory_manager_policy == "None":
        return "the kubelet's Memory Manager has the policy None, which promises nothing"
    said = [finding.message for one in report.checkpoints if one.file == MEMORY for finding in one.findings]
    return f"{said[0] if said else f'{MEMORY} cannot be read'}; `numaudit state verify` says more"
