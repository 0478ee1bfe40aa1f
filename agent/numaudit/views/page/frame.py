"""The frame of every page: a head with its style, a script at the end, the policy that names both."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from msgspec import Struct

from numaudit import __version__
from numaudit.views.page.markup import Child, element, nested, raw


class Frame(Struct, frozen=True):
    """The part of a page that never changes."""

    style: str
    script: str
    policy: str
    """A browser that obeys it runs our script and style alone, whatever a name in the page may hold."""

    def page(self, *content: Child) -> str:
        """A whole page."""
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=self.policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="referrer", content="no-referrer"),
            element("meta", name="generator", content=f"numaudit {__version__}"),
            element("title", "numaudit report"),
            element("style", raw(self.style)),
        )
        body = nested("body", *content, element("script", raw(self.script)))
        return "".join(("<!doctype html>\n", *nested("html", head, body, lang="en"), "\n"))


def frame(styles: tuple[str, ...], scripts: tuple[str, ...], *rules: str) -> Frame:
    """Of files in this package; `rules` are what the policy says besides."""
    style, script = _joined(styles), _joined(scripts)
    policy = (
        "default-src 'none'",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        *rules,
    )
    return Frame(style, script, "; ".join(policy))


def _joined(names: tuple[str, ...]) -> str:
    return "".join(files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    """Return the source expression for a text in a Content-Security-Policy (CSP level 2)."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
