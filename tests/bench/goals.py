"""What a benchmark promises: each figure with its goal and a verdict, on a line that `run_all.py` makes a table of.

Absolute figures are those of a quiet machine. The short form does little work on a machine that may be busy, so it is
judged by a coarse goal of its own: a ratio, or CPU time as a multiple of `yardstick()`, measured in the same process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from short import SHORT

HELD, MISSED, NOT_JUDGED = "held", "MISSED", "not judged in the short form"
MARK = "goal | "
COST_MARK = "cost | "

Per = Literal["event", "container and tick", "tick", "scrape", "reader", "push", "start", "agent"]
"""What a cost is paid for once."""

_missed: list[str] = []


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


def has_missed() -> bool:
    """Was any goal missed?"""
    return bool(_missed)


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
