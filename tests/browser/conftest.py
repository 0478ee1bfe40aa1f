"""A browser for the tests of a module; no page may complain, ask for anything of another origin, or open a dialog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Unpack

import pytest
from playwright.sync_api import Browser

import npm_packages
from numaudit.errors import Unavailable
from screens import browser_pages
from screens.browser_pages import Opened, OpenPage, Window


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """It starts in half a second. Not for all tests: some elsewhere call `asyncio.run`."""
    try:
        npm_packages.find()
        with browser_pages.chromium() as running:
            yield running
    except Unavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason), pytrace=False)
        pytest.skip(str(reason))


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    pages: list[Opened] = []

    def opened(source: str, **window: Unpack[Window]) -> Opened:
        markup = source.startswith("<")
        address = browser_pages.file_address(source, tmp_path / str(len(pages))) if markup else source
        pages.append(browser_pages.open_page(browser, address, **window))
        return pages[-1]

    yield opened
    complaints = [complaint for one in pages for complaint in one.complaints]
    for one in pages:
        one.page.context.close()
    assert not complaints
