"""Parts of a page: each has a title, and a list of links leads to them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from numaudit.views.page.markup import Markup, element, nested


class PageSection(Struct, frozen=True):
    """One section of the page."""

    id: str
    title: str
    content: Iterable[Markup | str]

    def section(self) -> list[Markup]:
        return nested("section", element("h2", self.title, id=self.id), self.content)


def links(parts: Iterable[PageSection]) -> Markup:
    """A way to each part, past tables of a thousand rows."""
    items = (element("li", element("a", part.title, href=f"#{part.id}")) for part in parts)
    return element("nav", element("ul", items), aria_label="Parts of this page")
