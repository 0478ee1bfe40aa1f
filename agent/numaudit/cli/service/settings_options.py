"""The flags that give settings, shared by `agent` and `config`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli.options import FilePath, Function
from numaudit.config import CONFIG_VARIABLE, named_file
from numaudit.errors import InputError

if TYPE_CHECKING:
    from numaudit.config.loading import FlagSettings, Loaded


def settings_options(function: Function) -> Function:
    """--config, --listen, --interval and --set."""
    for option in (
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set any setting of docs/config.md; repeatable.",
        ),
        click.option("--interval", metavar="TIME", help="Time between two ticks (setting `interval`)."),
        click.option("--listen", metavar="HOST:PORT", help="Address of the HTTP server (setting `listen`)."),
        click.option(
            "--config",
            type=FilePath(dir_okay=False, readable=False),
            metavar="FILE",
            help=f"Settings file in YAML (docs/config.md), instead of the one that {CONFIG_VARIABLE} names.",
        ),
    ):
        function = option(function)
    return function


def load_settings(
    config: Path | None,
    listen: str | None,
    interval: str | None,
    assignments: tuple[str, ...],
    environment: Mapping[str, str] = os.environ,
) -> Loaded:
    """Settings of this command line, the environment and the file. Raises InputError."""
    from numaudit.config.loading import load

    return load(*_sources(config, listen, interval, assignments, environment))


def check_settings(
    config: Path | None,
    listen: str | None,
    interval: str | None,
    assignments: tuple[str, ...],
    environment: Mapping[str, str] = os.environ,
) -> tuple[str, ...]:
    """All that is wrong with those settings, else with the web-config file that they name.

    Raises InputError for a flag that is no KEY=VALUE, and where nothing is given that could be wrong.
    """
    from numaudit.config.loading import check, load
    from numaudit.daemon.web.rules import read_rules

    sources = _sources(config, listen, interval, assignments, environment)
    problems = check(*sources)
    if problems:
        return problems
    if sources[0] is None and set(load(*sources).origins.values()) == {"default"}:
        raise InputError(
            f"nothing to check: all settings have their defaults, because there is no --config FILE, {CONFIG_VARIABLE} "
            "names none, no other flag or variable gives a setting, and no unit numaudit.service is installed"
        )
    path = load(*sources).settings.web.config_file
    try:
        if path is not None:
            read_rules(path)
    except InputError as error:
        return (str(error),)
    return ()


def _sources(
    config: Path | None,
    listen: str | None,
    interval: str | None,
    assignments: tuple[str, ...],
    environment: Mapping[str, str] = os.environ,
) -> tuple[Path | None, Mapping[str, str], FlagSettings]:
    flags = [
        (f"--{path}", path, value) for path, value in (("listen", listen), ("interval", interval)) if value is not None
    ]
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not equals or not path:
            raise InputError(
                "--set needs KEY=VALUE, such as log.format=json; the value (hidden) has no "
                f"{'key' if equals else 'equals sign'}"
            )
        flags.append(("--set", path, value))
    return config or named_file(environment), environment, flags
