"""What a benchmark promises: each figure with its goal and a verdict, on a line that `run_all.py` makes a table of.

A benchmark calls `run(main)`. It ends with 0, with 1 when a goal is missed, and with 3 when it cannot run here. With
`--short` it does little work and has coarse goals, to see that it runs and is no slower.

Absolute figures are those of a quiet machine. The short form does little work on a machine that may be busy, so it is
judged by a coarse goal of its own: a ratio, or CPU time as a multiple of `yardstick()`, measured in the same process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, NoReturn, TypeVar

from numaudit.errors import Unavailable

SHORT = "--short" in sys.argv[1:]
EXIT_MISSED, CANNOT_RUN = 1, 3
HELD, MISSED, NOT_JUDGED = "held", "MISSED", "not judged in the short form"
MARK = "goal | "
COST_MARK = "cost | "

Per = Literal["event", "container and tick", "tick", "scrape", "reader", "push", "start", "agent"]
"""What a cost is paid for once."""

T = TypeVar("T")

_missed: list[str] = []


def pick(full: T, short: T) -> T:
    """One of two sizes."""
    return short if SHORT else full


def repetitions(full: int) -> int:
    """How often to measure: the first argument that is a number, or `full`; once in the short form."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    return pick(numbers[0] if numbers else full, 1)


def run(main: Callable[[], object]) -> NoReturn:
    """Run it and exit."""
    try:
        main()
    except Unavailable as reason:
        print(f"cannot run here: {reason}")
        sys.exit(CANNOT_RUN)
    sys.exit(EXIT_MISSED if _missed else 0)


def at_most(what: str, measured: float, goal: float, unit: str = "", *, short: float | None = None) -> None:
    """One figure, which must not be larger than its goal; `short` is that of the short form, None = it has none."""
    _judge(what, measured, short if SHORT else goal, unit)


def at_most_ms(what: str, measured: float, goal: float, *, short: float | None = None) -> None:
    """Milliseconds of CPU time. `short`: the goal of the short form, in yardsticks."""
    if SHORT:
        _judge(what, measured / yardstick(), short, "yardsticks")
    else:
        _judge(what, measured, goal, "ms of CPU")


def cost(per: Per, what: str, value: float, unit: str) -> None:
    """A figure for docs/cost.md, which adds such figures up. Its words stay when `make bench` measures it again."""
    print(f"{COST_MARK}{per} | {what} | {value:.4g} | {unit}", flush=True)


def least_ms(call: Callable[[], object], rounds: int, before: Callable[[], object] = lambda: None) -> float:
    """CPU milliseconds of the fastest of some calls: what is more was the machine's doing. `before` each is no part."""
    spent = []
    for _ in range(rounds):
        before()
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return min(spent) * 1000


@lru_cache(maxsize=1)
def yardstick() -> float:
    """CPU milliseconds of work of the kind that a tick does, and that no change of numaudit changes."""
    return least_ms(_work, 7)


def _work() -> int:
    rows = {number: {"anon": number, "file": number * 2, "name": f"container-{number}"} for number in range(4000)}
    texts = [f"{row['name']} {row['anon']} {row['file']}\n" for row in rows.values()]
    sums: dict[int, int] = {}
    for line in texts:
        _, anon, file = line.split()
        sums[int(anon) % 64] = sums.get(int(anon) % 64, 0) + int(file)
    return len("".join(texts)) + len(sums)


def _judge(what: str, measured: float, goal: float | None, unit: str) -> None:
    verdict = NOT_JUDGED if goal is None else HELD if measured <= goal else MISSED
    if verdict == MISSED:
        _missed.append(what)
    shown = "-" if goal is None else f"{goal:g} {unit}".strip()
    print(f"{MARK}{what} | {f'{measured:.4g} {unit}'.strip()} | {shown} | {verdict}", flush=True)
