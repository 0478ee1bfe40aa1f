"""`numaudit help`: the help of each verb, and the glossary, which docs/glossary.md has, too."""

from __future__ import annotations

import re

import click
import pytest

from command_tree import commands, context_of, examples
from numaudit.cli.help import GLOSSARY
from numaudit.cli.main import call

Capture = pytest.CaptureFixture[str]
COMMANDS = dict(commands())
each_command = pytest.mark.parametrize(("path", "command"), COMMANDS.items(), ids=map(" ".join, COMMANDS))


def _help(capsys: Capture, *words: str) -> str:
    assert call(["help", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("path", [(), ("report",), ("state", "verify")], ids=" ".join)
def test_help_of_a_verb_is_what_its_option_prints(capsys: Capture, path: tuple[str, ...]) -> None:
    assert call([*path, "--help"]) == 0
    by_option = capsys.readouterr().out
    assert _help(capsys, *path) == by_option


def test_the_glossary_prints_every_word_with_its_meaning(capsys: Capture) -> None:
    text = " ".join(_help(capsys, "glossary").split())
    assert all(f"{word} {meaning}" in text for word, meaning in GLOSSARY.items())


def test_the_glossary_is_short() -> None:
    assert len(GLOSSARY) <= 15


@pytest.mark.parametrize(("words", "says"), [
    (("raport",), "no help for 'raport': numaudit has report, ranks, top,"),
    (("report", "x"), "no help for 'x': numaudit report has no verbs"),
])  # fmt: skip
def test_a_topic_that_is_not_there_is_refused_with_those_that_are(
    capsys: Capture, words: tuple[str, ...], says: str
) -> None:
    assert call(["help", *words]) == 2
    assert says in capsys.readouterr().err


@each_command
def test_help_fits_a_terminal_of_80_columns_apart_from_examples(path: tuple[str, ...], command: click.Command) -> None:
    lines = command.get_help(context_of(path, command)).splitlines()
    assert [line for line in lines if len(line) > 80 and line.strip() not in examples(command)] == []


@each_command
def test_the_value_of_an_option_has_a_name_that_a_user_knows(path: tuple[str, ...], command: click.Command) -> None:
    assert not re.findall(r"INTEGER RANGE|FLOAT RANGE|BOOLEAN|TEXT", command.get_help(context_of(path, command)))
