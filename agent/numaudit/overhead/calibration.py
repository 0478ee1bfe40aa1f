"""What does one event of each probe cost here? Nanoseconds, measured where this kernel lets us, else assumed.

Measured means the kernel's own account of the programs' run time (CAP_SYS_ADMIN), or pages that are asked for with
and without page_alloc. At start the programs are tried out on purpose, with all they need in the CPU's caches; while
the agent runs, real events of some looks take the place of that.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from numaudit.kernel import bpf
from numaudit.kernel.bpf import RunTime
from numaudit.overhead.budget import Load
from numaudit.probes import page_alloc
from numaudit.probes.cpu_time import CpuTime
from numaudit.probes.hint_faults import HintFaults
from numaudit.probes.migrations import Migrations
from numaudit.probes.page_alloc import PageAlloc
from numaudit.probes.session import Session
from numaudit.snapshot import Cost

ASSUMED_NS = {"page_alloc": 200.0, "cpu_time": 260.0, "hint_faults": 400.0, "migrations": 400.0, "first_touch": 3000.0}
"""Nanoseconds for each event, the hook's own cost included and rounded up, where nothing better is known."""
LOOKS_BETWEEN = 20
"""In one look of so many the kernel keeps account, which costs some 60 ns for each event."""
_LEAST_EVENTS = 1000
_TRIES = 2000
_PAGES = 2048
_ROUNDS = 7

Accounted = PageAlloc | CpuTime | HintFaults | Migrations
"""Probes that are BPF programs."""


def assumed(probe: str) -> Cost:
    return Cost(ASSUMED_NS[probe], "assumed")


def calibrate(session: Session) -> dict[str, Cost]:
    """By the probe's name, of those whose cost can be measured at once; takes some 60 ms. Raises Refusal."""
    costs = {}
    for name, probe in _accounted(session).items():
        spent = _account(probe)
        if spent is not None and spent.runs >= _LEAST_EVENTS:
            costs[name] = Cost(spent.nanoseconds / spent.runs, "measured")
    if page_alloc.NAME not in costs and isinstance(session.page_alloc, PageAlloc):
        timed = time_pages(session.page_alloc)
        if timed is not None:
            costs[page_alloc.NAME] = Cost(timed, "measured")
    return costs


def time_pages(probe: PageAlloc) -> float | None:
    """Nanoseconds that a fresh page takes longer with the program on its hook; None = too noisy to tell.

    Raises Refusal when the probe cannot be put back.
    """
    loaded = _best_of_touching()
    probe.suspend()
    try:
        bare = _best_of_touching()
    finally:
        probe.resume()
    return loaded - bare if loaded > bare else None


@dataclass(slots=True)
class Listener:
    """Lets the kernel keep account of the programs' run time from one look to the next, now and then."""

    session: Session
    _until_next: int = 0
    _descriptor: int | None = None
    _before: Mapping[str, RunTime] = field(default_factory=dict)

    def after_look(self, loads: Collection[Load]) -> dict[str, Cost]:
        """What the events since the look before cost, of each probe that had enough; usually of none.

        Raises OSError when the kernel cannot be asked about a program of ours.
        """
        costs = {}
        if self._descriptor is not None:
            spent = {name: now - self._before[name] for name, now in self._read().items() if name in self._before}
            self.close()
            costs = {
                load.probe: Cost(spent[load.probe].nanoseconds / load.events, "measured")
                for load in loads
                if load.probe in spent and load.events >= _LEAST_EVENTS
            }
        elif not self._until_next:
            self._until_next = LOOKS_BETWEEN
            with suppress(OSError):  # the kernel tells only who has CAP_SYS_ADMIN, and before Linux 5.8 nobody
                self._descriptor = bpf.count_run_time()
                self._before = self._read()
        self._until_next -= 1
        return costs

    def close(self) -> None:
        """The kernel keeps account no more."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> dict[str, RunTime]:
        return {name: probe.read_run_time() for name, probe in _accounted(self.session).items()}


def _accounted(session: Session) -> dict[str, Accounted]:
    """Probes that are BPF programs and run."""
    return {name: probe for name, probe in session.outcomes.items() if isinstance(probe, Accounted)}


def _account(probe: Accounted) -> RunTime | None:
    """What a probe's programs use when they are made to run; None = it cannot be known here."""
    try:
        descriptor = bpf.count_run_time()
    except OSError:
        return None
    try:
        before = probe.read_run_time()
        if isinstance(probe, PageAlloc):
            _best_of_touching()
        else:
            probe.try_out(_TRIES)
        return probe.read_run_time() - before
    except OSError:  # before Linux 5.10 a program cannot be tried out
        return None
    finally:
        os.close(descriptor)


def _best_of_touching() -> float:
    """Nanoseconds of CPU time for a fresh page, the best of some rounds."""
    best = float("inf")
    for _ in range(_ROUNDS):
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            pages.madvise(mmap.MADV_NOHUGEPAGE)
            start = ctypes.c_char.from_buffer(pages)
            begin = time.thread_time_ns()
            ctypes.memset(ctypes.addressof(start), 1, len(pages))
            best = min(best, (time.thread_time_ns() - begin) / _PAGES)
            del start  # it keeps the mapping open
    return best
