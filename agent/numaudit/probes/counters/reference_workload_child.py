"""A process that does a known amount of work on a known number of bytes. Standard library only, started as a script.

    reference_workload_child.py BYTES THREADS

writes every byte of its own pages once, prints `ready`, and then follows lines on stdin:

    touch    write every page over and over, in all threads
    refill   give all pages back and write each once again: asks the kernel for exactly BYTES
    rest     do nothing (the state at the start)

Each is answered by the same word when it is followed. It ends with its stdin.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading

_PR_SET_THP_DISABLE = 41


class ReferenceWork:
    """One mapping of small pages, and the threads that write to it."""

    def __init__(self, size: int, threads: int) -> None:
        self._map = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._size, self._threads = size, threads
        self._touching = threading.Event()
        self._fill(0, 1)
        for number in range(threads):
            threading.Thread(target=self._run, args=(number,), daemon=True).start()

    def follow(self, order: str) -> None:
        self._touching.clear()
        if order == "refill":
            self._map.madvise(mmap.MADV_DONTNEED)
            self._fill(0, 1)
        elif order == "touch":
            self._touching.set()

    def _run(self, number: int) -> None:
        while True:
            self._touching.wait()
            self._fill(number, self._threads)

    def _fill(self, part: int, parts: int) -> None:
        """One of `parts` equal parts. ctypes releases Python's global lock, so threads run at the same time."""
        start, end = self._size * part // parts, self._size * (part + 1) // parts
        ctypes.memset(self._address + start, 0x5A, end - start)


def main() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)
    work = ReferenceWork(int(sys.argv[1]), int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        work.follow(line.strip())
        print(line.strip(), flush=True)
    os._exit(0)  # its threads need no goodbye


if __name__ == "__main__":
    main()
