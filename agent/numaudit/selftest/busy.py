"""CPU time while one of the two workers is busy: as the probe counts it, and by the cgroup's own account."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct

from numaudit.errors import Unavailable
from numaudit.kernel.host import read_text
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.selftest.near_and_far import Bench, Worker

BUSY = 0.4
"""Seconds of CPU time to use, by the cgroup's own account."""
_WITHIN = 60.0
"""Seconds on the clock after which a machine that has not given them is too busy."""
_SETTLED = 0.1
_NANOSECONDS = 1_000_000_000


class Busy(Struct, frozen=True):
    """CPU time while one of them worked."""

    seconds: Mapping[str, Mapping[int, float]]
    """As the probe counted it: name of the worker -> node -> seconds."""
    own_account: float
    """Of the busy one, by its cpu.stat."""
    uncounted: int
    """Events that the probe missed, or had no place for."""

    @property
    def is_enough(self) -> bool:
        return self.own_account >= BUSY


def measure(bench: Bench, busy: Worker) -> Busy:
    """Have one worker use its CPU for a while. Raises OSError, Unavailable."""
    before, own_before = bench.session.read(CPU_TIME), cpu_seconds(busy)
    busy.work.order("touch")
    deadline = time.monotonic() + _WITHIN
    while cpu_seconds(busy) - own_before < BUSY and time.monotonic() < deadline:
        time.sleep(0.02)
    busy.work.order("rest")
    own_account = settle(busy) - own_before
    added = bench.session.read(CPU_TIME).since(before)
    rows = {worker.name: added.by_node.get(worker.group.id, {}) for worker in bench.workers}
    seconds = {name: {node: ns / _NANOSECONDS for node, ns in row.items()} for name, row in rows.items()}
    return Busy(seconds, own_account, added.all_lost)


def settle(worker: Worker) -> float:
    """Its account once it grows no more: a thread finishes its round before it goes idle."""
    last = -1.0
    while (now := cpu_seconds(worker)) != last:
        last = now
        time.sleep(_SETTLED)
    return now


def cpu_seconds(worker: Worker) -> float:
    """Seconds of CPU time of the cgroup by the kernel's scheduler. Raises OSError, Unavailable."""
    words = read_text(worker.group.path / "cpu.stat").split()
    if "usage_usec" not in words:
        raise Unavailable(
            f"{worker.group.path}/cpu.stat does not show the CPU time, so there is nothing to compare with"
        )
    return int(words[words.index("usage_usec") + 1]) / 1_000_000
