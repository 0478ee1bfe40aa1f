"""A process whose threads use known parts of its memory from known CPUs, over and over, until it is killed.

Its argument is a plan: the fields of page_truth.Process as JSON. The first line on stdout is `ready`, and the work
begins with the first line on stdin. Each line is answered with a line of JSON: the pages of each part by node
(move_pages(2)). `home` first gives its own memory back to the kernel, which may then move it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from touch import MBIND, POLICIES, PR_SET_THP_DISABLE, libc

MIB = 1 << 20
PAGE = 4096
HUGE = 2 * MIB
PIECE = 64 << 10
"""Bytes that are used at a stretch; the pieces of a round come in any order."""
_MOVE_PAGES = {"x86_64": 279, "aarch64": 239}
_DEFAULT = 0
_MADV_HUGEPAGE, _MADV_NOHUGEPAGE = 14, 15


class Part:
    """One mapping on known nodes: `anon` (4 KiB pages), `huge`, `read` (anonymous, only read), or of a file that
    exists: `shared` (written) or `read-only`.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.size = plan["mib"] * MIB
        self.kind = plan["kind"]
        self.policy = plan["policy"]
        self._on: list[int] = []
        """Node of each page when it was seen last."""
        self.is_own = self.kind in ("anon", "huge", "read")
        if self.is_own:
            self._map = mmap.mmap(-1, self.size + HUGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            flags = os.O_RDONLY if self.kind == "read-only" else os.O_RDWR
            descriptor = os.open(plan["file"], flags)
            protection = mmap.PROT_READ if self.kind == "read-only" else mmap.PROT_READ | mmap.PROT_WRITE
            self._map = mmap.mmap(descriptor, self.size, mmap.MAP_SHARED, protection)
        address = _address(self._map, self.kind == "read-only")
        self.address = address + -address % HUGE if self.is_own else address
        if self.is_own:
            advice = _MADV_HUGEPAGE if self.kind == "huge" else _MADV_NOHUGEPAGE
            libc.madvise(ctypes.c_ulong(self.address), ctypes.c_ulong(self.size), advice)
            self.bind(plan["nodes"], "bind" if self.policy == "none" else self.policy)
            ctypes.memset(self.address, 0x5A, self.size)
            if self.policy == "none":
                self.bind([], None)
        elif self.kind == "shared":  # in a tmpfs the policy is the file's
            self.bind(plan["nodes"], self.policy)

    def bind(self, nodes: Sequence[int], policy: str | None) -> None:
        """No policy = the default one: pages may go where the kernel likes."""
        mask = ctypes.c_ulong(sum(1 << node for node in nodes))
        of_nodes = (None, 0) if policy is None else (ctypes.byref(mask), 8 * ctypes.sizeof(mask))
        mode = _DEFAULT if policy is None else POLICIES[policy]
        numbers = [ctypes.c_ulong(one) for one in (self.address, self.size, mode)]
        if libc.syscall(
            MBIND[os.uname().machine], *numbers, of_nodes[0], ctypes.c_ulong(of_nodes[1]), ctypes.c_ulong(0)
        ):
            raise OSError(ctypes.get_errno(), f"mbind to {list(nodes)} ({policy})")

    @property
    def pieces(self) -> list[tuple[Callable[[int], None], int]]:
        return [(self.use, self.address + offset) for offset in range(0, self.size, PIECE)]

    def use(self, address: int) -> None:
        """A piece of it."""
        if self.kind in ("read-only", "read"):
            libc.memchr(ctypes.c_void_p(address), 1, ctypes.c_size_t(PIECE))
        else:
            ctypes.memset(address, 0x5A, PIECE)

    def nodes(self) -> dict[int, int]:
        """Pages by node. Linux 6.1 hides those that wait for a hint fault: they are where they were."""
        now = self._where()
        while not self._on and min(now) < 0:  # it is the first time, and the kernel has scanned some already
            for use, address in self.pieces:
                use(address)
            now = self._where()
        self._on = [one if one >= 0 else then for one, then in zip(now, self._on or now, strict=True)]
        return {node: pages for node, pages in Counter(self._on).items() if node >= 0}

    def _where(self) -> list[int]:
        """Node of each page, or a negative number where the kernel does not say."""
        count = self.size // PAGE
        pages = (ctypes.c_void_p * count)(*range(self.address, self.address + self.size, PAGE))
        status = (ctypes.c_int * count)()
        if libc.syscall(_MOVE_PAGES[os.uname().machine], 0, ctypes.c_ulong(count), pages, None, status, 0):
            raise OSError(ctypes.get_errno(), "move_pages")
        return list(status)


class _Buffer(ctypes.Structure):
    """Py_buffer as far as it is needed: ctypes gives no address of what may only be read."""

    _fields_ = (("buf", ctypes.c_void_p), ("rest", ctypes.c_byte * 256))


def _address(mapping: mmap.mmap, is_read_only: bool) -> int:
    if not is_read_only:
        return ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapping), ctypes.byref(view), 0)
    return int(view.buf)


def main() -> None:
    plan = json.loads(sys.argv[1])
    parts_planned, threads = plan["parts"], plan["threads"]
    if not any(part["kind"] == "huge" for part in parts_planned):
        libc.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    parts = [_filled(one, number, threads) for number, one in enumerate(parts_planned)]
    os.sched_setaffinity(0, {threads[0]["cpus"][0]})
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(plan["children"]):
        if os.fork() == 0:
            own = [*parts, *(Part(one) for one in plan["own"])]
            _start(own, threads[1:])
            _work(own, threads[0], 0)
    if not plan["children"]:
        _start(parts, threads if plan["leads"] else threads[1:])
    if plan["leads"]:
        _answer(parts)
    else:  # its one thread works, and its pages are asked for from outside
        print("[]", flush=True)
        _work(parts, threads[0], 0)


def _filled(plan: Mapping[str, Any], number: int, threads: Sequence[Mapping[str, Any]]) -> Part:
    """A part that was only used from where it will be used, for the kernel samples that, too."""
    users = [thread["cpus"][0] for thread in threads if any(used == number for used, _ in thread["uses"])]
    os.sched_setaffinity(0, {(users or threads[0]["cpus"])[0]})
    part = Part(plan)
    part.nodes()  # before it waits for a hint fault
    return part


def _start(parts: Sequence[Part], threads: Sequence[Mapping[str, Any]]) -> None:
    for number, thread in enumerate(threads):
        threading.Thread(target=_work, args=(parts, thread, number + 1), daemon=True).start()


def _answer(parts: Sequence[Part]) -> None:
    order = "go"
    while order:
        if order == "home":
            for part in parts:
                if part.is_own:
                    part.bind([], None)
        print(_pages(parts), flush=True)
        order = sys.stdin.readline().strip()
    os._exit(0)  # threads that are still at work need no goodbye


def _pages(parts: Sequence[Part]) -> str:
    return json.dumps([part.nodes() for part in parts])


def _work(parts: Sequence[Part], thread: Mapping[str, Any], number: int) -> None:
    cpus, turn, hop = thread["cpus"], time.monotonic(), 0
    os.sched_setaffinity(0, {cpus[0]})
    pieces = [piece for part, times in thread["uses"] for piece in parts[part].pieces for _ in range(times)]
    dice = random.Random(number)
    while True:
        dice.shuffle(pieces)
        for use, address in pieces:
            use(address)
        if thread["nap"] and dice.random() < 0.2:
            time.sleep(dice.uniform(0, thread["nap"]))
        if len(cpus) > 1 and time.monotonic() - turn > thread["stay"]:
            hop, turn = hop + 1, time.monotonic()
            os.sched_setaffinity(0, {cpus[hop % len(cpus)]})


if __name__ == "__main__":
    main()
