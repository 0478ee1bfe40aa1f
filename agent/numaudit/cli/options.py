"""Options that several verbs share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numaudit.config import CONFIG_VARIABLE, named_file
from numaudit.errors import InputError, brief, may_be_a_file
from numaudit.kernel.host import Host, KubeletConnection, is_named_pipe, is_pipe, may_exist

if TYPE_CHECKING:
    from numaudit.evaluation.verdicts import Thresholds

Function = Callable[..., Any]
Given = Any
"""The value of an option; a verb passes all by name to the module that does the work."""
_KUBELET_VARIABLES, _VERDICT_VARIABLES, _SETUP_VARIABLES = "NUMAUDIT_KUBELET_", "NUMAUDIT_VERDICTS_", "NUMAUDIT_SETUP_"


class FilePath(click.Path):
    """A path. An empty one, such as of a variable that is not set, is not the current folder.

    One that may not be seen is not said to be missing: reading it says so.
    """

    def __init__(self, **checks: bool) -> None:
        super().__init__(path_type=Path, **checks)

    def convert(  # type: ignore[override]  # click says Any, for its own choice of types
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if not value:
            self.fail("the path is empty", param, ctx)
        if "\0" in value:
            self.fail("a path cannot have a NUL in it", param, ctx)
        if not may_be_a_file(value):
            self.fail("it is a URL (hidden, for it may hold a password); give a file", param, ctx)
        if may_exist(Path(value)) and not os.path.exists(value):  # noqa: PTH110 (Path.exists raises)
            return Path(value)
        return super().convert(value, param, ctx)


class Share(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A share such as 5% or 0.05."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(%?)", text, re.ASCII)
        share = -1.0 if match is None else float(match[1]) / (100 if match[2] else 1)
        if not 0 <= share <= 1:
            self.fail(f"{brief(text)!r} is not a share such as 5% or 0.05", param, ctx)
        return share


def root(function: Function) -> Function:
    """--root DIR|ARCHIVE: read a captured tree instead of this host."""
    option = click.option(
        "--root",
        type=FilePath(readable=False),
        metavar="DIR|ARCHIVE",
        help="Read a capture (`numaudit capture`), a sosreport, or a host's mounted root, instead of this host.",
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


def host(given: Path | None) -> Host:
    """The live host with its kubelet as the settings say it is reached, or the captured tree.

    Every verb takes its host from here, so all ask the same kubelet as the agent. Raises as `tree`, and InputError for
    a setting of the kubelet that is wrong.
    """
    found = tree(given)
    return replace(found, connection=_connection()) if found.is_live else found


def _connection() -> KubeletConnection:
    """By the environment, and by the file that it names. What says nothing of a kubelet loads no module for it."""
    if not _is_set(_KUBELET_VARIABLES):
        return KubeletConnection()
    from numaudit.config.loading import load_section  # (YAML and all settings take long to load)

    return load_section("kubelet", named_file(os.environ), os.environ).kubelet.connection


def thresholds() -> Thresholds:
    """The limits of verdicts as the agent has them: by the environment, and by the file that it names.

    Raises InputError for a limit that is wrong.
    """
    if not _is_set(_VERDICT_VARIABLES):
        from numaudit.evaluation.verdicts import DEFAULT

        return DEFAULT
    from numaudit.config.loading import load_section

    return load_section("verdicts", named_file(os.environ), os.environ).verdicts.thresholds


def accepted_rules() -> dict[str, str]:
    """Rules of `numaudit setup` that somebody accepted, with the reason, by the agent's settings. Raises InputError."""
    if not _is_set(_SETUP_VARIABLES):
        return {}
    from numaudit.config.loading import load_section

    return dict(load_section("setup", named_file(os.environ), os.environ).setup.accepted)


def _is_set(variables: str) -> bool:
    """Does the environment have settings that begin like this, or name a file that may?"""
    return any(one == CONFIG_VARIABLE or one.startswith(variables) for one in os.environ)


def tree(given: Path | None) -> Host:
    """The live host, or the captured tree; an archive is unpacked for as long as the command runs.

    Raises InputError when there is no such tree, and Unavailable when there is no space for it.
    """
    if given is None:
        return Host.here()
    if not os.path.isfile(given) and not is_pipe(given):  # noqa: PTH113 (Path.is_file raises where permission is missing)
        from numaudit.capture.layout import tree_in  # (for trees only)

        return Host.under(tree_in(given, given))
    if is_named_pipe(given):
        raise InputError(f"--root {given}: is a named pipe, which may never end; give a folder or an archive")
    from numaudit.capture.archive import unpacked  # (tarfile and lzma are for archives only)
    from numaudit.cli.signals import as_interrupts

    context = click.get_current_context()
    context.with_resource(as_interrupts())
    return Host.under(context.with_resource(unpacked(given)))
