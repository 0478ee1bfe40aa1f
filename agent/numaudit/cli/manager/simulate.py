"""`numaudit simulate`: a step-by-step simulation of pods on a described machine."""

from __future__ import annotations

from pathlib import Path

import click

from numaudit.cli import EXIT_FINDINGS, EXIT_INCONCLUSIVE, options


@click.command(
    epilog="""\b
Examples:
  numaudit simulate docs/examples/walk-through.yaml
  numaudit simulate scenario.yaml -o json
  numaudit simulate scenario.yaml --orders --fail-on-reject

Exit codes: 0 fine, 1 with --fail-on-reject if a pod is refused, 5 if that is not known, 2 usage or a wrong scenario.
"""
)
@click.argument("scenario", type=options.FilePath(exists=True, dir_okay=False, readable=False))
@options.output("table", "json")
@click.option("--orders", is_flag=True, help="List the orders of the scenario's pods in which all are admitted.")
@click.option(
    "--fail-on-reject", is_flag=True, help="Exit with 1 when a pod is refused or the kubelet does not start again."
)
def command(scenario: Path, output: str, orders: bool, fail_on_reject: bool) -> None:
    """Simulate SCENARIO: show which pods a kubelet admits, where, and its memory map after each step."""
    from numaudit.api import simulation_document
    from numaudit.cli import printing
    from numaudit.config import yaml_document
    from numaudit.config.yaml_document import ScenarioFiles
    from numaudit.scenario.reading import read_scenario
    from numaudit.scenario.simulation import find_orders, simulate

    read = read_scenario(yaml_document.read(scenario, "the scenario"), ScenarioFiles(scenario).open)
    played = simulate(read)
    for notice in played.notices:
        click.echo(f"numaudit: {notice}", err=True)
    found = find_orders(read) if orders else None
    shown = simulation_document.simulation(played, found)
    if output == "json":
        printing.json_of_no_host("Simulation", shown)
    else:
        from numaudit.views.terminal import simulation_tables, terminal

        simulation_tables.print_simulation(played, shown, terminal.console())
    if fail_on_reject and played.has_refusal:
        click.get_current_context().exit(EXIT_FINDINGS)
    if fail_on_reject and played.is_open:
        click.get_current_context().exit(EXIT_INCONCLUSIVE)
