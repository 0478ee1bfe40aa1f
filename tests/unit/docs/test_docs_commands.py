"""Every command, option, value and target of make that the documents name is there; help and manual pages are whole."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from command_tree import commands, described_options, examples, exit_codes
from manual_pages import PAGES as MANUAL_PAGES
from manual_pages import PLUGIN, write
from numaudit.cli.cluster.plugin import plugin
from numaudit.cli.main import main
from numaudit.errors import InputError
from numaudit.ranks.table import LAUNCHERS
from screens.pages import PAGES, TOP, code_of

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


CODE = [(str(page.relative_to(TOP)), line) for page in PAGES for line in code_of(page)]
"""Page, and a line or span of code in it."""


def test_every_command_that_a_page_names_can_be_typed() -> None:
    assert [(page, line, wrong) for page, line in CODE if (wrong := _wrong(line))] == []


def test_every_flag_that_a_page_names_alone_is_one_of_ours_or_known_to_be_anothers() -> None:
    named = {re.split(r"[ =]", span)[0] for _, span in CODE if span.startswith("-")}
    flags = {one for one in named if re.fullmatch(r"--?[a-z][a-z-]*", one)}
    assert flags - _flags(main) - _flags(plugin) - FOREIGN_FLAGS == set()


def test_every_target_of_make_that_a_page_names_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {match[1] for _, line in CODE if (match := re.match(r"make ([a-z0-9-]+)", line))} - targets == set()


COMMANDS = dict(commands())
PAGE = TOP / "docs/cli.md"


def test_the_page_of_commands_has_every_verb_and_no_other() -> None:
    rows = re.findall(r"^\| `numaudit (\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == sorted(rows, key=[path[0] for path in COMMANDS if path].index)
    assert set(rows) == {path[0] for path in COMMANDS if path}


def test_every_command_shows_an_example_of_its_own_and_says_its_exit_codes() -> None:
    called = {" ".join(("numaudit", *path)): one for path, one in COMMANDS.items() if not isinstance(one, click.Group)}
    assert [own for own, one in called.items() if not any(own in line for line in examples(one))] == []
    codes = {own: exit_codes(one) or "" for own, one in called.items()}
    assert {own: text for own, text in codes.items() if not re.match(r"(?:0 |the command's own)", text)} == {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("man") is None:
        pytest.skip("needs man-db")
    folder = tmp_path_factory.mktemp("share") / "man1"
    write(folder)
    return folder


def test_man_shows_each_page_without_a_warning(folder: Path) -> None:
    assert {file.stem for file in folder.iterdir()} == {*MANUAL_PAGES, PLUGIN}
    done = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", *sorted(folder.iterdir())],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_shows_every_option_as_it_is_typed(folder: Path) -> None:
    shown = subprocess.run(
        ["man", "-E", "UTF-8", "-l", folder / "numaudit-report.1"],
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8", "GROFF_NO_SGR": "1"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    shown = re.sub(".\b", "", shown)
    path, command = MANUAL_PAGES["numaudit-report"]
    for flags, _ in described_options(path, command):
        assert flags in shown
    for example in examples(command):
        assert example in shown
