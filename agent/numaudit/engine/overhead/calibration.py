"""Cost of one event of each probe on this host in nanoseconds, measured where this kernel lets us, else assumed.

Measured means the kernel's own account of the programs' run time (CAP_SYS_ADMIN), or the trial that a probe brings.
At start the programs are tried out on purpose, with all they need in the CPU's caches; while the agent runs, real
events of some ticks take the place of that.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct, field

from numaudit.counted import Cost
from numaudit.engine.overhead.budget import Load
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.probes.bpf_probe import LEAST_EVENTS
from numaudit.probes.probe import ProbeKind
from numaudit.probes.session import Session

TICKS_BETWEEN = 20
"""In one tick of this many the kernel keeps account, which costs some 60 ns for each event."""


def assumed(kind: ProbeKind[Any]) -> Cost:
    return Cost(kind.ns_per_event, "assumed")


def calibrate(session: Session) -> dict[str, Cost]:
    """By the probe's name, of those whose cost can be measured at once; takes some 60 ms. Raises ProbeRefusal."""
    measured = {name: probe.measure_cost() for name, probe in session.running().items()}
    return {name: Cost(ns, "measured") for name, ns in measured.items() if ns is not None}


class RunTimeSampler(Struct):
    """Lets the kernel keep account of the programs' run time from one tick to the next, now and then."""

    session: Session
    _until_next: int = 0
    _descriptor: int | None = None
    _before: Mapping[str, RunTime] = field(default_factory=dict)

    def after_tick(self, loads: Collection[Load]) -> dict[str, Cost]:
        """Cost of the events since the previous tick, of each probe that had enough; usually of none.

        Raises OSError when the kernel does not answer about one of the programs.
        """
        costs = {}
        if self._descriptor is not None:
            spent = {name: now - self._before[name] for name, now in self._read().items() if name in self._before}
            self.close()
            costs = {
                load.probe: Cost(spent[load.probe].nanoseconds / load.events, "measured")
                for load in loads
                if load.probe in spent and load.events >= LEAST_EVENTS
            }
        elif not self._until_next:
            self._until_next = TICKS_BETWEEN
            with suppress(OSError):  # only for CAP_SYS_ADMIN, and only since Linux 5.8
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
        found = {name: probe.run_time() for name, probe in self.session.running().items()}
        return {name: spent for name, spent in found.items() if spent is not None}
