"""`numaudit forecast`: what a restart of the kubelet would do to the pods of this node. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.manager.state import kubelet_options


@click.command(
    epilog="""\b
Examples:
  numaudit forecast
  numaudit forecast --reboot
  numaudit forecast --kernel-huge-pages
  numaudit forecast --kubernetes-version 1.37 -o json

Exit codes: 0 every pod keeps its promise, 1 some do not, or the kubelet does not start, 2 usage, 3 unknown, 5 the
kubelet may or may not start.
"""
)
@click.option("--reboot", is_flag=True, help="Assume a reboot of the node: no container runs when the kubelet starts.")
@click.option(
    "--kernel-huge-pages",
    is_flag=True,
    help="Apply one more rule, which no released kubelet has: the kernel must have a pod's huge pages free.",
)
@kubelet_options
@options.output("table", "wide", "json")
@options.root
def command(**given: options.Given) -> None:
    """Show which pods a restart of the kubelet would refuse or move.

    It replays a start of the kubelet with its present settings and files, or of another version of the kubelet.
    `numaudit state verify` shows whether it starts with these files at all.
    """
    from numaudit.cli.manager import state_work

    state_work.forecast(**given)
