"""The agent's page: what of it is there without the script, and what a file has none of."""

from __future__ import annotations

import re

from made_up.reports import container, report
from numaudit.encoding.value import Origin, Timestamp
from numaudit.report.values import Report
from numaudit.report.words import display_name
from numaudit.views.page.report_page import Tick, live_container_page, live_page, policy, report_page, waiting_page
from screens.page_text import lines, parse

LINKS = {"/metrics": "numbers", "/-/healthy": "is it well?"}


def _tick(of: Report, host: str | None = None) -> Tick:
    return Tick(of, Origin(host, Timestamp(of.taken_at)), "tag", LINKS)


def _lines_of_report(page: str) -> list[str]:
    found = list(lines(page))
    return found[found.index("h1: numaudit report") :]


def test_the_agent_shows_what_a_file_shows() -> None:
    of = report(container())
    expected = _lines_of_report(report_page(of))
    expected = expected[: expected.index("p: All containers")]
    assert _lines_of_report(live_page(_tick(of)))[: len(expected)] == expected


def test_every_page_of_an_agent_names_its_host_and_the_time() -> None:
    of = report(container(), taken_at=1_700_000_000.5)
    tick = _tick(of, "worker-2")
    (name,) = map(display_name, of.containers)
    for page, title in (
        (live_page(tick), "numaudit report of worker-2"),
        (live_container_page(tick, of.containers[0]), f"{name} - numaudit report of worker-2"),
    ):
        assert parse(page).findtext("head/title") == title
        said = list(lines(page))
        assert "h1: numaudit report of worker-2" in said
        assert "p: Taken at TIME; no kubelet on this host" in said
        assert "2023-11-14 22:13:20 UTC" in page


def test_without_the_script_the_page_says_that_it_stays_as_it_is_and_has_no_button_that_does_nothing() -> None:
    tree = parse(live_page(_tick(report(container()))))
    (age,) = [one for one in tree.iter() if one.get("id") == "age"]
    assert age.text == "The figures are those of one tick. Load the page again for newer ones."
    (button,) = tree.iter("button")
    assert "hidden" in button.attrib


def test_what_is_stale_or_not_there_yet_is_said_without_the_script() -> None:
    of = report(container())
    for page, words in (
        (live_page(_tick(of)), None),
        (
            live_page(_tick(of), stale=True),
            "The agent's newest ticks failed or are late: the figures are stale.",
        ),
        (waiting_page(LINKS), "There is no report yet: the agent's first tick is under way, or it failed."),
    ):
        (status,) = [one for one in parse(page).iter() if one.get("role") == "status"]
        assert status.text == words


def test_a_file_asks_nobody_for_anything() -> None:
    page = report_page(report(container()))
    assert not re.search(r"XMLHttpRequest|fetch\(|connect-src", page)
    assert not [one for one in parse(page).iter() if one.get("id") == "live"]


def test_the_policy_of_the_header_is_that_of_the_page_and_keeps_it_out_of_frames() -> None:
    page = live_page(_tick(report(container())))
    (inside,) = [one.attrib["content"] for one in parse(page).iter("meta") if one.get("http-equiv")]
    assert policy() == f"{inside}; frame-ancestors 'none'"
