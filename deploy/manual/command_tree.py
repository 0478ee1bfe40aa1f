"""The commands of `numaudit`, as click has them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from numaudit.cli.main import main

Path = tuple[str, ...]


def commands(path: Path = (), command: click.Command = main) -> Iterator[tuple[Path, click.Command]]:
    """Each verb and sub-verb with its words after `numaudit`, in the order of the help; `numaudit` itself is ()."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands((*path, name), found)


def context_of(path: Path, command: click.Command) -> click.Context:
    """As on the command line: click remembers in the command which words ask for help in its first context."""
    return click.Context(command, info_name=" ".join(("numaudit", *path)), **main.context_settings)


def examples(command: click.Command) -> list[str]:
    """The command lines below `Examples:`."""
    return re.findall(r"^  (\S.*)$", command.epilog or "", re.MULTILINE)


def exit_codes(command: click.Command) -> str | None:
    """What comes after `Exit codes:`."""
    _, found, codes = (command.epilog or "").partition("Exit codes: ")
    return " ".join(codes.split()) if found else None


def usage(path: Path, command: click.Command) -> str:
    """Such as `numaudit report [OPTIONS] [NAME]`."""
    name = " ".join(("numaudit", *path))
    return " ".join((name, *command.collect_usage_pieces(context_of(path, command))))


def described_options(path: Path, command: click.Command) -> list[tuple[str, str]]:
    """The flags of each option, and what it does."""
    context = context_of(path, command)
    options = (one for one in command.params if isinstance(one, click.Option))
    return [record for one in options if (record := one.get_help_record(context)) is not None]
