"""`numaudit topology`: the machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from numaudit.cli import EXIT_FINDINGS, options


@click.command(
    epilog="""\b
Examples:
  numaudit topology
  numaudit topology -o json
  numaudit topology -o svg > machine.svg

Exit codes: 0 fine, 1 what the kernel shows of CPUs or distances cannot be used, 2 usage, 3 this host cannot answer.
"""
)
@options.output("table", "json", "svg")
@options.root
def command(output: str, root: Path | None) -> int:
    """Show NUMA nodes, CPUs, distances, memory, huge pages and memory tiers."""
    from numaudit.api import document
    from numaudit.cli import printing
    from numaudit.kernel.memory.tiers import read_settings
    from numaudit.kernel.node import read_machine

    host = options.host(root)
    topology = document.topology(read_machine(host), read_settings(host))
    code = EXIT_FINDINGS if topology.problems else 0
    if output == "json":
        printing.json_of_host("Topology", topology, host)
        return code
    if output == "svg":
        from numaudit.engine.engine import Engine
        from numaudit.engine.observer import Observer
        from numaudit.kernel.devices.pci import PciDevices
        from numaudit.kernel.node import read_caches
        from numaudit.kernel.origin import origin_of
        from numaudit.views.page.topology_file import Hardware, topology_file

        report = Engine(Observer.of(host), thresholds=options.thresholds()).tick().report
        shown = report if report.containers else None
        parts = Hardware(read_caches(host), PciDevices(host).of_use)
        drawing = topology_file(topology, shown, origin_of(host, report.taken_at), parts)
        sys.stdout.buffer.write(drawing.encode())
        return code
    from numaudit.views.terminal import machine_tables

    with printing.table_of_host(host) as out:
        machine_tables.print_topology(topology, out)
    return code
