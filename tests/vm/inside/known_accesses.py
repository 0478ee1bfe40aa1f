"""A process whose threads rewrite known parts of its memory from known CPUs, and count their rounds.

Its argument is a plan: the fields of access_truth.Plan as JSON. The first line on stdout is `ready`. It answers each
line on stdin with the rounds that each thread has completed, as JSON, and begins to work at the first one.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from touch import PR_SET_THP_DISABLE, Memory, libc

MIB = 1 << 20
PIECE = 256 << 10
"""Bytes that are rewritten at a stretch; the pieces of a round come in any order."""


def main() -> None:
    plan = json.loads(sys.argv[1])
    libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    os.sched_setaffinity(0, {0})
    memory = Memory(plan["size"] * MIB, "anon")
    if plan["far"]:
        memory.bind("bind-sampled", [1], (plan["size"] - plan["far"]) * MIB)
    memory.fill()
    rounds = [0] * len(plan["threads"])
    begin = threading.Event()
    for number, thread in enumerate(plan["threads"]):
        arguments = (memory.address, thread, plan["longest_pause"], rounds, number, begin)
        threading.Thread(target=_work, args=arguments, daemon=True).start()
    print("ready", flush=True)
    for _ in sys.stdin:
        begin.set()
        print(json.dumps(rounds), flush=True)
    os._exit(0)  # threads that are still at work need no goodbye


def _work(
    address: int,
    thread: Mapping[str, Any],
    longest_pause: float,
    rounds: list[int],
    number: int,
    begin: threading.Event,
) -> None:
    os.sched_setaffinity(0, {thread["cpu"]})
    pieces = [address + offset for start, end in thread["parts"] for offset in range(start * MIB, end * MIB, PIECE)]
    dice = random.Random(number)
    begin.wait()
    while True:
        dice.shuffle(pieces)
        for piece in pieces:
            ctypes.memset(piece, 0x5A, PIECE)
        rounds[number] += 1
        if longest_pause and dice.random() < 0.2:
            time.sleep(dice.uniform(0, longest_pause))


if __name__ == "__main__":
    main()
