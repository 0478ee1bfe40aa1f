"""`numaudit setup`: is this node set up to keep its promises?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import EXIT_FINDINGS, options

if TYPE_CHECKING:
    from numaudit.evaluation.setup import SetupResult
    from numaudit.evaluation.setup.kubelet_config import Want
    from numaudit.evaluation.setup.node_reservations import Reserve


@click.command(
    epilog="""\b
Examples:
  numaudit setup
  numaudit setup --all
  numaudit setup --skip slit-flat,nodes-unequal --fail-on warning
  numaudit setup --root host.tar.xz -o json
  numaudit setup -o html > setup.html
  numaudit setup --kubelet-config --want pod-scope > kubelet.yaml

Exit codes: 0 fine, 1 a rule finds something of the severity of --fail-on or worse, 2 usage, 3 --kubelet-config has no
settings for this machine.
"""
)
@options.output("table", "json", "html")
@click.option("--all", "everything", is_flag=True, help="Also list rules that hold, and those that were not judged.")
@click.option("--skip", metavar="ID[,ID]", default="", help="Leave these rules out.")
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning", "info", "never")),
    default="error",
    show_default=True,
    help="The least severity for which the exit code is 1.",
)
@click.option(
    "--kubelet-config", "as_config", is_flag=True, help="Print the kubelet's settings that this machine needs, as YAML."
)
@click.option(
    "--want",
    type=click.Choice(("single-numa-node", "restricted", "pod-scope")),
    help="With --kubelet-config: how strictly to align; pod-scope gives all containers of a pod the same nodes. "
    "[default: single-numa-node]",
)
@click.option(
    "--reserve",
    type=click.Choice(("measured", "even")),
    help="With --kubelet-config: reserve on each node what the system uses of it, or equal parts. [default: measured]",
)
@options.root
def command(
    output: str,
    everything: bool,
    skip: str,
    fail_on: str,
    as_config: bool,
    want: Want | None,
    reserve: Reserve | None,
    root: Path | None,
) -> int:
    """Check whether this node is set up to keep promises of memory.

    Rules look at the kubelet's settings, the kernel, the firmware, devices and pods. Each says what is wrong, why it
    matters, and what to do; `docs/setup.md` lists them.
    """
    if as_config:
        if output != "table" or everything or skip:
            raise click.UsageError("--kubelet-config prints YAML, and judges no rules: leave out -o, --all and --skip")
        return _print_config(want or "single-numa-node", reserve or "measured", root)
    if want or reserve:
        raise click.UsageError("--want and --reserve are for --kubelet-config: add it")
    from numaudit.cli import printing
    from numaudit.engine.engine import Engine
    from numaudit.engine.observer import Observer
    from numaudit.evaluation.setup import STATES, skipped_rules
    from numaudit.evaluation.setup.rule import Setup

    skipped = skipped_rules(skip)
    host = options.host(root)
    judgements = Engine(Observer.of(host), accepted=options.accepted_rules()).tick().judgements
    found = Setup(tuple(one for one in judgements.setup if one.id not in skipped), judgements.facts)
    if output == "json":
        printing.json_of_host("Setup", found, host)
    elif output == "html":
        from numaudit.kernel.origin import origin_of
        from numaudit.views.page.report_page import setup_page

        sys.stdout.buffer.write(setup_page(found, origin_of(host)).encode())
    else:
        from numaudit.views.terminal import setup_tables

        with printing.table_of_host(host) as out:
            setup_tables.print_setup(found, out, everything=everything)
    return _exit_code(found.rules, () if fail_on == "never" else STATES[: STATES.index(fail_on) + 1])


def _print_config(want: Want, reserve: Reserve, root: Path | None) -> int:
    from numaudit.engine.engine import Engine
    from numaudit.engine.observer import Observer
    from numaudit.evaluation.setup.kubelet_config import kubelet_settings
    from numaudit.evaluation.setup.rule import SetupEvidence
    from numaudit.views.kubelet_yaml import to_yaml

    snapshot = Engine(Observer.of(options.host(root))).tick().snapshot
    click.echo(to_yaml(kubelet_settings(SetupEvidence(snapshot), want, reserve)), nl=False)
    return 0


def _exit_code(rules: Sequence[SetupResult], failing: Sequence[str]) -> int:
    return EXIT_FINDINGS if any(one.state in failing for one in rules) else 0
