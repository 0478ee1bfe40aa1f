"""The commands of `numaudit`, as click has them."""

from __future__ import annotations

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
