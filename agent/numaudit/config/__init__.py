"""The settings of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numaudit.errors import InputError, may_be_a_file

CONFIG_VARIABLE = "NUMAUDIT_CONFIG"
"""The environment variable that names the file of settings."""


def named_file(environment: Mapping[str, str]) -> Path | None:
    """The file of settings that the environment names; None = none. Raises InputError for a URL."""
    named = environment.get(CONFIG_VARIABLE)
    if named and not may_be_a_file(named):
        raise InputError(f"{CONFIG_VARIABLE}: it is a URL (hidden, for it may hold a password); give a file")
    return Path(named) if named else None
