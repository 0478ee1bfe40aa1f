"""docs/cli.md is the tree of click's commands. `make golden` writes it."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator

import click
import pytest

from command_tree import commands, described_options, examples, exit_codes, usage

MatchesGolden = Callable[[str, str], None]
COMMANDS = dict(commands())
_USERS: dict[tuple[str, str], list[str]] = {}
for _path, _one in COMMANDS.items():
    for _row in described_options(_path, _one):
        _USERS.setdefault(_row, []).append(" ".join(_path))
SHARED = {row: users for row, users in _USERS.items() if len(users) > 1}
"""Options that say the same in several verbs -> these."""
MOST_EXAMPLES = 1
_WIDTH = 120
_HEAD = """\
# Command line

Generated from the commands themselves. `numaudit VERB --help` (or `-h`) and the manual pages also have all examples and
the exit codes of each verb. Results go to standard output, messages to standard error. `-o json` prints one document,
described by [a schema](schema.json). [Install](install.md#in-the-shell) enables manual pages and shell completion.

Every document begins with `host`, `generator` and `takenAt`, which a captured host has from its capture. Keys are in
camelCase, sets of nodes are lists of integers, sets of CPUs are texts such as `0-3,8`, sizes are in bytes and their
names end in `Bytes`, times are by RFC 3339 in UTC.

| exit code | meaning |
| --- | --- |
| 0 | fine |
| 1 | findings: what the verb looks for is there, such as a file that is not valid |
| 2 | usage: a wrong option, file or setting |
| 3 | this host cannot answer: no rights, no such hardware, no kubelet |
| 4 | internal error: a bug in numaudit |
| 5 | inconclusive: too little evidence, or a machine that is too busy |
| 130 | interrupted |
"""
_MORE = {
    "report": "verdicts.md",
    "state": "state.md",
    "explain": "simulate.md",
    "fit": "simulate.md",
    "headroom": "state.md",
    "nrt": "integrations/schedulers.md",
    "forecast": "state.md",
    "simulate": "simulate.md",
    "doctor": "measuring.md",
    "run": "run.md",
    "assert": "assert.md",
    "agent": "agent.md",
    "config": "config.md",
    "help": "glossary.md",
}
"""Verb -> the page that says more."""


def page() -> str:
    """docs/cli.md."""
    parts = [_HEAD]
    parts += ["\nThese options are the same in several verbs:\n\n| option | verbs | what |\n| --- | --- | --- |\n"]
    parts += [f"| `{_cell(row[0])}` | {', '.join(users)} | {_cell(row[1])} |\n" for row, users in SHARED.items()]
    parts += [_section(path, command) for path, command in COMMANDS.items() if path]
    return "".join(parts)


def _section(path: tuple[str, ...], command: click.Command) -> str:
    name = " ".join(("numaudit", *path))
    purpose = next(_paragraphs(command.help or ""))
    telling = [one for one in examples(command) if one != name]
    shown = "\n".join(telling[:MOST_EXAMPLES])
    text = [
        f"\n{'#' * (1 + len(path))} {name}\n",
        purpose,
        f"```\n{usage(path, command)}\n{shown}".rstrip() + "\n```\n",
    ]
    own = [row for row in described_options(path, command) if row not in SHARED]
    text += [_options(own)] if own else []
    more = _MORE.get(path[0]) if len(path) == 1 else None
    text += [f"More: [{more}]({more}).\n"] if more else []
    return "\n".join(text)


def _options(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"| `{_cell(flags)}` | {_cell(what)} |\n" for flags, what in rows)
    return "| option | what |\n| --- | --- |\n" + "".join(cells)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        yield textwrap.fill(" ".join(paragraph.split()), _WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def test_the_generated_page_of_commands_is_what_can_be_typed(matches_golden: MatchesGolden) -> None:
    matches_golden("docs/cli.md", page())


@pytest.mark.parametrize(
    "path", [path for path, one in COMMANDS.items() if not isinstance(one, click.Group)], ids=" ".join
)
def test_every_command_shows_an_example_of_its_own_and_says_its_exit_codes(path: tuple[str, ...]) -> None:
    own = " ".join(("numaudit", *path))
    assert any(own in line for line in examples(COMMANDS[path]))
    assert re.match(r"(?:0 |the command's own)", exit_codes(COMMANDS[path]) or "")
