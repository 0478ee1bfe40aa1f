"""Every command, option, value of an option and target of make that the documents name is there."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from command_tree import commands
from numaudit.cli.cluster.plugin import plugin
from numaudit.cli.main import main
from numaudit.errors import InputError
from numaudit.ranks.table import LAUNCHERS
from screens.pages import TOP, code_of, each_page

FOREIGN_FLAGS = {"--root-dir", "--reserved-memory", "--enable-feature", "--system-site-packages"} | {
    word for row in LAUNCHERS for word in row.reads if word.startswith("-")
}
"""Of the kubelet, of Prometheus, of Python's venv, and of launchers."""


def _command(words: list[str], command: click.Command = main) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the words after its name."""
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def _flags(command: click.Command) -> set[str]:
    """Its own and those of the commands below it."""
    return {flag for _, one in commands((), command) for param in one.params for flag in param.opts} | {"--help", "-h"}


def _wrong(line: str) -> list[str]:
    """What is wrong with a line that calls numaudit, maybe in a pipe or after another command."""
    parts = re.split(r"\s(?:&&|[|;])\s", line.split(" #", maxsplit=1)[0])
    return [wrong for part in parts for wrong in _wrong_call(part.partition(" >")[0].rstrip())]


def _wrong_call(part: str) -> list[str]:
    group: click.Command = plugin if part.startswith("kubectl numaudit ") else main
    if part.startswith("kubectl ") and group is main:
        part = part.partition(" -- ")[2]
    called = re.search(r"(?:^|[ /])numaudit(?P<words> [^|;#>&]*)$", part)
    if called is None:
        return []
    words = shlex.split(called["words"].partition(" -- ")[0].replace("…", ""))  # after that comes somebody's command
    command, rest = _command(words, group)
    if isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z]+", rest[0]):
        return [f"no verb {rest[0]!r}"]
    flags = _flags(command)
    given = [word for word in rest if word.startswith("-") and word != "-"]
    unknown = [f"no flag {word}" for word in given if word.split("=")[0] not in flags]
    return unknown or [*_wrong_values(command, rest)]


def _wrong_values(command: click.Command, words: list[str]) -> Iterator[str]:
    """Values that an option does not take. PLACEHOLDERS in capitals are left out, and so are files."""
    options = {flag: one for one in command.params for flag in one.opts if isinstance(one, click.Option)}
    for flag, value in itertools.pairwise(words):
        option = options.get(flag)
        if option is None or option.is_flag or isinstance(option.type, click.Path) or re.fullmatch(r"[A-Z]+", value):
            continue
        try:
            option.type.convert(value, option, click.Context(command))
        except (click.UsageError, InputError) as error:
            yield f"{flag} {value}: {error}"


@each_page
def test_every_command_that_a_page_names_can_be_typed(page: Path) -> None:
    assert {line: wrong for line in code_of(page) if (wrong := _wrong(line))} == {}


@each_page
def test_every_flag_that_a_page_names_alone_is_one_of_ours_or_known_to_be_anothers(page: Path) -> None:
    named = {re.split(r"[ =]", span)[0] for span in code_of(page) if span.startswith("-")}
    flags = {one for one in named if re.fullmatch(r"--?[a-z][a-z-]*", one)}
    assert flags <= _flags(main) | _flags(plugin) | FOREIGN_FLAGS


@each_page
def test_every_target_of_make_that_a_page_names_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {match[1] for line in code_of(page) if (match := re.match(r"make ([a-z0-9-]+)", line))}
    assert named <= targets
