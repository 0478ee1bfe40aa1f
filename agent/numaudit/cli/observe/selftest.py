"""`numaudit selftest`: a check of numaudit's figures against known work on this host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numaudit.cli import options
from numaudit.cli.exits import EXIT_FINDINGS, EXIT_INCONCLUSIVE
from numaudit.errors import Unavailable
from numaudit.kernel.host import Host

if TYPE_CHECKING:
    from numaudit.api.selftest_document import SelfTestCheck


@click.command(
    epilog="""\b
Examples:
  numaudit selftest
  numaudit selftest -o json

Exit codes: 0 all checks pass, 1 a check fails, 2 usage, 3 no check could run, 5 inconclusive: the machine is too
busy.
"""
)
@options.output("table", "json")
def command(output: str) -> int:
    """Test whether numaudit distinguishes near and far memory on this host.

    It runs two small processes that use near and far memory, in two cgroups of its own, for some seconds. It needs
    root.
    """
    from numaudit.api.selftest_document import SelfTest
    from numaudit.cli import json_output
    from numaudit.selftest.selftest import selftest

    checks = selftest(Host())
    if output == "json":
        json_output.of_host("SelfTest", SelfTest(checks), Host())
    else:
        from numaudit.views.terminal import machine_tables, terminal

        machine_tables.print_selftest(checks, terminal.console())
    if all(one.state == "not tried" for one in checks):
        raise Unavailable("no part of the self-test could run on this host; the table says why")
    return exit_code(checks)


def exit_code(checks: Sequence[SelfTestCheck]) -> int:
    """A failure comes before what is inconclusive, and that before a pass."""
    states = {one.state for one in checks}
    if "failed" in states:
        return EXIT_FINDINGS
    return EXIT_INCONCLUSIVE if "inconclusive" in states else 0
