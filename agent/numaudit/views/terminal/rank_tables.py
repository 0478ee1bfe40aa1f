"""`numaudit ranks` in a terminal: the answer, the commands that help, and a line for each rank."""

from __future__ import annotations

from rich.console import Console

from numaudit.api.ranks_document import HostRanks, of_unread
from numaudit.errors import printable
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.views.rank_columns import MOST, rank_columns
from numaudit.views.terminal.fit import print_columns
from numaudit.views.terminal.terminal import print_command, print_note

_MOST_COMMANDS = 8


def print_ranks(found: HostRanks, out: Console, *, wide: bool = False) -> None:
    """`wide`: all of them."""
    is_wrong = any(one.counts and one.verdict in NOT_WHERE_BOUND for one in found.items)
    style = "bold red" if is_wrong else "bold" if found.items or not found.not_read else "yellow"
    print_note(printable(found.sentence), out, style)
    commands = [command for one in found.items for command in one.commands]
    shown = commands if wide else commands[:_MOST_COMMANDS]
    for command in shown:
        print_command(f"    {command}", out)
    if len(shown) < len(commands):
        print_note(f"    and {len(commands) - len(shown)} more commands; -o wide shows all", out, "dim")
    if found.items:
        out.print()
        rows = found.items if wide else found.items[:MOST]
        print_columns(rank_columns(rows, wide=wide), rows, out, explains=True)
        if len(rows) < len(found.items):
            print_note(f"and {len(found.items) - len(rows)} more; -o wide shows all", out, "dim")
        if found.not_read:
            unread = of_unread(found.processes, found.not_read, found.not_read_reason)
            print_note(printable(f"There may be more ranks: {unread}."), out, "yellow")
