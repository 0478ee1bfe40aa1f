"""The settings that an installed systemd unit gives to the agent: its flags, its variables and their files."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from numaudit.cli.service import agent
from numaudit.errors import InputError

FOLDERS = (Path("/etc/systemd/system"), Path("/run/systemd/system"), Path("/usr/lib/systemd/system"))
"""Folders of units, the first being the strongest (systemd.unit(5))."""
UNIT = "numaudit.service"


class InstalledUnit(Struct, frozen=True):
    """The settings that a unit and its drop-ins give to the agent."""

    files: tuple[Path, ...]
    flags: dict[str, Any] = field(default_factory=dict)
    """Values of the agent's options, by the names of its parameters."""
    environment: dict[str, str] = field(default_factory=dict)


def installed_unit() -> InstalledUnit | None:
    """None = none is installed. Raises InputError for one that cannot be read or does not run the agent."""
    unit = next((folder / UNIT for folder in FOLDERS if (folder / UNIT).is_file()), None)
    if unit is None:
        return None
    drop_ins = {file.name: file for folder in reversed(FOLDERS) for file in (folder / f"{UNIT}.d").glob("*.conf")}
    files = (unit, *(drop_ins[name] for name in sorted(drop_ins)))
    started: list[str] = []
    environment: dict[str, str] = {}
    for file in files:
        for key, value in _lines(file):
            try:
                match key:
                    case "ExecStart":
                        started = shlex.split(value)
                    case "Environment":
                        environment |= _assigned(shlex.split(value))
                    case "EnvironmentFile":
                        environment |= _assigned(_of_file(value))
            except ValueError as error:
                raise InputError(f"{file}: {key}: {error}") from error
    return InstalledUnit(files, _flags(started, unit), environment)


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """Key and value of each line; a backslash at its end continues it."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from error
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith(("#", ";")):
            yield key.strip(), value.strip()


def _assigned(words: list[str]) -> dict[str, str]:
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _of_file(value: str) -> list[str]:
    """Assignments in a file of variables; one with `-` before its name may be missing."""
    file = Path(value.removeprefix("-"))
    if value.startswith("-") and not file.exists():
        return []
    return [word for name, found in _lines(file) for word in shlex.split(f"{name}={found}")]


def _flags(started: list[str], unit: Path) -> dict[str, Any]:
    if "agent" not in started:
        raise InputError(f"{unit}: its ExecStart does not run `numaudit agent`; give --config FILE")
    words = started[started.index("agent") + 1 :]
    given = agent.command.make_context("agent", words, resilient_parsing=False).params
    return {name: given[name] for name in ("config", "listen", "interval", "assignments")}
