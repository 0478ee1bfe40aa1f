"""The screen of `numaudit top`: what the keys do, and what is drawn where. No figure is made here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace
from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from numaudit.api.selection import KEYS
from numaudit.report.node_columns import NodeRow, node_rows
from numaudit.report.words import kinds_in_words
from numaudit.views.top import head
from numaudit.views.top.columns import LATELY, RowChoice, RowTable, node_grid
from numaudit.views.top.lines import Lines, RowList, Titles, in_ascii
from numaudit.views.top.news import Failed, Feed, FeedEnded, News, TickBegan, TickFigures
from numaudit.views.top.page import container_lines
from numaudit.views.top.terminal import TopDriver
from numaudit.views.trends import RowKey, Trends

_LATE = 3
"""Intervals without a tick that went well make the figures stale."""
_LEAST_FOR_NODES = 10
"""Lines of the terminal; where there are fewer, containers need them."""


class Top(App[bool]):
    """The live screen. Its result says whether it was interrupted.

    Colours are the terminal's own sixteen, and there is none that does not repeat what a word says.
    """

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    CSS = """
    Screen, Lines, Static, Input { background: ansi_default; color: ansi_default; }
    Screen { overflow: hidden; }
    Static { text-wrap: nowrap; text-overflow: clip; }
    #title, #columns, #foot { height: 1; }
    #failure, #summary, #nodes { height: auto; }
    #rows, #page { height: 1fr; }
    #typing, Input { height: 1; border: none; padding: 0; }
    #prompt { width: auto; }
    """
    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(names, action, show=False, priority=True) for some in head.KEYS for names, action in some.actions
    ]
    """All have priority, so that keys that come at once are taken one after the other."""

    class Told(Message):
        """News, from the thread that measures."""

        def __init__(self, news: News) -> None:
            super().__init__()
            self.news = news

    def __init__(self, feed: Feed, where: str, sort: str = KEYS[0], *, ascii_only: bool = False) -> None:
        super().__init__(TopDriver, ansi_color=True)
        self.animation_level = "none"
        self.feed, self._choice = feed, RowChoice(sort)
        self.error: BaseException | None = None
        """Error that ended the screen."""
        self.status = head.Status(feed.captured or where, feed.captured is not None, feed.interval)
        self._width, self._height = 80, 24
        self._news: TickFigures | None = None
        self._table: RowTable | None = None
        self._node_rows: Sequence[NodeRow] = ()
        self._trends = Trends()
        self._measured_at = time.monotonic()
        self._open: RowKey | None = None
        self._last_known: list[Text] = []
        self._helps = False
        self._ascii_only = ascii_only
        self._leaving = False

    def compose(self) -> ComposeResult:
        for name in ("title", "failure", "summary", "nodes"):
            yield Static(id=name, markup=False)
        yield Titles(id="columns", markup=False)
        yield RowList(id="rows", ascii_only=self._ascii_only)
        yield Lines(id="page", ascii_only=self._ascii_only)
        yield Static(id="foot", markup=False)
        with Horizontal(id="typing"):
            yield Static("filter: ", id="prompt", markup=False)
            yield Input(placeholder="words of name and verdict", compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self._box.cursor_blink = False
        self.set_interval(1.0, self._look_whether_stale)
        self._page.display = self._typing.display = False
        self._draw()
        self.feed.start(self._tell)

    def _tell(self, news: News) -> None:
        """In the thread that measures."""
        self.post_message(self.Told(news))

    def on_resize(self, event: events.Resize) -> None:
        """Also what comes with SIGCONT, when the shell has written over the screen."""
        self._width, self._height = event.size
        self._table = None
        if not self._leaving:
            self._draw()
            self.screen.refresh(layout=True)

    def exit(self, result: bool | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """From now on its parts are taken away: what comes still, ticks and keys, draws nothing."""
        self._leaving = True
        super().exit(result, return_code, message)

    def _handle_exception(self, error: Exception) -> None:
        """Ends the screen; whoever started it says the error. Else textual would print a page of its own."""
        self.error = self.error or error
        if self.is_headless:  # the driver of tests raises it
            super()._handle_exception(error)
        self.exit()

    # Events

    def on_top_told(self, message: Top.Told) -> None:
        match message.news:
            case TickBegan():
                self.status = replace(self.status, reading=True)
                self._draw_title()
                return
            case TickFigures() as news:
                self._take(news)
            case Failed(reason):
                self.status = replace(self.status, failure=reason, reading=False)
            case FeedEnded(error):
                self.error = error
                self.exit()
        self._draw()

    def _take(self, news: TickFigures) -> None:
        """The figures of a tick. A container that was opened comes with those of a tick that was taken before."""
        if self._news is None or news.whole is not self._news.whole:
            self._node_rows = node_rows(news.whole)
            self._trends.add(news.report, self._node_rows)
        self._news, self._table, self._measured_at = news, None, time.monotonic()
        taken_at, rows = news.whole.taken_at, kinds_in_words(news.report.summary.kinds)
        self.status = replace(self.status, taken_at=taken_at, failure=None, stale=False, reading=False, rows=rows)

    def _look_whether_stale(self) -> None:
        late = time.monotonic() - self._measured_at > _LATE * self.status.interval
        stale = late and not self.status.paused and not self.status.captured and self._news is not None
        if stale != self.status.stale and not self._leaving:
            self.status = replace(self.status, stale=stale)
            self._draw_title()

    # What the keys do

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Letters are a filter's while one is typed, and a page scrolls by keys of its own."""
        if self._leaving:
            return False
        if self._types:
            return action not in head.NOT_WHILE_TYPING
        return not self._reads or action not in head.NOT_ON_A_PAGE

    def action_leave(self, interrupted: bool) -> None:
        self.exit(interrupted)

    def action_quit_or_back(self) -> None:
        if self._reads:
            self._go_back()
        else:
            self.exit(False)

    def action_move(self, by: int) -> None:
        if self._reads:
            self._page.scroll_relative(y=by, animate=False)
        else:
            self._rows.move(by)
            self._draw_foot()

    def action_step(self, by: int) -> None:
        self.action_move(by)

    def action_page(self, direction: int) -> None:
        seen = self._page if self._reads else self._rows
        self.action_move(direction * max(1, seen.size.height - 1))

    def action_end(self, direction: int) -> None:
        self.action_move(direction * (len(self._page.lines) if self._reads else len(self._rows)))

    def action_enter(self) -> None:
        """Keep the filter; or open the chosen container, or close it."""
        if self._types:
            self._type(False)
        elif self._reads:
            self._go_back()
        elif (key := self._rows.key) is not None:
            self._turn_to(key, helps=False)

    def action_close(self) -> None:
        """Close the open page; without one, remove the filter."""
        if self._reads:
            self._go_back()
        else:
            self._box.value = ""
            self._type(False)

    def action_sort(self, by: int) -> None:
        at = KEYS.index(self._choice.sort) if self._choice.sort in KEYS else -1
        self._choose(sort=KEYS[(at + by) % len(KEYS)])

    def action_reverse(self) -> None:
        self._choose(reverse=not self._choice.reverse)

    def action_fold(self) -> None:
        self._choose(shows_all=not self._choice.shows_all)

    def action_filter(self) -> None:
        self._type(True)

    def action_pause(self) -> None:
        if not self.status.captured:
            self.status = replace(self.status, paused=not self.status.paused, stale=False)
            self._measured_at = time.monotonic()
            self.feed.set_paused(self.status.paused)
            self._draw_title()

    def action_interval(self, by: int) -> None:
        longer = [one for one in head.INTERVALS if one > self.status.interval]
        shorter = [one for one in head.INTERVALS if one < self.status.interval]
        steps = longer[:1] if by > 0 else shorter[-1:]
        if steps and not self.status.captured:
            self.status = replace(self.status, interval=steps[0])
            self.feed.set_interval(steps[0])
            self._draw_title()

    def action_help(self) -> None:
        self._turn_to(self._open, helps=not self._helps)

    def on_input_changed(self, message: Input.Changed) -> None:
        self._choose(text=message.value)

    def on_input_submitted(self) -> None:
        """Enter, after all that was typed before it; a second one may have come here before the first was done."""
        self.action_enter()

    def on_titles_clicked(self, message: Titles.Clicked) -> None:
        """On a title: sort by its column, and by the one that sorts already the other way round."""
        sort = None if self._rows.rows is None else self._rows.rows.grid.sort_at(message.x - 1)
        if sort is not None and sort == self._choice.sort:
            self.action_reverse()
        elif sort is not None:
            self._choose(sort=sort, reverse=False)

    def on_row_list_moved(self) -> None:
        self._draw_foot()

    def on_row_list_opened(self) -> None:
        self.action_enter()

    def _choose(self, **change: str | bool) -> None:
        self._choice = replace(self._choice, **change)
        self._draw()

    def _type(self, types: bool) -> None:
        """The line of the filter, in place of the last one."""
        self._typing.display, self._line("foot").display = types, not types
        self.screen.set_focus(self._box if types else None)

    def _go_back(self) -> None:
        """From the help to what was there before, from a container to the rows."""
        self._turn_to(self._open if self._helps else None, helps=False)

    def _turn_to(self, key: RowKey | None, *, helps: bool) -> None:
        if key != self._open:
            self.feed.open(key)
            self._last_known = []
        self._open, self._helps = key, helps
        for name in ("summary", "nodes", "columns"):
            self._line(name).display = not self._reads
        self._rows.display, self._page.display = not self._reads, self._reads
        self._page.scroll_home(animate=False)
        self.screen.set_focus(self._page if self._reads else None)
        self._draw()

    @property
    def _types(self) -> bool:
        return self.focused is self._box

    @property
    def _reads(self) -> bool:
        return self._open is not None or self._helps

    # What is drawn

    def _draw(self) -> None:
        if self._leaving:
            return
        self._draw_title()
        if self._helps:
            whole, grid = (None if self._news is None else self._news.whole), self._rows.rows
            of_nodes = "▓█░ REMOTE" if self.status.captured else f"▓█░ {LATELY['bytes']}"
            titles = of_nodes if grid is None else f"{of_nodes} {grid.grid.head().plain}"
            self._page.show(head.help_lines(whole, titles, self._width, captured=self.status.captured))
        elif self._news is not None and self._open is not None:
            lines = container_lines(self._news, self._open, self._trends, self._width)
            gone = [] if lines else [Text("It is no more; this is what was last known of it.", "bold yellow")]
            self._last_known = lines or self._last_known
            self._page.show([*gone, *self._last_known])
        elif self._news is not None:
            self._draw_rows(self._news)
        self._draw_foot()

    def _draw_title(self) -> None:
        self._put("title", head.title(self.status, self._width))
        failure = head.failure(self.status, self._width)
        self._line("failure").display = failure is not None
        self._put("failure", failure or Text())

    def _draw_rows(self, news: TickFigures) -> None:
        width, height = self._width, self._height
        report = news.report
        self._put("summary", head.summary(report, width, 1 if height < 20 else 2))
        self._line("nodes").display = height >= _LEAST_FOR_NODES
        trends = None if self.status.captured else self._trends
        nodes = node_grid(news.whole, self._node_rows, max(1, height // 3 - 2), width, trends)
        self._put("nodes", Text("\n", no_wrap=True).join(nodes))
        if self._table is None:
            self._table = RowTable(report, trends, width - 1)
        rows = self._table.rows(self._choice)
        self._put("columns", Text.assemble(" ", rows.grid.head(self._choice.sort, self._choice.reverse)))
        self._rows.show_rows(rows)

    def _draw_foot(self) -> None:
        if self._reads:
            self._put("foot", head.keys_line(head.OF_A_PAGE, "", self._width))
        else:
            total = 0 if self._news is None else len(self._news.report.containers)
            place = head.place(self._rows.chosen, self._rows.rows, total)
            self._put("foot", head.foot(place, self._choice, self._width))

    def _put(self, name: str, text: Text) -> None:
        if self._ascii_only:
            text = Text(in_ascii(text.plain), spans=text.spans, no_wrap=True)
        self._line(name).update(text)

    def _line(self, name: str) -> Static:
        return self.query_one(f"#{name}", Static)

    @property
    def _rows(self) -> RowList:
        return self.query_one(RowList)

    @property
    def _page(self) -> Lines:
        return self.query_one("#page", Lines)

    @property
    def _typing(self) -> Horizontal:
        return self.query_one("#typing", Horizontal)

    @property
    def _box(self) -> Input:
        return self.query_one(Input)
