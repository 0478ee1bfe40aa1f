"""Debian's Chromium, driven by Playwright, and what a page does in it that it must not do.

While a browser runs, `asyncio.run` fails in this thread: Playwright's own loop runs in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, Protocol, TypedDict, Unpack
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, HttpCredentials, Page, sync_playwright

import npm_packages
from numaudit.errors import Unavailable

PHONE, DESKTOP = 360, 1280
"""Widths in pixels."""
_HEIGHT = 800
_PATIENCE = 60_000
"""Milliseconds that anything may take on a busy machine."""
Media = Literal["screen", "print"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser. Raises Unavailable."""
    program = shutil.which("chromium")
    if program is None:
        raise Unavailable("the command chromium is missing: install the package chromium")
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=program) as browser:
        yield browser


@dataclass(slots=True)
class Opened:
    """A page in a window of its own. A test that expects a complaint takes it out of the list."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Warnings, errors, dialogs and new windows, and requests that leave the page."""
    requests: list[str] = field(default_factory=list)
    """All addresses it asked for, its own first."""

    @property
    def overflows(self) -> bool:
        """Whether the window scrolls sideways."""
        wide = self.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        return bool(wide[0] > wide[1])

    def show(self, width: int, media: Media = "screen") -> None:
        """The same page in a window of another width, or on paper."""
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})
        self.page.emulate_media(media=media)

    def violations(self) -> list[str]:
        """What axe-core finds that keeps somebody from reading or using the page: `impact: rule: where`."""
        self.page.evaluate(_axe())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{rule['impact']}: {rule['id']}: {rule['help']}: {node['html'][:200]}: {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]


class Window(TypedDict, total=False):
    """How a page is opened; what is left out is as on a desktop, light, with script."""

    width: int
    dark: bool
    media: Media
    script: bool
    login: HttpCredentials
    """For a server that asks who is there."""


class OpenPage(Protocol):
    """A fixture: markup, or the address of a page, becomes an open page."""

    def __call__(self, source: str, **window: Unpack[Window]) -> Opened: ...


def open_page(browser: Browser, address: str, **window: Unpack[Window]) -> Opened:
    """Open a page and watch it."""
    context = browser.new_context(
        viewport={"width": window.get("width", DESKTOP), "height": _HEIGHT},
        color_scheme="dark" if window.get("dark") else "light",
        java_script_enabled=window.get("script", True),
        http_credentials=window.get("login"),
    )
    context.set_default_timeout(_PATIENCE)
    page = context.new_page()
    page.emulate_media(media=window.get("media"))
    opened = Opened(page)
    _watch(opened, address)
    page.goto(address)
    return opened


def _watch(opened: Opened, address: str) -> None:
    """A violation of a Content-Security-Policy is an error on the console."""
    page, complaints = opened.page, opened.complaints

    def asked(url: str) -> None:
        opened.requests.append(url)
        if not _same_origin(url, address):
            complaints.append(f"request: {url}")

    def said(line: ConsoleMessage) -> None:
        if line.type in ("error", "warning", "assert"):
            complaints.append(f"{line.type}: {line.text}")

    def asks(dialog: Dialog) -> None:
        complaints.append(f"{dialog.type}: {dialog.message}")
        dialog.dismiss()

    page.on("request", lambda request: asked(request.url))
    page.on("console", said)
    page.on("pageerror", lambda error: complaints.append(f"uncaught: {error}"))
    page.on("dialog", asks)
    page.on("popup", lambda other: complaints.append(f"window: {other.url}"))
    page.on("crash", lambda _: complaints.append("the page crashed"))


def _same_origin(url: str, address: str) -> bool:
    """Files have no origin in common."""
    one, other = urlsplit(url), urlsplit(address)
    return one[:2] == other[:2] and (one.scheme != "file" or one.path == other.path)


@cache
def _axe() -> str:
    """axe-core's text. Raises Unavailable."""
    return (npm_packages.find() / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def file_address(text: str, folder: Path) -> str:
    """The address of a new file with this page, or drawing."""
    folder.mkdir()
    file = folder / ("drawing.svg" if text.startswith("<?xml") else "page.html")
    file.write_text(text, encoding="utf-8")
    return file.as_uri()
