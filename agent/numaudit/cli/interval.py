"""The time between two reports, on the command line."""

from __future__ import annotations

import click

from numaudit.cli.progress import Duration


class Interval(Duration):
    """A time between ticks. What follows --watch and is none may be a NAME, of a verb that has one."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if ctx is None or not any(isinstance(one, click.Argument) for one in ctx.command.params):
                raise
            raise click.BadParameter(f"{error.message}; a NAME comes before --watch", ctx, param) from None
