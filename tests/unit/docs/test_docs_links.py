"""Every file that the documents name or link to is there, and every heading that they link to."""

from __future__ import annotations

import re
from pathlib import Path

from screens.pages import TOP, anchors, code_of, each_page


@each_page
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)}
    assert {link for link in links if link and not (page.parent / link).exists()} == set()
    named = {span for span in code_of(page) if re.fullmatch(r"(?:agent|bpf|deploy|docs|tests)/[\w./-]+", span)}
    assert {name for name in named if not (TOP / name).exists() and "/x." not in name} == set()


def _lost_anchors(page: Path, text: str) -> set[str]:
    """Links of our own pages to headings that are not there."""
    links = {link for link in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)}
    targets = {link: (page.parent / link.partition("#")[0] if link[0] != "#" else page) for link in links}
    return {link for link, target in targets.items() if link.partition("#")[2] not in anchors(target.resolve())}


@each_page
def test_every_heading_that_a_page_links_to_is_there(page: Path) -> None:
    assert _lost_anchors(page, page.read_text(encoding="utf-8")) == set()


def test_the_index_has_a_line_for_every_page() -> None:
    index = (TOP / "docs/README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[[^]]+\]\(([\w.-]+\.md)\) \|", index, re.MULTILINE))
    assert listed == {page.name for page in (TOP / "docs").glob("*.md")} - {"README.md"}
