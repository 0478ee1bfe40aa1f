"""The documentation stays short and plain: lengths of paragraphs and list items, words, and the total."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from documentation.plain_words import banned_words
from screens.pages import TOP

PROSE = sorted((TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("docs/**/*.md")))
MOST_WORDS = 42_250
"""Of all pages together, tables and code included, but without the lists of metrics and verbs, which grow with them."""
GENERATED = {TOP / "docs/metrics.md", TOP / "docs/cli.md"}
MOST_WORDS_OF_README = 1_200
MOST_WORDS_OF_PARAGRAPH = 120
MOST_WORDS_OF_ITEM = 40
HEADINGS = {"Again and again", "In public", "Held against the truth"}
NODE_LIST = re.compile(r"\bnodes? (?:\d,)+\d\b")
SIZE = re.compile(r"\b\d+(?:\.\d+)? ?[KMGT](?![\w%])")
PAGE_IDS = [str(page.relative_to(TOP)) for page in PROSE]

each_prose = pytest.mark.parametrize("page", PROSE, ids=PAGE_IDS)


def words(text: str) -> int:
    """Tokens with a letter or a digit: the bars of a table are no words."""
    return sum(any(letter.isalnum() for letter in token) for token in text.split())


def _prose_of(text: str) -> str:
    """Without code blocks, comments and tables."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return "\n".join("" if line.startswith("|") else line for line in text.splitlines())


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """`item` or `paragraph`, and its text on one line. Headings are left out."""
    kind, lines = "paragraph", list[str]()
    for line in [*_prose_of(text).splitlines(), ""]:
        item = re.match(r"\s*(?:[-*]|\d+\.) +(.*)", line)
        if lines and (not line.strip() or item or line.startswith("#")):
            yield kind, " ".join(lines)
            lines = []
        if item:
            kind, lines = "item", [item[1]]
        elif line.strip() and not line.startswith("#"):
            kind = kind if lines else "paragraph"
            lines.append(line.strip())


def too_long(text: str) -> list[str]:
    """Paragraphs and list items beyond their limit, by their beginnings."""
    limits = {"paragraph": MOST_WORDS_OF_PARAGRAPH, "item": MOST_WORDS_OF_ITEM}
    return [f"{kind} of {words(one)} words: {one[:60]}" for kind, one in _blocks(text) if words(one) > limits[kind]]


def wrong_words(text: str) -> list[str]:
    """Banned words with what to write, node lists with commas that are ranges, sizes without `i`."""
    prose = " ".join(re.sub(r"`[^`]*`", "", _prose_of(text)).split())
    found = banned_words(prose)
    found += [f"{size!r}: write Ki, Mi, Gi" for size in SIZE.findall(prose)]
    headings = set(re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    return found + [f"heading {one!r}" for one in sorted(headings & HEADINGS)]


@each_prose
def test_a_page_has_no_long_paragraph_and_no_long_list_item(page: Path) -> None:
    assert too_long(page.read_text(encoding="utf-8")) == []


@each_prose
def test_a_page_uses_plain_words_and_binary_units(page: Path) -> None:
    assert wrong_words(page.read_text(encoding="utf-8")) == []


def test_the_readme_is_short() -> None:
    assert words((TOP / "README.md").read_text(encoding="utf-8")) <= MOST_WORDS_OF_README


def test_the_documentation_as_a_whole_is_short() -> None:
    assert sum(words(page.read_text(encoding="utf-8")) for page in PROSE if page not in GENERATED) <= MOST_WORDS


def test_what_is_too_long_or_badly_worded_would_be_noticed() -> None:
    assert too_long("a " * 121) == ["paragraph of 121 words: " + ("a " * 30)]
    assert too_long("- " + "a " * 41 + "\n- b") == ["item of 41 words: " + ("a " * 30)]
    assert too_long("- " + "a " * 20 + "\n  " + "a " * 21) != []
    assert too_long("```\n" + "a " * 200 + "\n```\n| " + "a " * 200 + "|\n# " + "a " * 200) == []
    assert wrong_words("It is told by whom `whom` 4 G.\n\n## In public\n") == [
        "'is told': write 'is reported'", "'whom': write 'who'", "'4 G': write Ki, Mi, Gi", "heading 'In public'",
    ]  # fmt: skip
    assert wrong_words("512 MiB, 2Gi, 50 %, `4G`") == []
    assert words("| a | b-c | --- | 1 |") == 3
