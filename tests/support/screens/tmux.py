"""A terminal of its own, by tmux: what a program draws on it is text to be waited for, never a time."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 120.0
"""Seconds, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A shell on a terminal."""

    socket: Path

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self.socket), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    def press(self, *keys: str) -> None:
        """Names of keys, as tmux knows them: Enter, Down, C-c."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    def run(self, command: str) -> None:
        self.type(f"clear; {command}")
        self.press("Enter")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def text(self, *, styles: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if styles else []))

    def shows(self, *words: str) -> str:
        """The screen, once it has all these words."""
        return self.sees(lambda text: all(word in text for word in words), f"{words}")

    def hides(self, *words: str) -> str:
        """The screen, once it has none of these words."""
        return self.sees(lambda text: not any(word in text for word in words), f"no {words}")

    def state(self, *names: str) -> list[str]:
        """What tmux knows of the terminal: alternate_on, cursor_flag, ..."""
        return self.tmux("display-message", "-p", " ".join(f"#{{{name}}}" for name in names)).split()

    def sees(self, seen: Callable[[str], bool], what: str) -> str:
        """The screen, once it is so."""
        end = time.monotonic() + PATIENCE
        while True:
            text = self.text()
            if seen(text):
                return text
            if time.monotonic() > end:
                raise AssertionError(f"not seen: {what}; but:\n{text}")
            time.sleep(0.02)


@contextmanager
def terminal(columns: int = 80, rows: int = 24, environment: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """A terminal of this size, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="tmux-") as folder:  # a socket's path must be short
        shown = Terminal(Path(folder) / "socket")
        variables = {**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})}
        command = ["tmux", "-f", "/dev/null", "-S", str(shown.socket), "new-session", "-d"]
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run([*command, *size, "bash --norc --noprofile"], env=variables, check=True, timeout=PATIENCE)
        try:
            shown.tmux("set-option", "-g", "status", "off")
            shown.resize(columns, rows)
            shown.run("echo re''ady")
            shown.shows("ready")
            yield shown
        finally:
            shown.tmux("kill-server")
