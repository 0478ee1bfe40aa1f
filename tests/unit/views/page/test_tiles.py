"""The first row of the page: what it says of good and bad hosts, and where its links lead."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from msgspec.structs import replace

from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.kubelet import RestartReport
from numaudit.report.values import Report
from numaudit.views.page.report_page import report_page
from screens.page_text import parse, text_of


@pytest.fixture(scope="module")
def misaligned(fixtures: Path) -> Report:
    return Engine(Observer.of(Host.under(fixtures / "misaligned-node"))).tick().report


def tiles(report: Report) -> list[Element]:
    row = next(one for one in parse(report_page(report)).iter("ul") if one.get("class") == "tiles")
    return list(row.iter("a"))


def shown(report: Report) -> list[tuple[str, str | None]]:
    """The text and the tone of each."""
    return [(text_of(one), next(one.iter("strong")).get("class")) for one in tiles(report)]


def test_a_misaligned_host_has_its_four_numbers(misaligned: Report) -> None:
    assert shown(misaligned) == [
        ("6 of 8 aligned", None),
        ("2 misaligned", "bad"),
        ("2 refused", "unknown"),
        ("starts kubelet, after a restart", "aligned"),
    ]


def test_every_tile_leads_to_a_part_of_the_page(misaligned: Report) -> None:
    for report in (misaligned, replace(misaligned, rejections=())):
        ids = {one.get("id") for one in parse(report_page(report)).iter("h2")}
        links = [(one.get("href") or "").removeprefix("#") for one in tiles(report)]
        assert len(links) == 4
        assert set(links) <= ids


@pytest.mark.parametrize(
    ("answer", "refused", "text", "tone"),
    [
        ("no", None, "does not start kubelet, after a restart", "bad"),
        ("at risk", 0, "at risk kubelet, after a restart", "unknown"),
        ("unknown", None, "? kubelet, after a restart", "unknown"),
        ("yes", 1, "starts kubelet, after a restart; it refuses 1 pod", "unknown"),
        ("yes", 3, "starts kubelet, after a restart; it refuses 3 pods", "unknown"),
    ],
)
def test_a_restart_is_foreseen(misaligned: Report, answer: str, refused: int | None, text: str, tone: str) -> None:
    (first, *_) = misaligned.restarts
    changed: RestartReport = replace(first, reboot=False, starts=answer, refused_pods=refused)
    assert shown(replace(misaligned, restarts=(changed,)))[-1] == (text, tone)


def test_without_a_kubelet_nothing_is_said_of_a_restart(misaligned: Report) -> None:
    assert len(tiles(replace(misaligned, restarts=()))) == 3


def test_the_sentence_has_the_colour_of_the_worst(misaligned: Report) -> None:
    fine = replace(misaligned.summary, misaligned=0, refused_pods=0)
    for summary, tone in (
        (misaligned.summary, "bad"),
        (replace(fine, unknown=1), "unknown"),
        (replace(fine, refused_pods=1), "unknown"),
        (fine, "aligned"),
    ):
        page = parse(report_page(replace(misaligned, summary=summary, findings=())))
        (header,) = page.iter("header")
        (sentence,) = [one for one in header.iter("p") if (one.get("class") or "").startswith("summary")]
        assert sentence.get("class") == f"summary {tone}"
