"""A newcomer who types the commands that documents and hints name, in a fresh clone. They are counted and timed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 1800.0
"""Seconds for one command: a machine may be busy, so what it took is printed and not judged."""
_OF_THIS_RUN = re.compile(r"PYTHON|VIRTUAL_ENV|MAKE|MFLAGS|CI$|COLUMNS$|CHECKED$|PART$|NUMAUDIT|PYTEST")
"""Variables that a newcomer has not set, but `make test` and pytest have."""


@dataclass
class Journey:
    """Commands in a clone, as a person at a shell types them."""

    clone: Path
    taken: list[tuple[str, float]]
    """Command and seconds, in order."""
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, code: int = 0) -> str:
        """Standard output of one command, which must end with `code`."""
        own = {name: value for name, value in os.environ.items() if not _OF_THIS_RUN.match(name)}
        begun = time.monotonic()
        done = subprocess.run(
            ["/bin/sh", "-c", command], cwd=self.clone, env=own | self.variables, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        self.taken.append((command, time.monotonic() - begun))
        assert done.returncode == code, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def document(self, name: str) -> str:
        """A page of the clone."""
        return (self.clone / name).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """What is between `## heading` and the next one."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def commands(text: str) -> list[str]:
    """The lines of its code blocks without their comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line.split(" #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


@dataclass(frozen=True)
class Begun:
    """What the first command of the README does in a fresh clone: all journeys begin with it."""

    clone: Path
    command: str
    seconds: float
    printed: str
