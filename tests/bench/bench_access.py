"""What sampling accesses costs: decoding samples, and how much slower a process becomes that does nothing but fault.

Run as root: python tests/bench/bench_access.py [REPETITIONS]. It fails when a goal is missed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace

from numaudit.kernel.host import Host
from numaudit.kernel.perf_ring import RECORD_SAMPLE, Records, decode
from numaudit.probes.first_touch import FirstTouch
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import PROBES, Session

SAMPLES = 10_000
"""About what a ring holds."""
PAGES = 8192
LEAST_SAMPLES_PER_SECOND = 200_000
LARGEST_SLOWDOWN = 0.30


def main() -> int:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    os.nice(-19)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", flush=True)
    missed = [_decoding(repetitions), _touching(repetitions)]
    return 1 if any(missed) else 0


def _decoding(repetitions: int) -> bool:
    """From the ring's bytes to sums by cgroup and nodes, by the probe's own path."""
    body = [struct.pack("=IHHQQ", RECORD_SAMPLE, 0, 24, (n % 4000) << 20, 100 + n % 50) for n in range(SAMPLES)]
    ring = b"".join(body)
    probe = FirstTouch(Host())
    watched = SimpleNamespace(ring=_Recorded(ring), node=0)
    try:
        best = min(_cpu_time(lambda: probe._take(watched)) for _ in range(repetitions))  # type: ignore[arg-type]
    finally:
        probe.close()
    rate = SAMPLES / best
    print(f"samples decoded and added up: {rate:,.0f} for each CPU-second, goal {LEAST_SAMPLES_PER_SECOND:,}")
    return rate < LEAST_SAMPLES_PER_SECOND


class _Recorded:
    """A ring that always holds the same."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> Records:
        return decode(self._data)


def _touching(repetitions: int) -> bool:
    """Fresh pages with every probe that runs here, and without; by turns, so that both see the same neighbours."""
    slowdowns, bare_times = [], []
    for _ in range(repetitions):
        bare = min(_cpu_time(_touch) for _ in range(5))
        with Session.open(Host(), cgroups=500, nodes=2, probes=(*PROBES, "first_touch")) as session:
            running = [name for name, one in session.outcomes.items() if not isinstance(one, Refusal)]
            watched = min(_cpu_time(_touch) for _ in range(5))
        slowdowns.append(watched / bare - 1)
        bare_times.append(bare)
    middle = statistics.median(slowdowns)
    print(
        f"a loop of page faults, {1e9 * min(bare_times) / PAGES:.0f} ns for each page, with {', '.join(running)}: "
        f"{middle:+.1%} in the middle of {repetitions} runs ({min(slowdowns):+.1%} to {max(slowdowns):+.1%}), "
        f"goal at most {LARGEST_SLOWDOWN:.0%}"
    )
    return middle > LARGEST_SLOWDOWN


def _touch() -> None:
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages.madvise(mmap.MADV_NOHUGEPAGE)
        start = ctypes.c_char.from_buffer(pages)
        ctypes.memset(ctypes.addressof(start), 1, len(pages))
        del start


def _cpu_time(work: Callable[[], None]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


if __name__ == "__main__":
    sys.exit(main())
