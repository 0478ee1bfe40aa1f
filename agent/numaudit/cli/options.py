"""Options that several verbs share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click

from numaudit.kernel.host import Host

Function = Callable[..., Any]


class Number(click.FloatRange):
    """A number between bounds. `nan`, which every bound lets pass, is none."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(cast("float", value), param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


def root(function: Function) -> Function:
    """--root DIR: read a captured tree instead of this host."""
    option = click.option(
        "--root",
        type=click.Path(path_type=Path, readable=False),
        metavar="DIR",
        help="Read a captured tree (see `numaudit capture`) instead of this host.",
    )
    return option(function)


def output(*choices: str) -> Callable[[Function], Function]:
    """-o FORMAT, the first choice being the default."""

    def decorate(function: Function) -> Function:
        option = click.option(
            "-o", "--output", type=click.Choice(choices), default=choices[0], show_default=True, help="Output format."
        )
        return option(function)

    return decorate


def host(root_folder: Path | None) -> Host:
    """The live host, or the captured tree. Raises InputError when there is no such tree."""
    return Host() if root_folder is None else Host.under(root_folder)
