"""Contents of the screen of `numaudit top` once a container is opened, and its help. Pure."""

from __future__ import annotations

import io
from collections.abc import Callable

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from numaudit.api.selection import only
from numaudit.report.names import display_name
from numaudit.report.values import Report
from numaudit.snapshot import ContainerId
from numaudit.views.judgement_notes import print_findings
from numaudit.views.terminal.placement_page import print_container
from numaudit.views.terminal.process_table import print_processes
from numaudit.views.terminal.terminal import new_table, print_note, print_table
from numaudit.views.top import head
from numaudit.views.top.keys import KEYS
from numaudit.views.top.news import RowKey, TickFigures, find


def container_lines(news: TickFigures, key: RowKey, width: int) -> list[Text]:
    """All that is known of one container; nothing once it has gone."""
    one = find(news.report, key)
    if one is None:
        return []
    opened = news.opened if news.opened is not None and news.opened.key == key else None

    def put(out: Console) -> None:
        verdict = "" if one.verdict is None else f": {one.verdict.name}"
        print_note(f"{display_name(one)}{verdict}", out, "bold")
        print_container(one, None if opened is None else opened.placement, news.report.nodes, out)
        alone = replace(news.report, containers=(one,))
        if one.id is not None and one.findings:
            out.print()
            print_findings(only(news.report, ContainerId(one.id)), out)
        if opened is None:
            out.print()
            print_note("its admission and its processes are being read ...", out)
        print_processes(alone, out)

    return _drawn(put, width)


def help_lines(report: Report | None, width: int, *, captured: bool = False) -> list[Text]:
    """Keys, columns, and why something is not measured here."""

    def put(out: Console) -> None:
        for heading, rows in (("KEY", [(one.label, one.does) for one in KEYS]), ("COLUMN", head.COLUMNS)):
            table = new_table(heading, "~WHAT")
            for row in rows:
                table.add_row(*row)
            print_table(table, out)
            out.print()
        missing = ["accesses and CPU time: this is a captured tree, where nothing runs"] if captured else []
        missing += [] if report is None else head.why_not_measured(report)
        print_note("not measured here" if missing else "everything that can be measured is measured here", out, "bold")
        for line in missing:
            print_note(f"  {line}", out)

    return _drawn(put, width)


def _drawn(put: Callable[[Console], None], width: int) -> list[Text]:
    """Output of a view as lines; colours as names of the terminal's own."""
    file = io.StringIO()
    out = Console(
        file=file, width=width, force_terminal=True, color_system="standard", highlight=False, markup=False, emoji=False
    )
    put(out)
    return [Text.from_ansi(line, no_wrap=True, end="") for line in file.getvalue().split("\n")]
