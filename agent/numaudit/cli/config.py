"""`numaudit config`: the agent's settings, and the flags that give them, which `numaudit agent` has, too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from numaudit.cli import EXIT_USAGE, options
from numaudit.config import CONFIG_VARIABLE, named_file
from numaudit.errors import InputError, hide, is_like_a_url, printable
from numaudit.kernel.host import Host

if TYPE_CHECKING:
    from numaudit.api import document
    from numaudit.config.loading import FlagSettings, Loaded

_HIDDEN = "(hidden)"
_NOT_OF_A_FILE = {"environment": "the environment", "flag": "flags"}
_OPTIONS = (
    click.option(
        "--set", "assignments", multiple=True, metavar="KEY=VALUE",
        help="Set any setting of docs/config.md; repeatable.",
    ),
    click.option(
        "--config", type=options.FilePath(dir_okay=False, readable=False), metavar="FILE",
        help=f"Settings file in YAML (docs/config.md), instead of the one that {CONFIG_VARIABLE} names.",
    ),
)  # fmt: skip


class SettingsFlags(NamedTuple):
    """The flags of one command line that give settings."""

    config: Path | None = None
    listen: str | None = None
    interval: str | None = None
    assignments: tuple[str, ...] = ()
    """As they were typed: KEY=VALUE."""

    def load(self) -> Loaded:
        """The settings by these flags, the environment and the file. Raises InputError."""
        from numaudit.config.loading import load

        return load(*self._sources())

    def check(self) -> tuple[str, ...]:
        """All that is wrong with those settings, else with the web-config file that they name.

        Raises InputError for a flag that is no KEY=VALUE, and where nothing is given that could be wrong.
        """
        from numaudit.config.loading import check
        from numaudit.daemon.web.rules import read_rules

        problems = check(*self._sources())
        if problems:
            return problems
        loaded = self.load()
        if not loaded.files and set(loaded.origins.values()) == {"default"}:
            raise InputError(
                "nothing to check: all settings have their defaults, because there is no --config FILE, "
                f"{CONFIG_VARIABLE} names none, and no other flag or variable gives a setting"
            )
        path = loaded.settings.web.config_file
        try:
            if path is not None:
                read_rules(path)
        except InputError as error:
            return (str(error),)
        return ()

    def _sources(self) -> tuple[Path | None, Mapping[str, str], FlagSettings]:
        named = (("listen", self.listen), ("interval", self.interval))
        flags = [(f"--{path}", path, value) for path, value in named if value is not None]
        for assignment in self.assignments:
            path, equals, value = assignment.partition("=")
            if not equals or not path:
                raise InputError(
                    "--set needs KEY=VALUE, such as log.format=json; the value (hidden) has no "
                    f"{'key' if equals else 'equals sign'}"
                )
            flags.append(("--set", path, value))
        return self.config or named_file(os.environ), os.environ, flags


def settings_flags(function: options.Function) -> options.Function:
    """--config and --set, which the function is given as `flags`, with --listen and --interval where it has them."""

    @wraps(function)
    def run(**given: options.Given) -> object:
        flags = SettingsFlags(**{name: given.pop(name) for name in SettingsFlags._fields if name in given})
        return function(flags=flags, **given)

    found: options.Function = run
    for option in _OPTIONS:
        found = option(found)
    return found


@click.group()
def command() -> None:
    """Show and check the settings of `numaudit agent`."""


@command.command(
    epilog="""\b
Examples:
  numaudit config show --config agent.yaml
  NUMAUDIT_INTERVAL=30s numaudit config show -o json

Exit codes: 0 fine, 2 a setting is wrong.
"""
)
@settings_flags
@options.output("table", "json")
def show(flags: SettingsFlags, output: str) -> None:
    """Show the settings in force and where each came from."""
    from numaudit.api import document
    from numaudit.cli import printing

    loaded = flags.load()
    for warning in loaded.warnings:
        click.echo(f"numaudit: {warning}", err=True)
    rows = _shown(loaded)
    if output == "json":
        printing.json_of_host("Config", document.Config(rows), Host())
        return
    from numaudit.views.terminal import machine_tables, terminal

    machine_tables.print_settings(rows, terminal.console())


@command.command(
    epilog="""\b
Examples:
  numaudit config check --config agent.yaml && systemctl reload numaudit

Exit codes: 0 the settings are valid, 2 a setting is wrong, or there is nothing to check.
"""
)
@settings_flags
@options.output("table", "json")
def check(flags: SettingsFlags, output: str) -> int:
    """Check the settings, and print every mistake in them.

    Unknown keys and variables count as mistakes here; the agent only warns about them. If there are no mistakes, it
    prints which settings it checked.
    """
    problems = flags.check()
    checked = None if problems else _checked(flags.load())
    if output == "json":
        from numaudit.api import document
        from numaudit.cli import printing

        found = document.ConfigCheck(not problems, tuple(map(printable, problems)), checked)
        printing.json_of_host("ConfigCheck", found, Host())
        return EXIT_USAGE if problems else 0
    for problem in problems:
        click.echo(f"numaudit: {printable(problem)}", err=True)
    if checked is not None:
        click.echo(f"the settings are valid: {checked}")
    return EXIT_USAGE if problems else 0


def _checked(loaded: Loaded) -> str:
    """Sources of the settings that were checked."""
    given = [origin.partition(" ")[0] for origin in loaded.origins.values() if origin != "default"]
    others = [f"{given.count(kind)} from {where}" for kind, where in _NOT_OF_A_FILE.items() if kind in given]
    return ", ".join([*(str(one) for one in loaded.files), *others])


def _shown(loaded: Loaded) -> tuple[document.Setting, ...]:
    """Every setting as text; secrets are hidden, and so are users and passwords in URLs."""
    from numaudit.api import document
    from numaudit.config.settings import KEYS

    rows = []
    for key in KEYS.values():
        value = key.kind.show(loaded.values[key.path])
        value = hide(value) if is_like_a_url(value) else value
        value = _HIDDEN if key.secret and value else value
        rows.append(document.Setting(key.path, value, loaded.origins[key.path]))
    return tuple(rows)
