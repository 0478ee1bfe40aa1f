"""The watch over a page misses nothing: each thing that a page must not do is a complaint."""

from __future__ import annotations

import re

import pytest

from screens.browser_pages import OpenPage

POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""


@pytest.mark.parametrize(
    ("markup", "complaint"),
    [
        ("<script>console.error('on purpose')</script>", "error: on purpose"),
        ("<script>null.on_purpose()</script>", "uncaught: .*on_purpose"),
        ("<script>alert('on purpose')</script>", "alert: on purpose"),
        (f"{POLICY}<p style='color:red'>on purpose</p>", "error: .*Content Security Policy"),
        (f"{POLICY}<script>on_purpose()</script>", "error: .*Content Security Policy"),
        ("<img src='http://localhost:9/on-purpose' alt=''>", "request: http://localhost:9/on-purpose"),
        ("<img src='other.png' alt=''>", "request: file:.*/other.png"),
    ],
)
def test_what_a_page_must_not_do_is_a_complaint(open_page: OpenPage, markup: str, complaint: str) -> None:
    opened = open_page(f"<!doctype html><title>t</title>{markup}")
    found = list(opened.complaints)
    opened.complaints.clear()
    assert any(re.match(complaint, one) for one in found), found


def test_axe_finds_what_nobody_can_read_also_under_a_policy(open_page: OpenPage) -> None:
    pale = "<font color='#eeeeee' size=3>pale on white</font>"
    opened = open_page(f"<!doctype html><html lang=en><title>t</title>{POLICY}<main><h1>{pale}</h1></main>")
    assert [one.partition(": ")[0] for one in opened.violations() if "color-contrast" in one] == ["serious"]


def test_a_page_that_is_wider_than_its_window_overflows(open_page: OpenPage) -> None:
    page = "<!doctype html><title>t</title><pre>{}</pre>"
    assert open_page(page.format("x" * 999)).overflows
    assert not open_page(page.format("x")).overflows
