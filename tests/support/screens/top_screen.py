"""The screen of `numaudit top` without a terminal: keys go in, and what is to be seen comes out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from textual.events import MouseScrollDown, MouseScrollUp
from textual.pilot import Pilot
from textual.widgets import Static

from numaudit.cli.observe.report_work import ReportSelection
from numaudit.cli.observe.top_feed import CapturedFeed
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.values import Report
from numaudit.views.top.app import Top
from numaudit.views.top.lines import RowList
from numaudit.views.top.news import Feed, News, TickFigures
from numaudit.views.trends import RowKey

PATIENCE = 60.0
"""Seconds, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Screen:
    """80 columns by 24 lines, if nothing else is said."""

    top: Top
    pilot: Pilot[bool]

    def lines(self) -> list[str]:
        """What is to be seen, without blanks at the ends."""
        return [strip.text.rstrip() for strip in self.top.screen._compositor.render_strips()]

    def text(self) -> str:
        return "\n".join(self.lines())

    def rows(self) -> list[str]:
        """Names in the table of containers, as far as they are to be seen; the chosen one has its `>`."""
        lines = self.lines()
        head = next(number for number, line in enumerate(lines) if line.startswith(" CONTAINER"))
        return [line.split("  ")[0] for line in lines[head + 1 : -1] if line]

    def chosen(self) -> str:
        (row,) = (line for line in self.rows() if line.startswith(">"))
        return row.removeprefix(">")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self.press(*("slash" if char == "/" else "space" if char == " " else char for char in text))

    def column(self, title: str) -> int:
        """The place of a title in the line above the rows."""
        return next(line for line in self.lines() if line.startswith(" CONTAINER")).index(title)

    async def click(self, x: int, word: str, times: int = 1) -> None:
        """In the first line with this word, at this place of it."""
        y = next(number for number, line in enumerate(self.lines()) if number > 2 and word in line)
        await self.pilot.click(offset=(x, y), times=times)

    async def wheel(self, direction: int) -> None:
        """Over the rows, one notch down (1) or up (-1)."""
        kind = MouseScrollDown if direction > 0 else MouseScrollUp
        rows = self.top.query_one(RowList)
        x, y = rows.region.x + 3, rows.region.y + 1
        rows.post_message(kind(rows, 3, 1, 0, direction, 0, False, False, False, x, y))
        await self.pilot.pause()

    async def resize(self, width: int, height: int) -> None:
        """Wait until the screen has this many lines."""
        await self.pilot.resize_terminal(width, height)
        await self.sees(lambda: len(self.lines()) == height)

    async def sees(self, seen: Callable[[], object]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(PATIENCE):
            while not seen():
                await self.pilot.pause(0.01)

    async def has_read(self) -> None:
        """Wait until all is read of the container that is open: its page is drawn before."""
        await self.sees(lambda: self.top._news is not None and self.top._news.opened is not None)

    async def shows(self, *words: str) -> None:
        """Wait until all of them are to be seen, and the lines of all parts are in their places."""
        try:
            await self.sees(lambda: all(word in self.text() for word in words) and self._is_laid_out())
        except TimeoutError:
            raise AssertionError(f"{words} not in:\n{self.text()}") from None

    def _is_laid_out(self) -> bool:
        """A text whose lines have changed in number is drawn a moment before the parts below it move."""
        texts = [one for one in self.top.query(Static) if one.display and one.id != "prompt"]
        return all(one.size.height == max(1, str(one.content).count("\n") + 1) for one in texts)


@asynccontextmanager
async def screen(
    feed: Feed, width: int = 80, height: int = 24, *, sort: str = "verdict", ascii_only: bool = False
) -> AsyncIterator[Screen]:
    """The screen on this feed, until the end of the block."""
    top = Top(feed, "node-1", sort, ascii_only=ascii_only)
    try:
        async with top.run_test(size=(width, height)) as pilot:
            yield Screen(top, pilot)
            top.exit(top.return_value)
    finally:
        feed.stop()


def captured(root: Path, view: ReportSelection | None = None) -> CapturedFeed:
    """Of a captured tree."""
    return CapturedFeed(Observer.of(Host.under(root)), view or ReportSelection(), "captured-tree")


class Told:
    """A feed of the reports that a test gives it."""

    captured: str | None = None
    interval = 5.0

    def __init__(self, report: Report) -> None:
        self.report = report
        self.tell: Callable[[News], None] = lambda _: None

    def start(self, tell: Callable[[News], None]) -> None:
        self.tell = tell
        tell(TickFigures(self.report, self.report))

    def set_interval(self, seconds: float) -> None:
        self.interval = seconds

    def set_paused(self, paused: bool) -> None:
        pass

    def open(self, key: RowKey | None) -> None:
        pass

    def stop(self) -> None:
        pass
