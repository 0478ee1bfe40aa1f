"""One row of the table of launchers."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from numaudit.errors import ParseError
from numaudit.ranks.declaration import Declaration, Placeable, Told
from numaudit.ranks.lists import Unresolved

Keep = Callable[[str], str | None]
"""The part of a value that is kept; None = none of it."""


def form(pattern: str, longest: int = 512) -> Keep:
    """Keep values of this form."""
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: text if len(text) <= longest and compiled.fullmatch(text) else None


class Option(Struct, frozen=True):
    """One option of a program that is kept of its command line."""

    name: str
    """Canonical, as `--membind`."""
    spellings: tuple[str, ...]
    keep: Keep | None = None
    """None = it is a switch."""
    many: bool = False
    """It takes all words up to the next option."""


class Program(Struct, frozen=True):
    """A kind of program, known by the name of its file, and its options that are kept."""

    kind: str
    named: re.Pattern[str] | None
    """None = any program, for options that no other program has."""
    options: tuple[Option, ...]
    is_getopt: bool = False
    """Short options may be joined (`-lN0`), and long ones shortened (`--mem`)."""
    becomes: bool = False
    """Its first other word ends its options, and names the program that it becomes."""
    first: Option | None = None
    """A word before that program that is no option, as the list of `taskset -c 0-3`."""
    takes_next: tuple[str, ...] | None = None
    """Options that are not kept, whose value is the next word, of a program whose first other word ends its options.
    None = they end nowhere."""


class Launcher(Struct, frozen=True):
    """All that holds for one way of declaring a placement."""

    name: str
    software: str
    document: str
    """Public document of the declaration."""
    reads: tuple[str, ...]
    """Options and variables, for people."""
    declare: Callable[[Told, Placeable], Declaration | None]
    """Raises ParseError for a value of no known form, and Unresolved."""
    keys: dict[str, Keep] = {}
    """Variables of the environment that are kept, and the form of their values."""
    programs: tuple[Program, ...] = ()
    follows_runtime: bool = False
    """Do its variables count only where a runtime is loaded?"""
    tried: tuple[str, ...] = ()
    """Software and version that a test runs, as `Open MPI 5.0`; empty = tests only parse its texts."""
    checked: str | None = None
    """`by hand 2021.19` or `code of 0.33`: a version that somebody compared once, where no test can run it."""

    def declaration(self, told: Told, here: Placeable) -> Declaration | None:
        """Its declaration; one that it cannot resolve says why. None = it declares nothing."""
        try:
            return self.declare(told, here)
        except Unresolved as reason:
            return Declaration(self.name, self.reads[0], "environment", unresolved=str(reason))
        except ParseError:
            why = "its value has a form that is not known here"
            return Declaration(self.name, self.reads[0], "environment", unresolved=why)
