"""Lines of text that scroll, of which only those that are seen are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from numaudit.views.top.columns import Rows
from numaudit.views.trends import RowKey

_REVERSE = Style(reverse=True)
_WHEEL = 3
"""Rows."""
_ASCII = dict(zip("…▼▲░▓█▁▂▃▄▅▆▇≥·", "~v^.!#_.:-=+*>.", strict=True))


class Lines(ScrollView, can_focus=True):
    """Text to read. The keys scroll it."""

    DEFAULT_CSS = """
    Lines { overflow: auto auto; scrollbar-size: 0 0; }
    """

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: Sequence[Text] = ()
        self._ascii_only = ascii_only

    def show(self, lines: Sequence[Text]) -> None:
        """Draw these in place of the last ones; nothing is drawn where nothing has changed."""
        if list(lines) == list(self.lines):
            return
        self.lines = lines
        self.virtual_size = Size(max((line.cell_len for line in lines), default=0), len(lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        return self._strip(top + y).crop_extend(left, left + self.size.width, None)

    def _strip(self, number: int) -> Strip:
        return self._of_text(self.lines[number]) if number < len(self.lines) else Strip([])

    def _of_text(self, text: Text) -> Strip:
        segments = text.render(self.app.console)
        if self._ascii_only:
            segments = (Segment(in_ascii(one.text), one.style) for one in segments)
        return Strip(segments)


class Titles(Static):
    """The line above the rows."""

    class Clicked(Message):
        """At this place of the line."""

        def __init__(self, x: int) -> None:
            super().__init__()
            self.x = x

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(event.x))


class RowList(Lines, can_focus=False):
    """Lines one of which is chosen. The choice stays with its row when rows move."""

    class Opened(Message):
        """A row was clicked twice; it is the chosen one."""

    class Moved(Message):
        """Another row was chosen with the mouse."""

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(ascii_only=ascii_only, id=id)
        self.chosen = 0
        self.rows: Rows | None = None

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    @property
    def key(self) -> RowKey | None:
        """Of the chosen row; None = there are no rows."""
        return self.rows.keys[self.chosen] if self.rows else None

    def show_rows(self, rows: Rows) -> None:
        """A row that has gone gives the choice to the one in its place."""
        before, key = self.chosen, self.key
        places = [number for number, one in enumerate(rows.keys) if one == key]
        nearest = min(places, key=lambda number: abs(number - before), default=before)
        self.rows = rows
        self.chosen = max(0, min(nearest, len(rows) - 1))
        self.virtual_size = Size(rows.grid.width + 1, len(rows))
        self.refresh()
        self._follow()

    def move(self, by: int) -> None:
        """Choose the row so many below, or the last one on the way there."""
        before = self.chosen
        self.chosen = max(0, min(before + by, len(self) - 1))
        if self.chosen != before:
            self.refresh_line(before)
            self.refresh_line(self.chosen)
            self._follow()

    def on_resize(self) -> None:
        self._follow()

    def on_click(self, event: events.Click) -> None:
        row = self.scroll_offset.y + event.y
        if row < len(self):
            self.move(row - self.chosen)
            self.post_message(self.Opened() if event.chain == 2 else self.Moved())

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._roll(event, _WHEEL)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._roll(event, -_WHEEL)

    def _roll(self, event: events.MouseEvent, by: int) -> None:
        event.stop()
        event.prevent_default()
        self.move(by)
        self.post_message(self.Moved())

    def _follow(self) -> None:
        """Scroll no further than it takes to see the chosen row."""
        height, top = self.size.height, self.scroll_offset.y
        if height and not top <= self.chosen < top + height:
            self.scroll_to(y=self.chosen if self.chosen < top else self.chosen - height + 1, animate=False)

    def _strip(self, number: int) -> Strip:
        if number >= len(self) or self.rows is None:
            return Strip([])
        strip = self._of_text(self.rows.line(number))
        if number != self.chosen:
            return Strip([Segment(" "), *strip])
        line, grid = Strip([Segment(">"), *strip]).extend_cell_length(self.size.width), self.rows.grid
        text = 1 + grid.width - grid.ticks if grid.ticks else line.cell_length
        return Strip.join([line.crop(0, text).apply_style(_REVERSE), line.crop(text)])


def in_ascii(text: str) -> str:
    """The text in as many places on a terminal that shows nothing else."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else _ASCII.get(char) or "?" * cell_len(char) for char in text)
