"""Contents of the screen of `numaudit top` once a container is opened. Pure."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from numaudit.api.selection import only
from numaudit.report.cells import Tone, verdict_tone
from numaudit.report.values import ContainerReport
from numaudit.report.words import display_name
from numaudit.snapshot import ContainerId
from numaudit.views.notes import finding_notes
from numaudit.views.terminal.one_container import print_process_table, print_processes
from numaudit.views.terminal.placement_page import print_container
from numaudit.views.terminal.report_tables import print_notes
from numaudit.views.terminal.terminal import print_note
from numaudit.views.top.columns import drawn
from numaudit.views.top.news import TickFigures, find
from numaudit.views.trends import RowKey, Trends

_STYLES: Mapping[Tone | None, str] = {"good": "bold green", "unknown": "bold yellow", "bad": "bold red"}
_TREND = 40
"""Ticks that have room beside their words."""


def container_lines(news: TickFigures, key: RowKey, trends: Trends, width: int) -> list[Text]:
    """All that is known of one container, its verdict first; nothing once it has gone."""
    one = find(news.report, key)
    if one is None:
        return []
    opened = news.opened if news.opened is not None and news.opened.key == key else None

    def put(out: Console) -> None:
        _print_title(one, out)
        _print_trend(trends.remote(one), trends.of_what, out)
        out.print()
        print_container(one, None if opened is None else opened.placement, news.report.nodes, out)
        alone = replace(news.report, containers=(one,))
        if one.id is not None and one.findings:
            out.print()
            print_notes(finding_notes(only(news.report, ContainerId(one.id)).findings), out)
        if opened is None:
            out.print()
            print_note("its admission and its processes are being read ...", out)
        elif one.processes is not None:
            print_note("processes", out, "bold")
            print_process_table(one, out, indented=True)
        print_processes(alone, out)

    return _drawn(put, width)


def _print_title(one: ContainerReport, out: Console) -> None:
    verdict = one.verdict
    if verdict is None:
        print_note(display_name(one), out, "bold")
        return
    print_note(f"{display_name(one)}: {verdict.name}", out, _STYLES.get(verdict_tone(one), "bold"))


def _print_trend(shares: Sequence[int | None], of_what: str, out: Console) -> None:
    known = [share for share in shares if share is not None]
    if len(shares) > 1 and known:
        said = f"{min(known)} to {max(known)} % of its {of_what} remote in {len(shares)} ticks"
        print_note(f"  {drawn(shares[-_TREND:])}  {said}", out)


def _drawn(put: Callable[[Console], None], width: int) -> list[Text]:
    """Output of a view as lines; colours as names of the terminal's own."""
    file = io.StringIO()
    out = Console(
        file=file, width=width, force_terminal=True, color_system="standard", highlight=False, markup=False, emoji=False
    )
    put(out)
    return [Text.from_ansi(line, no_wrap=True, end="") for line in file.getvalue().split("\n")]
