"""`numaudit help`: the help of a verb, or the glossary."""

from __future__ import annotations

import click

from numaudit.cli.glossary import GLOSSARY


@click.command(
    epilog="""\b
Examples:
  numaudit help
  numaudit help state verify
  numaudit help glossary

Exit codes: 0 fine, 2 usage.
"""
)
@click.argument("topic", nargs=-1, metavar="[VERB [COMMAND] | glossary]")
@click.pass_context
def command(ctx: click.Context, topic: tuple[str, ...]) -> None:
    """Print the help of a verb, or the glossary, which explains the words of the reports."""
    if topic == ("glossary",):
        formatter = ctx.make_formatter()
        formatter.write_dl(list(GLOSSARY.items()))
        click.echo(formatter.getvalue(), nl=False)
        return
    click.echo(_context_of(ctx.find_root(), topic).get_help())


def _context_of(found: click.Context, words: tuple[str, ...]) -> click.Context:
    for word in words:
        group = found.command
        names = group.list_commands(found) if isinstance(group, click.Group) else []
        below = group.get_command(found, word) if isinstance(group, click.Group) else None
        if below is None:
            known = ", ".join([*names, "glossary"]) if names else "no verbs"
            raise click.UsageError(f"no help for {word!r}: {found.command_path} has {known}")
        found = click.Context(below, info_name=word, parent=found)
    return found
