"""docs/cli.md names every verb, and each verb shows examples and exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from command_tree import commands, examples, exit_codes

COMMANDS = dict(commands())
PAGE = Path(__file__).parents[3] / "docs/cli.md"


def test_the_page_of_commands_has_every_verb_and_no_other() -> None:
    rows = re.findall(r"^\| `numaudit (\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == sorted(rows, key=[path[0] for path in COMMANDS if path].index)
    assert set(rows) == {path[0] for path in COMMANDS if path}


@pytest.mark.parametrize(
    "path", [path for path, one in COMMANDS.items() if not isinstance(one, click.Group)], ids=" ".join
)
def test_every_command_shows_an_example_of_its_own_and_says_its_exit_codes(path: tuple[str, ...]) -> None:
    own = " ".join(("numaudit", *path))
    assert any(own in line for line in examples(COMMANDS[path]))
    assert re.match(r"(?:0 |the command's own)", exit_codes(COMMANDS[path]) or "")
