"""The short form of every benchmark (`--short`): little work and coarse goals, to see that it runs and is no slower.

A benchmark calls `run(main)`. It ends with 0, with 1 when a goal is missed, and with 3 when it cannot run here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from numaudit.errors import Unavailable

SHORT = "--short" in sys.argv[1:]
MISSED, CANNOT_RUN = 1, 3

T = TypeVar("T")


def pick(full: T, short: T) -> T:
    """One of two sizes."""
    return short if SHORT else full


def repetitions(full: int) -> int:
    """How often to measure: the first argument that is a number, or `full`; once in the short form."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    return pick(numbers[0] if numbers else full, 1)


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run it and exit. What `main` returns is None, or the exit code of a part of the benchmark in its own process."""
    from goals import has_missed  # noqa: PLC0415 (it asks this module for the form)

    try:
        code = main()
    except Unavailable as reason:
        print(f"cannot run here: {reason}")
        sys.exit(CANNOT_RUN)
    sys.exit(code or (MISSED if has_missed() else 0))
