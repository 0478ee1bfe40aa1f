"""What the pages show as output of a command is what it prints of that captured host. `make golden` rewrites it."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from documentation.marked_places import fill
from fixture_trees import FIXTURES
from numaudit.cli.main import call
from screens.pages import TOP

_EXAMPLE = re.compile(r"<!-- example: (.*?) -->")
_ARCHIVE = re.compile(r"tests/fixtures/([\w-]+)\.tar\.xz")

Call = Callable[[Sequence[str], TextIO | None], str]
"""Arguments of numaudit and its stdin -> what it printed."""


@dataclass(frozen=True, slots=True)
class Example:
    """One command of a page."""

    text: str
    """As the page names it."""

    @property
    def arguments(self) -> list[str]:
        """The captured trees as folders, which need not be unpacked for each command."""
        words = shlex.split(re.split(r" [|<] ", self.text)[0])
        return [_ARCHIVE.sub(lambda found: str(FIXTURES / found[1]), word) for word in words]

    @property
    def filter(self) -> str | None:
        _, bar, rest = self.text.partition(" | ")
        return rest if bar else None

    @property
    def stdin(self) -> str | None:
        """Name of a file."""
        found = re.search(r" < (\S+)", self.text)
        return found[1] if found else None

    @property
    def shown(self) -> str:
        return f"$ numaudit {re.sub(r' --root [^ ]+', '', self.text)}"


def examples(page: str) -> Iterator[Example]:
    yield from (Example(text) for text in _EXAMPLE.findall(page))


def filled(page: str, call: Call) -> str:
    """The page with the present output of each of its examples."""
    files = _files(page)
    for one in examples(page):
        stdin = None if one.stdin is None else io.TextIOWrapper(io.BytesIO(files[one.stdin].encode()))
        output = call(one.arguments, stdin)
        if one.filter is not None:
            done = subprocess.run(
                ["/bin/sh", "-c", one.filter], input=output, capture_output=True, text=True, check=True
            )
            output = done.stdout
        output = output.replace(str(FIXTURES), "tests/fixtures")
        lines = [line.rstrip() for line in output.rstrip().splitlines()]
        assert lines, f"{one.text} prints nothing"
        page = fill(page, f"example: {one.text}", "\n".join(["```", one.shown, *lines, "```", ""]))
    return page


def _files(page: str) -> Mapping[str, str]:
    return dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE))


def pages_with_examples() -> list[Path]:
    """README.md has an excerpt, and a test of its own."""
    return [page for page in sorted((TOP / "docs").glob("*.md")) if _EXAMPLE.search(page.read_text(encoding="utf-8"))]


MatchesGolden = Callable[[str, str], None]


@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, matches_golden: MatchesGolden, page: Path
) -> None:
    def printed(arguments: Sequence[str], stdin: TextIO | None) -> str:
        monkeypatch.setattr("sys.stdin", stdin)
        status = call(list(arguments))
        out, err = capsys.readouterr()
        assert (status, err) in ((0, ""), (1, "")), arguments
        return out

    text = page.read_text(encoding="utf-8")
    matches_golden(str(page.relative_to(TOP)), filled(text, printed))
