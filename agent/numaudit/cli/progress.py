"""Waiting that shows on a terminal how long it will take."""

from __future__ import annotations

import time

import click

from numaudit.cli.messages import terminal
from numaudit.errors import brief

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def wait(seconds: float, what: str) -> None:
    """Sleep. A terminal sees what for and how long still; a pipe sees nothing."""
    end = time.monotonic() + seconds
    stderr = terminal()
    shown = False
    try:
        while (left := end - time.monotonic()) > 0:
            if stderr.isatty():
                print(f"\r{what}: {left:.0f} s left ", end="", file=stderr, flush=True)
                shown = True
            time.sleep(min(1.0, left))
    finally:
        if shown:
            print("\r\033[K", end="", file=stderr, flush=True)


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A time such as 500ms, 10s, 1m or 2h; a bare number is seconds."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = 86400.0) -> None:
        """Limits in seconds; a least of 0 is itself too little."""
        self._least, self._most = least, most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        digits = text.rstrip("hms")
        unit = text[len(digits) :] or "s"
        try:
            seconds = float(digits) * _UNITS[unit]
        except (ValueError, KeyError):
            self.fail(f"{brief(text)!r} is not a time such as 500ms, 10s or 1m", param, ctx)
        if not seconds > 0 or not self._least <= seconds <= self._most:
            self.fail(f"{brief(text)!r} is not {self._range()}", param, ctx)
        return seconds

    def _range(self) -> str:
        most = _time(self._most)
        return f"between {_time(self._least)} and {most}" if self._least else f"more than 0 and at most {most}"


def _time(seconds: float) -> str:
    if seconds and seconds % 3600 == 0:
        return f"{seconds / 3600:g} hour{'' if seconds == 3600 else 's'}"
    return f"{seconds:g} s"
