"""`numaudit explain`: the account of a pod that is here. Its options."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.cli.parameters import ContainerName, Duration


@click.command(
    epilog="""\b
Examples:
  numaudit explain prod/mysql-0/db
  numaudit explain mysql-0 --duration 10s
  numaudit explain mysql-0 -o json --root ./captured

Exit codes: 0 fine, 2 usage or no such pod, 3 too little is known here.
"""
)
@click.argument("which", type=ContainerName(), metavar="POD[/CONTAINER]")
@options.output("table", "wide", "json")
@click.option(
    "--duration",
    type=Duration(),
    metavar="TIME",
    help="Measure with BPF for this long (10s, 1m) from which nodes POD uses its memory.",
)
@options.root
def command(**given: options.Given) -> None:
    """Explain what a pod of this host was promised, why, and what it got.

    It prints a page on each of its containers: the verdict and what to do, then the promise and the reason for it, the
    cpuset, memory and accesses by node, and the cost. For a pod that the kubelet refused, it prints
    the reason. For a pod that is not here yet, use `numaudit fit`.
    """
    from numaudit.cli.manager.explain_work import run

    run(**given)
