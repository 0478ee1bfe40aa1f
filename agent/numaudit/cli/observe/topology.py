"""`numaudit topology`: the machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from numaudit.api import document
from numaudit.cli import json_output, options
from numaudit.kernel.node import read_machine


@click.command(
    epilog="""\b
Examples:
  numaudit topology
  numaudit topology -o json
  numaudit topology -o svg > machine.svg
Exit codes: 0 fine, 2 usage, 3 this host cannot answer.
"""
)
@options.output("table", "json", "svg")
@options.root
def command(output: str, root: Path | None) -> None:
    """Show NUMA nodes, CPUs, distances, memory and huge pages."""
    host = options.host(root)
    topology = document.topology(read_machine(host))
    if output == "json":
        json_output.of_host("Topology", topology, host)
        return
    if output == "svg":
        from numaudit.views.page.machine import topology_file  # noqa: PLC0415 (for this output only)

        sys.stdout.buffer.write(topology_file(topology).encode())
        return
    from numaudit.views.terminal import machine_tables, terminal  # noqa: PLC0415 (rich is needed for tables only)

    machine_tables.print_topology(topology, terminal.console())
