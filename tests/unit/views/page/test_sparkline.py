"""The lines of the last ticks, and where the agent's page has them."""

from __future__ import annotations

from xml.etree import ElementTree

from msgspec.structs import replace

from numaudit.encoding.value import Origin
from numaudit.report.words import size
from numaudit.views.page.lanes import sparkline
from numaudit.views.page.report_page import Tick, live_container_page, live_page, report_page
from numaudit.views.trends import KEPT, Trends
from screens.page_reports import many
from screens.page_text import parse


def _drawn(*values: int | None, most: int | None = None) -> tuple[str, str]:
    """The line, and what it says to who cannot see it."""
    drawing = ElementTree.fromstring(str(sparkline(values, 4, size, most)))
    (line,) = (one.attrib["d"] for one in drawing.iter("path") if one.attrib["class"] == "trend")
    return line, drawing.findtext("title") or ""


def test_a_line_ends_at_the_newest_tick_and_its_most_is_at_the_top() -> None:
    assert _drawn(0, 1024, 512) == ("M2 21h1L4 1L6 11", "3 ticks: least 0, most 1Ki, newest 512")


def test_a_share_is_drawn_against_the_whole() -> None:
    line, _ = _drawn(50, 50, most=100)
    assert line == "M4 11h1L6 11"


def test_what_is_not_known_is_a_gap() -> None:
    assert _drawn(1, None, 1, None) == ("M0 1h1M4 1h1", "4 ticks: least 1, most 1, newest not known")


def test_there_is_no_line_of_one_tick_or_of_nothing_known() -> None:
    assert sparkline([5], KEPT, size) == ""
    assert sparkline([None, None, None], KEPT, size) == ""


def test_nothing_outside_is_a_line_at_the_bottom() -> None:
    assert _drawn(0, 0)[0] == "M4 21h1L6 21"


def test_the_agents_page_has_lines_in_its_tiles_and_on_the_page_of_a_container_and_a_file_has_none() -> None:
    of, trends = many(20), Trends()
    for misaligned in (3, 7):
        trends.add(replace(of, summary=replace(of.summary, misaligned=misaligned)))
    tick = Tick(of, Origin(None, None), "tag", {}, trends)
    tiles = [one for one in parse(live_page(tick)).iter() if one.get("class") == "tiles"]
    titles = ["".join(one.itertext()) for one in tiles[0].iter() if str(one.tag).endswith("title")]
    assert titles[1] == "2 ticks: least 3, most 7, newest 7"
    (one,) = [one for one in of.containers if one.id == 1]
    page = live_container_page(tick, one)
    assert "Bytes outside</strong>" in page
    assert "Measured remote share</strong>" in page
    assert 'class="spark"' not in report_page(of)
