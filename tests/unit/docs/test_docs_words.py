"""The words of help texts: sentences, or noun phrases that stand alone. Documents and manual pages are made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from numaudit.cli.cluster.plugin import plugin
from numaudit.cli.glossary import GLOSSARY
from numaudit.cli.main import VERBS, main
from numaudit.config.settings import KEYS
from numaudit.exporters.catalogue import LABELS, METRICS
from numaudit.report.columns import COLUMNS

_BANNED = re.compile(
    r"\b(all the same|anew|as often as needed|held against|in force it is|so many|such series|told as|tells? of|whom|"
    r"nobody knows|it is admitted:|what became of|what comes of|or by chance|; unset =)\b",
    re.IGNORECASE,
)
_FRAGMENT = re.compile(
    r"(And|As|At|By|For|From|In|Of|On|Or|That|Those|To|What|When|Where|Whether|Which|Who|Whom|Whose|Why|With)\b(?! -)"
)
"""A help that begins so says something about a subject that it leaves out. `With -f: ...` has it after the colon."""
_DANGLING = re.compile(r"\b(also|and|if|of|or|than|that|the|to|with)\.$")
_FLAG = re.compile(r"(Add|Apply|Assume|Exit|Explain|Hide|List|Measure|Name|Print|Read|Run|Sample|Show|Test|Write)\b")


def _problems(text: str) -> list[str]:
    """What is wrong with a text that has to be one or more whole sentences."""
    found = [f"banned: {word[0]}" for word in _BANNED.finditer(text)]
    if not re.match(r"[A-Z0-9`]", text):
        found.append("begins in lower case")
    if not text.endswith("."):
        found.append("has no full stop")
    if _FRAGMENT.match(text):
        found.append("is a fragment")
    if _DANGLING.search(text):
        found.append("ends in the middle")
    if text.count("(") != text.count(")"):
        found.append("leaves a bracket open")
    return found


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(("numaudit", *path)), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, (*path, name))


def _all_commands() -> Iterator[tuple[str, click.Command]]:
    """Those of `numaudit`, and those of `kubectl numaudit`."""
    yield from _commands(main)
    yield from ((f"kubectl {path}", command) for path, command in _commands(plugin))


def _options() -> Iterator[tuple[str, click.Option]]:
    for path, command in _all_commands():
        for one in command.params:
            if isinstance(one, click.Option):
                yield f"{path} {one.opts[-1]}", one


def _told(texts: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """Name -> text and problems, of those that have any."""
    return {name: [text, *problems] for name, text in texts if (problems := _problems(text))}


def test_every_option_has_a_sentence_as_help() -> None:
    assert not _told((name, option.help or "") for name, option in _options())


def test_help_of_a_switch_begins_with_the_verb_that_it_adds() -> None:
    switches = {name: option.help or "" for name, option in _options() if option.is_flag and option.name != "version"}
    assert not {name: help_ for name, help_ in switches.items() if not _FLAG.match(help_)}


def test_every_verb_has_a_sentence_as_help() -> None:
    assert not _told((path, " ".join((command.help or "").split())) for path, command in _all_commands())


def test_the_list_of_verbs_has_a_sentence_for_each() -> None:
    assert not _told((name, verb.help) for name, verb in VERBS.items())


def test_every_setting_has_a_sentence_as_help() -> None:
    assert not _told((path, key.help) for path, key in KEYS.items())


def test_every_metric_has_a_sentence_as_help() -> None:
    assert not _told((metric.name, metric.help) for metric in METRICS)


def test_the_meaning_of_a_label_is_a_noun_phrase_without_a_full_stop() -> None:
    assert not _told((name, f"{label.help}.") for name, label in LABELS.items())


def test_the_glossary_has_a_sentence_for_each_word() -> None:
    assert not _told(iter(GLOSSARY.items()))


def test_the_help_of_a_column_is_the_end_of_a_sentence() -> None:
    """`TITLE = help.`"""
    helps = {column.title: column.help for column in COLUMNS if column.help}
    assert not _told((title, f"{help_[0].upper()}{help_[1:]}.") for title, help_ in helps.items())


@pytest.mark.parametrize(("text", "problem"), [
    ("Of the request body.", "is a fragment"),
    ("Whom to trust for it; unset = the kubelet itself.", "banned: Whom"),
    ("Judged bytes outside the promised nodes: spilled, if also", "has no full stop"),
    ("more bytes than this are outside.", "begins in lower case"),
    ("Judged bytes outside, if also.", "ends in the middle"),
    ("Series (of one container.", "leaves a bracket open"),
])  # fmt: skip
def test_a_fragment_is_found(text: str, problem: str) -> None:
    assert problem in _problems(text)
