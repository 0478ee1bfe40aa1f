"""`numaudit state`: decodes, verifies and compares the kubelet's checkpoints."""

from __future__ import annotations

import click

from numaudit.cli import options
from numaudit.containermanager.versions import LATEST, POD_LEVEL_GATE

_FILE = options.FilePath(exists=True, dir_okay=False, readable=False, allow_dash=True)


def kubelet_options(function: options.Function) -> options.Function:
    """--kubernetes-version and --feature-gates of the kubelet that starts with a checkpoint."""
    version = click.option(
        "--kubernetes-version",
        metavar="V",
        help="Version of the kubelet that starts with the file. Default: the host's, from its log or metrics, "
        f"else {LATEST[0]}.{LATEST[1]}, or 1.37 for the formats of 1.37.",
    )
    gates = click.option(
        "--feature-gates",
        metavar=f"{POD_LEVEL_GATE}=BOOL",
        help="Feature gate of that kubelet. Default: as in the kubelet's configuration on this host, or else as when "
        "the file was written.",
    )
    return version(gates(function))


@click.group(
    epilog="""\b
Examples:
  numaudit state show
  numaudit state verify /var/lib/kubelet/memory_manager_state
  numaudit state verify -o json --root ./captured
  numaudit state diff before/memory_manager_state after/memory_manager_state
  ssh node cat /var/lib/kubelet/memory_manager_state | numaudit state verify -

Exit codes: 0 fine, 1 not valid or not the same, 2 usage, 3 this host has no checkpoint, or it may not be read.
"""
)
def command() -> None:
    """Decode, verify or compare the kubelet's checkpoints."""


@command.command(
    epilog="""\b
Examples:
  numaudit state show
  numaudit state show /var/lib/kubelet/cpu_manager_state
  numaudit state show --root ./captured -o json

Exit codes: 0 fine, 1 a file is damaged, 2 usage or FILE is no checkpoint, 3 this host has none, or it may not be
read.
"""
)
@click.argument("file", required=False, type=_FILE)
@options.output("table", "json")
@kubelet_options
@options.root
def show(**given: options.Given) -> None:
    """Decode FILE, or all checkpoints on this host.

    It also verifies them as `numaudit state verify` does, as far as the machine can be read.
    """
    from numaudit.cli.manager import state_work

    state_work.show(**given)


@command.command(
    epilog="""\b
Examples:
  numaudit state verify
  numaudit state verify ./memory_manager_state -o json
  numaudit state verify --kubernetes-version 1.31
  numaudit state verify ./memory_manager_state --policy Static

Exit codes: 0 valid, 1 not valid or the kubelet does not start with it, 2 usage or FILE is no checkpoint, 3 too little
can be read here.
"""
)
@click.argument("file", required=False, type=_FILE)
@options.output("table", "json")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="Configured policy of FILE's manager; without FILE, None or Static for memory and none or static for CPUs. "
    "Default: as in the kubelet's configuration on this host.",
)
@kubelet_options
@options.root
def verify(**given: options.Given) -> None:
    """Verify FILE, or all checkpoints on this host.

    It shows whether the kubelet will start with them. A file in the kubelet's folder, or any file with --root, is also
    compared with the machine.
    """
    from numaudit.cli.manager import state_work

    state_work.verify(**given)


@command.command(
    epilog="""\b
Examples:
  numaudit state diff before/memory_manager_state after/memory_manager_state
  numaudit state diff /var/lib/kubelet/memory_manager_state

Exit codes: 0 the same, 1 they differ, 2 usage, or A and B are not two checkpoints of one kind, 3 the machine cannot
be read.
"""
)
@click.argument("a", type=_FILE)
@click.argument("b", required=False, type=_FILE)
@options.output("table", "json")
@options.root
def diff(**given: options.Given) -> None:
    """Show the differences between checkpoints A and B.

    Without B, A must be a memory_manager_state. It is compared with the memory map that this machine would have if
    A's promises were replayed.
    """
    from numaudit.cli.manager import state_work

    state_work.diff(**given)
