"""Processes of one thread each that use memory of the next node, over and over, until they are killed.

    many_processes.py COUNT BYTES

Each has this many bytes, bound to the node after its own CPU's, so that the kernel samples them and never moves them.
The first line on stdout is `ready`, once all of them hold their memory; then they begin.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import time
from typing import NoReturn

from touch import Memory

NODES = 4


def main() -> None:
    count, size = int(sys.argv[1]), int(sys.argv[2])
    gc.freeze()  # so that the children write less of what they share with their parent
    (filled, fills), (waits, go) = os.pipe(), os.pipe()
    for number in range(count):
        if os.fork() == 0:
            os.close(go)
            _work(number, size, fills, waits)
    for _ in range(count):
        os.read(filled, 1)
    print("ready", flush=True)
    os.close(go)
    while True:
        time.sleep(3600)


def _work(number: int, size: int, fills: int, waits: int) -> NoReturn:
    cpu = number % NODES
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # whoever watches them gets the CPU first
    memory = Memory(size, "anon")
    memory.bind("bind-sampled", [(cpu + 1) % NODES])
    memory.fill()
    os.write(fills, b".")
    os.read(waits, 1)  # to its end, when the parent closes the other one
    while True:
        ctypes.memset(memory.address, 0x5A, size)


if __name__ == "__main__":
    main()
