"""The documentation stays short; pages, programs and help texts use plain words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from documentation.plain_words import banned_words, banned_words_of_code
from numaudit.cli.cluster.plugin import plugin
from numaudit.cli.help import GLOSSARY
from numaudit.cli.main import VERBS, main
from numaudit.config.settings import KEYS
from numaudit.exporters.catalogue import METRICS
from screens.pages import TOP

PAGES = sorted((TOP / "README.md", TOP / "CONTRIBUTING.md", *TOP.glob("docs/**/*.md")))
GENERATED = {TOP / "docs/metrics.md"}
MOST_WORDS = 42_150
"""Of all pages together, tables and code included, but without the list of metrics, which grows with them."""
MOST_WORDS_OF_README = 1_200
MOST_WORDS_OF_PARAGRAPH = 120
FOLDERS = ("agent/**/*.py", "agent/**/*.yaml", "bpf/*.[ch]", "dashboards/**/*.py", "deploy/**/*.py", "tests/**/*.py")
PROGRAMS = [path for pattern in FOLDERS for path in TOP.glob(pattern) if path.name != "plain_words.py"]


def words(text: str) -> int:
    """Tokens with a letter or a digit: the bars of a table are no words."""
    return sum(any(letter.isalnum() for letter in token) for token in text.split())


def _paragraphs(text: str) -> Iterator[str]:
    """Without code blocks, comments and tables; each item of a list is one."""
    text = re.sub(r"^```.*?^```|<!--.*?-->|^\|.*$|^#.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_a_page_has_plain_words_and_no_long_paragraph(page: Path) -> None:
    for one in _paragraphs(page.read_text(encoding="utf-8")):
        assert words(one) <= MOST_WORDS_OF_PARAGRAPH, one
        assert banned_words(" ".join(re.sub(r"`[^`]*`", "", one).split())) == []


def test_the_documentation_is_short() -> None:
    assert words((TOP / "README.md").read_text(encoding="utf-8")) <= MOST_WORDS_OF_README
    assert sum(words(page.read_text(encoding="utf-8")) for page in PAGES if page not in GENERATED) <= MOST_WORDS


def test_programs_use_plain_words() -> None:
    found = {str(path.relative_to(TOP)): banned_words_of_code(path.read_text(encoding="utf-8")) for path in PROGRAMS}
    assert {path: words for path, words in found.items() if words} == {}


def _helps(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    yield path, " ".join((command.help or "").split())
    yield from ((f"{path} {one.opts[-1]}", one.help or "") for one in command.params if isinstance(one, click.Option))
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _helps(below, f"{path} {name}")


def test_each_help_is_a_sentence() -> None:
    verbs = (main.get_command(click.Context(main), name) for name in VERBS)
    texts = [one for verb in verbs if verb is not None for one in _helps(verb, verb.name or "")]
    texts += [*_helps(plugin, "kubectl numaudit"), *GLOSSARY.items(), *((one.name, one.help) for one in METRICS)]
    texts += [*((name, verb.help) for name, verb in VERBS.items()), *((path, key.help) for path, key in KEYS.items())]
    assert [one for one in texts if not re.fullmatch(r"[A-Z0-9`].*\.", one[1], re.DOTALL)] == []
