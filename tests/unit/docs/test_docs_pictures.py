"""The pictures in docs/pictures are of the present page and the present `top`. `make golden` draws them again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from screens import doc_pictures

MatchesGolden = Callable[[str, str], None]
MOST_BYTES = 150_000


def test_the_picture_of_top_is_its_screen(matches_golden: MatchesGolden) -> None:
    matches_golden("docs/pictures/top.svg", doc_pictures.top())


def test_the_picture_of_the_page_was_drawn_of_the_present_page(
    request: pytest.FixtureRequest, matches_golden: MatchesGolden
) -> None:
    html = doc_pictures.page()
    drawn = doc_pictures.DIGEST.read_text(encoding="utf-8") if doc_pictures.DIGEST.exists() else ""
    digest = f"{doc_pictures.digest(html)}\n"
    if request.config.getoption("--update-golden") and drawn != digest:
        doc_pictures.draw_page(html)
    matches_golden("docs/pictures/page.sha256", digest)


def test_a_picture_is_small() -> None:
    sizes = {file.name: file.stat().st_size for file in doc_pictures.FOLDER.iterdir()}
    assert {name for name, size in sizes.items() if size > MOST_BYTES} == set()
    assert {"page.webp", "top.svg"} <= sizes.keys()


def test_a_change_of_the_page_would_be_noticed() -> None:
    html = doc_pictures.page()
    assert doc_pictures.digest(html) == doc_pictures.digest(html.replace(" UTC</time>", " GMT</time>"))
    assert doc_pictures.digest(html) != doc_pictures.digest(html.replace("drifted", "aligned", 1))
