"""docs/pictures/numaudit.cast is what its commands show on a terminal now. `make golden` records it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from screens import cast
from screens.pages import TOP

FILE = "docs/pictures/numaudit.cast"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="the command tmux is missing")
def test_the_recorded_session_is_what_its_commands_show(matches_golden: Callable[[str, str], None]) -> None:
    matches_golden(FILE, cast.recorded())


def test_the_recorded_session_lasts_a_minute_and_shows_every_command() -> None:
    header, *events = map(json.loads, (TOP / FILE).read_text(encoding="utf-8").splitlines())
    assert (header["version"], header["width"], header["height"]) == (2, cast.WIDTH, cast.HEIGHT)
    assert 50 < events[-1][0] < 70
    assert [time for time, *_ in events] == sorted(time for time, *_ in events)
    typed = "".join(text for *_, text in events if len(text) == 1)
    assert typed == "".join(step.command for step in cast.STEPS)


def test_what_a_command_prints_is_on_the_screen_from_its_first_line_on() -> None:
    """The terminal is high enough: a longer output would have scrolled its beginning away."""
    _, *events = map(json.loads, (TOP / FILE).read_text(encoding="utf-8").splitlines())
    screens = [text for *_, text in events if len(text) > 1]
    for step in cast.STEPS:
        if not step.keys:
            assert [one for one in screens if f"H{cast.PROMPT}{step.command}\r\n" in one], step.command
