"""The agent's page: the report, and a script that brings it up to date.

It says where its figures are from also without the script: of one tick, or of the last one that succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from numaudit.report.values import ContainerReport, Report
from numaudit.views.page.markup import Frame, Markup, element, frame
from numaudit.views.page.report_page import SKIP, container_content, report_content
from numaudit.views.trends import Trends

_STALE = "The agent's newest ticks failed or are late: the figures are stale."
_NONE_YET = "There is no report yet: the agent's first tick is under way, or it failed."


def policy() -> str:
    """The live page's policy as an HTTP header, which also keeps it out of the frames of other pages."""
    return f"{_frame().policy}; frame-ancestors 'none'"


def live_page(
    report: Report, tag: str, links: Mapping[str, str], stale: bool = False, trends: Trends | None = None
) -> str:
    """The report of a tick. `tag` is its ETag, `links` are the agent's other pages: path -> what it has."""
    return _frame().page(
        SKIP, _bar(tag, _STALE if stale else ""), report_content(report, is_alone=False, trends=trends), _footer(links)
    )


def live_container_page(
    report: Report,
    one: ContainerReport,
    tag: str,
    links: Mapping[str, str],
    stale: bool,
    trends: Trends | None = None,
) -> str:
    """The page of one container of a tick."""
    return _frame().page(_bar(tag, _STALE if stale else ""), container_content(report, one, trends), _footer(links))


def waiting_page(links: Mapping[str, str]) -> str:
    """Before the first report. The script shows that one as soon as it is there."""
    header = element("header", element("h1", "numaudit report"))
    return _frame().page(_bar("", _NONE_YET), header, element("main"), _footer(links))


@cache
def _frame() -> Frame:
    # Scripts may not make markup of text: live.js gets a parsed page from the browser, and needs no such way.
    return frame(
        ("report.css", "drawings.css", "live.css"),
        ("report.js", "morph.js", "live.js"),
        "connect-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )


def _bar(tag: str, words: str) -> Markup:
    """Return the bar with the age of the page. The script shows the button."""
    return element(
        "section",
        element("button", "Pause", type="button", id="pause", aria_pressed="false", hidden=True),
        " ",
        element("span", "The figures are those of one tick. Load the page again for newer ones.", id="age"),
        element("p", words, id="trouble", role="status"),
        id="live",
        aria_label="How new the figures are",
        data_tag=tag,
        class_="stale" if words else None,
    )


def _footer(links: Mapping[str, str]) -> Markup:
    """Relative addresses, for the agent may be behind a proxy that has it below a path of its own."""
    items = (element("li", element("a", path, href=f".{path}"), f": {what}") for path, what in links.items())
    return element("footer", element("h2", "Other pages of this agent"), element("ul", items))
