"""`numaudit config`: the agent's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaudit.cli import options
from numaudit.cli.exits import EXIT_USAGE
from numaudit.cli.service.settings_options import check_settings, load_settings, settings_options
from numaudit.errors import hide, is_like_a_url, printable
from numaudit.kernel.host import Host

if TYPE_CHECKING:
    from numaudit.api import document
    from numaudit.config.loading import Loaded

_HIDDEN = "(hidden)"
_NOT_OF_A_FILE = {"environment": "the environment", "flag": "flags"}


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
@settings_options
@options.output("table", "json")
def show(
    config: Path | None, listen: str | None, interval: str | None, assignments: tuple[str, ...], output: str
) -> None:
    """Show the settings in force and where each came from.

    Without flags and variables, these are the settings of the installed unit numaudit.service.
    """
    from numaudit.api import document
    from numaudit.cli import json_output

    given, environment, unit = _as_installed(config, listen, interval, assignments)
    loaded = load_settings(*given, environment)
    if unit:
        click.echo(f"numaudit: {_of_unit(unit)}", err=True)
    for warning in loaded.warnings:
        click.echo(f"numaudit: {warning}", err=True)
    rows = shown(loaded)
    if output == "json":
        json_output.of_host("Config", document.Config(rows), Host())
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
@settings_options
@options.output("table", "json")
def check(
    config: Path | None, listen: str | None, interval: str | None, assignments: tuple[str, ...], output: str
) -> int:
    """Check the settings, and print every mistake in them.

    Without flags and variables, it checks the settings of the installed unit numaudit.service.

    Unknown keys and variables count as mistakes here; the agent only warns about them. If there are no mistakes, it
    prints which settings it checked.
    """
    given, environment, unit = _as_installed(config, listen, interval, assignments)
    if unit:
        click.echo(f"numaudit: {_of_unit(unit)}", err=True)
    problems = check_settings(*given, environment)
    checked = None if problems else _checked(load_settings(*given, environment))
    if output == "json":
        from numaudit.api import document
        from numaudit.cli import json_output

        shown_problems = tuple(map(printable, problems))
        found = document.ConfigCheck(not problems, shown_problems, checked, tuple(map(str, unit)))
        json_output.of_host("ConfigCheck", found, Host())
        return EXIT_USAGE if problems else 0
    for problem in problems:
        click.echo(f"numaudit: {printable(problem)}", err=True)
    if checked is not None:
        click.echo(f"the settings are valid: {checked}")
    return EXIT_USAGE if problems else 0


_Given = tuple[Path | None, str | None, str | None, tuple[str, ...]]


def _as_installed(
    config: Path | None, listen: str | None, interval: str | None, assignments: tuple[str, ...]
) -> tuple[_Given, Mapping[str, str], tuple[Path, ...]]:
    """Flags and variables; where none gives a setting, those of the installed unit, with its files."""
    from numaudit.cli.service.installed_unit import installed_unit

    has_some = config or listen or interval or assignments or any(name.startswith("NUMAUDIT_") for name in os.environ)
    unit = None if has_some else installed_unit()
    if unit is None:
        return (config, listen, interval, assignments), os.environ, ()
    flags = unit.flags
    given = flags["config"], flags["listen"], flags["interval"], flags["assignments"]
    return given, {**os.environ, **unit.environment}, unit.files


def _of_unit(files: Sequence[Path]) -> str:
    return f"these are the settings of the installed unit: {', '.join(map(str, files))}"


def _checked(loaded: Loaded) -> str:
    """Sources of the settings that were checked."""
    given = [origin.partition(" ")[0] for origin in loaded.origins.values() if origin != "default"]
    others = [f"{given.count(kind)} from {where}" for kind, where in _NOT_OF_A_FILE.items() if kind in given]
    return ", ".join([*(str(one) for one in loaded.files), *others])


def shown(loaded: Loaded) -> tuple[document.Setting, ...]:
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


@command.command(
    short_help="Print every setting as a page (docs/config.md).",
    epilog="""\b
Examples:
  numaudit config reference

Exit codes: 0 fine, 2 usage.
""",
)
def reference() -> None:
    """Print docs/config.md: every setting with its default, its environment variable and its meaning."""
    click.echo(reference_text(), nl=False)


def reference_text() -> str:
    """docs/config.md."""
    from numaudit.config.settings import KEYS

    lines = [
        "# Settings of the agent",
        "",
        "Generated by `numaudit config reference`. A flag wins over the environment, the environment over the file",
        "given with `--config` (YAML; `web.timeout` is the key `timeout` below `web`). The environment's variable of",
        "`web.timeout` is `NUMAUDIT_WEB_TIMEOUT`, its flag `--set web.timeout=VALUE`. `numaudit config show` prints",
        "the settings in force and where each came from, `numaudit config check` every mistake in them.",
        "",
        "A running agent reads the file again when it has changed, and at SIGHUP (or POST to `/-/reload`, where",
        "`web.reload` is on). Settings with \\* take effect then, all others at the next start.",
        "",
        "Every other verb that asks the kubelet also reads the settings `kubelet.*`, from the environment and from the",
        "file that `NUMAUDIT_CONFIG` names. In the agent's pod `numaudit report` asks the kubelet that the agent asks.",
        "",
        "| setting | default | must be | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for key in KEYS.values():
        default = key.kind.show(key.default)
        cells = (
            f"`{key.path}`" + (" \\*" if key.reloads else ""),
            f"`{default}`" if default else "unset",
            key.kind.what,
            key.help,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
