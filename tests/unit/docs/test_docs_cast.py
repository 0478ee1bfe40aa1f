"""docs/pictures/numaudit.cast is what its commands show on a terminal now. `make golden` records it again."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from screens.pages import TOP
from screens.tmux import PATIENCE, Terminal, terminal

WIDTH, HEIGHT = 120, 52
TITLE = "numaudit on a captured node: report, explain, fit and top"
PROMPT = "$ "
NODE = "tests/fixtures/misaligned-node.tar.xz"
SECOND = ">default/gu-small-numanode/app"
"""The second row of `top`, chosen."""
_CLEAR = "\x1b[2J\x1b[H"
_STROKE = 0.04
"""Seconds for each typed letter."""
_STILL = 5
"""Equal screens in a row, after which one is complete."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and keys that are pressed while it runs."""

    command: str
    seconds: float
    """For which its screen is shown."""
    keys: Sequence[tuple[str, str, float]] = ()
    """A key, a word that appears then, and the seconds for which that screen is shown."""
    shows: str = ""
    """A word by which a program that does not end is ready."""


STEPS = (
    Step(f"node={NODE}", 0.5),
    Step("numaudit report --root $node --top 3", 11),
    Step("numaudit explain default/gu-init-numanode --root $node", 13),
    Step("cat docs/pictures/pod.yaml", 3),
    Step("numaudit fit -f docs/pictures/pod.yaml --root $node", 9),
    Step(
        "numaudit top --root $node",
        6,
        keys=(("Down", SECOND, 2), ("Enter", "allowed by its cpuset", 7), ("Escape", SECOND, 1), ("q", PROMPT, 1)),
        shows=">default/gu-init-numanode/app",
    ),
)


@dataclass(slots=True)
class _Cast:
    """Events in their order."""

    now: float = 0.0
    events: list[tuple[float, str]] = field(default_factory=list)

    def write(self, text: str, seconds: float) -> None:
        """What appears, and how long until something else does."""
        self.events.append((round(self.now, 2), text))
        self.now += seconds

    def type(self, command: str) -> None:
        self.write(f"{_CLEAR}{PROMPT}", 0.5)
        for letter in command:
            self.write(letter, _STROKE)
        self.write("\r\n", 0.4)

    def text(self) -> str:
        header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": TITLE}
        end = (round(self.now, 2), "")
        lines = [json.dumps(header), *(json.dumps([at, "o", text]) for at, text in [*self.events, end])]
        return "".join(f"{line}\n" for line in lines)


def recorded(steps: Sequence[Step] = STEPS) -> str:
    """The file's text."""
    cast = _Cast()
    program = f"{sys.executable} -c 'from numaudit.cli.start import run; run()'"
    variables = {"COLORTERM": "truecolor", "NO_COLOR": "", "COLUMNS": ""}
    with terminal(WIDTH, HEIGHT, variables) as shown:
        shown.type(f"unset COLUMNS; cd {TOP}; numaudit() {{ {program} \"$@\"; }}; PS1='{PROMPT}'")
        shown.press("Enter")
        for step in steps:
            shown.run("")
            shown.sees(lambda text: text.strip() == PROMPT.strip(), "nothing but the prompt")
            cast.type(step.command)
            for screen, seconds in _screens(shown, step):
                cast.write(f"{_CLEAR}{screen}", seconds)
    return cast.text()


def _screens(shown: Terminal, step: Step) -> Iterator[tuple[str, float]]:
    shown.type(step.command)
    shown.press("Enter")
    if step.shows:
        shown.shows(step.shows)
    else:
        _wait_for_prompt(shown)
    yield _still(shown), step.seconds
    for key, word, seconds in step.keys:
        shown.press(key)
        if word == PROMPT:
            _wait_for_prompt(shown)
        else:
            shown.shows(word)
        yield _still(shown), seconds


def _wait_for_prompt(shown: Terminal) -> None:
    """The typed command has a prompt before it, too, so only one at the screen's end will do."""
    shown.sees(lambda text: text.rstrip().endswith(f"\n{PROMPT.strip()}"), "the prompt after the command")


def _still(shown: Terminal) -> str:
    """The screen, once it changes no more."""
    end, seen = time.monotonic() + PATIENCE, [shown.text(styles=True)]
    while len(seen) < _STILL or len(set(seen[-_STILL:])) > 1:
        assert time.monotonic() < end, "the screen never rests"
        time.sleep(0.2)
        seen.append(shown.text(styles=True))
    return "\r\n".join(line.rstrip() for line in seen[-1].rstrip().split("\n"))


FILE = "docs/pictures/numaudit.cast"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="the command tmux is missing")
def test_the_recorded_session_is_what_its_commands_show(matches_golden: Callable[[str, str], None]) -> None:
    matches_golden(FILE, recorded())
