"""The frame of every page: a head with its style, a script at the end, the policy that names both."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from numaudit import __version__
from numaudit.views.page.markup import Child, element, nested, raw


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of a page that never changes."""

    style: str
    script: str
    rules: tuple[str, ...] = ()
    """Further parts of the policy."""

    @property
    def policy(self) -> str:
        """A browser that obeys it runs our script and style alone, whatever a name in the page may hold."""
        parts = (
            "default-src 'none'",
            f"style-src '{_hash(self.style)}'",
            f"script-src '{_hash(self.script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            *self.rules,
        )
        return "; ".join(parts)

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
    return Frame(_joined(styles), _joined(scripts), rules)


def _joined(names: tuple[str, ...]) -> str:
    return "".join(files(__package__).joinpath(name).read_text(encoding="utf-8") for name in names)


@cache
def _hash(text: str) -> str:
    """Return the source expression for a text in a Content-Security-Policy (CSP level 2)."""
    from hashlib import sha256  # noqa: PLC0415 (OpenSSL takes 5 MiB, so only who needs it loads it)

    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
