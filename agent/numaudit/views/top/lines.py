"""Lines of text that scroll, of which only those that are seen are drawn."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from numaudit.views.top.news import RowKey

_REVERSE = Style(reverse=True)


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
        if number >= len(self.lines):
            return Strip([])
        segments = self.lines[number].render(self.app.console)
        if self._ascii_only:
            segments = (Segment(in_ascii(one.text), one.style) for one in segments)
        return Strip(segments)


class RowList(Lines, can_focus=False):
    """Lines one of which is chosen. The choice stays with its row when rows move."""

    def __init__(self, *, ascii_only: bool = False, id: str | None = None) -> None:
        super().__init__(ascii_only=ascii_only, id=id)
        self.chosen = 0
        self._keys: Sequence[RowKey] = ()

    @property
    def key(self) -> RowKey | None:
        """Of the chosen row; None = there are no rows."""
        return self._keys[self.chosen] if self._keys else None

    def show_rows(self, lines: Sequence[Text], keys: Sequence[RowKey]) -> None:
        """Each row with what identifies it. A row that has gone gives the choice to the one in its place."""
        before = self.chosen
        places = [number for number, one in enumerate(keys) if one == self.key]
        nearest = min(places, key=lambda number: abs(number - before), default=before)
        self._keys = keys
        self.chosen = max(0, min(nearest, len(keys) - 1))
        if self.chosen != before:
            self.refresh()
        self.show(lines)
        self._follow()

    def move(self, by: int) -> None:
        """Choose the row so many below, or the last one on the way there."""
        before = self.chosen
        self.chosen = max(0, min(before + by, len(self.lines) - 1))
        if self.chosen != before:
            self.refresh_line(before)
            self.refresh_line(self.chosen)
            self._follow()

    def on_resize(self) -> None:
        self._follow()

    def _follow(self) -> None:
        """Scroll no further than it takes to see the chosen row."""
        height, top = self.size.height, self.scroll_offset.y
        if height and not top <= self.chosen < top + height:
            self.scroll_to(y=self.chosen if self.chosen < top else self.chosen - height + 1, animate=False)

    def _strip(self, number: int) -> Strip:
        strip = super()._strip(number)
        if number != self.chosen or number >= len(self.lines):
            return Strip([Segment(" "), *strip])
        return Strip([Segment(">"), *strip]).extend_cell_length(self.size.width).apply_style(_REVERSE)


def in_ascii(text: str) -> str:
    """The text in as many places on a terminal that shows nothing else."""
    if text.isascii():
        return text
    return "".join(char if char.isascii() else "~" if char == "…" else "?" * cell_len(char) for char in text)
