"""The pictures in docs/pictures are of the present page and the present `top`. `make golden` draws them again."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fixture_trees import FIXTURES
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.views.page.report_page import report_page
from screens.pages import TOP
from screens.top_screen import PATIENCE, captured, screen

TREE = "misaligned-node"
FOLDER = TOP / "docs/pictures"
PAGE, DIGEST, TOP_SVG = FOLDER / "page.webp", FOLDER / "page.sha256", FOLDER / "top.svg"
WIDTH, HEIGHT = 1100, 1070
"""Pixels of the page's picture."""
COLUMNS, LINES = 110, 24
_AS_WEBP = """data => new Promise(done => {
    const image = new Image();
    image.onload = () => {
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        canvas.getContext("2d").drawImage(image, 0, 0);
        done(canvas.toDataURL("image/webp", 0.8).split(",")[1]);
    };
    image.src = `data:image/png;base64,${data}`;
})"""
"""Half as large as a PNG."""
_TIME = re.compile(r"<time [^>]*>[^<]*</time>")
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def page() -> str:
    """The page as HTML."""
    return str(report_page(Engine(Observer.of(Host.under(FIXTURES / TREE))).tick().report))


def digest(html: str) -> str:
    """Of the page without the time at which its report was taken."""
    return hashlib.sha256(_TIME.sub("", html).encode()).hexdigest()


def draw_page(html: str, file: Path = PAGE) -> None:
    """Raises Unavailable where there is no browser."""
    from screens.browser_pages import chromium  # noqa: PLC0415 (`make check` installs no browser)

    with chromium() as browser:
        window = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        window.set_content(html)
        picture = base64.b64encode(window.screenshot()).decode()
        file.write_bytes(base64.b64decode(browser.new_page().evaluate(_AS_WEBP, picture)))


def top() -> str:
    """The screen of `top` as SVG, without addresses of fonts."""

    async def drawn() -> str:
        async with screen(captured(FIXTURES / TREE), COLUMNS, LINES) as shown:
            await shown.shows("gu-init-numanode/app", "drifted")
            return shown.top.export_screenshot(title="numaudit top")

    return _FONT_FACE.sub("", asyncio.run(asyncio.wait_for(drawn(), PATIENCE)))


MatchesGolden = Callable[[str, str], None]


def test_the_picture_of_top_is_its_screen(matches_golden: MatchesGolden) -> None:
    matches_golden("docs/pictures/top.svg", top())


def test_the_picture_of_the_page_was_drawn_of_the_present_page(
    request: pytest.FixtureRequest, matches_golden: MatchesGolden
) -> None:
    html = page()
    drawn = DIGEST.read_text(encoding="utf-8") if DIGEST.exists() else ""
    now = f"{digest(html)}\n"
    if request.config.getoption("--update-golden") and drawn != now:
        draw_page(html)
    matches_golden("docs/pictures/page.sha256", now)
