"""Every option that takes a time takes it with a unit, and refuses what is none in the same words."""

from __future__ import annotations

import re

import click
import pytest

from command_tree import commands
from numaudit.cli.parameters import Duration

TIMES = [
    pytest.param(option, id=f"{' '.join(path)} {option.opts[0]}")
    for path, command in commands()
    for option in command.params
    if isinstance(option, click.Option) and re.search(r"time|duration|age$|interval", option.name or "")
]
OF_THE_SETTINGS = "interval"
"""An option of the agent, whose text the settings read: 15s, 1m."""


def test_there_are_some() -> None:
    names = {one.values[0].opts[0] for one in TIMES}  # type: ignore[union-attr]
    assert {"--duration", "--interval"} <= names


@pytest.mark.parametrize("option", TIMES)
def test_an_option_that_takes_a_time_takes_units(option: click.Option) -> None:
    if option.name == OF_THE_SETTINGS and option.type is click.STRING:
        return
    assert isinstance(option.type, Duration)
    assert option.type.convert("90s", option, None) == 90
    assert option.type.convert("5m", option, None) == 300
    with pytest.raises(click.BadParameter, match="is not a time such as 500ms, 10s or 1m"):
        option.type.convert("soon", option, None)
