"""NUMA hint faults while both workers use their memory: as the probe counts them, and how many the kernel counts.

The kernel samples a new process soon, and an old one whenever it likes (Linux 6.12 leaves out what it finds not worth
it). So the memory that is sampled here is that of new processes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack

from msgspec import Struct

from numaudit.counted import HintFault
from numaudit.kernel.memory.numa_balancing import read_vmstat
from numaudit.probes.counters.reference_workload import reference_workload
from numaudit.probes.hint_faults import HINT_FAULTS, HintFaultCounts
from numaudit.selftest import busy
from numaudit.selftest.near_and_far import Bench

LEAST = 1000
"""Samples of each worker."""
_THREADS = 2
_CPU_SECONDS = 20.0
"""For each worker: NUMA balancing scans a process by the CPU time that it uses."""
_WITHIN = 60.0
"""Seconds on the clock after which a machine that has not given that CPU time is too busy."""


class Samples(Struct, frozen=True):
    """Counts until each worker had enough, or the time was up."""

    faults: Mapping[str, Mapping[HintFault, int]]
    """By the worker's name."""
    has_skipped: bool
    """The kernel left out scans because cpuset.mems is one node."""
    of_kernel: int
    """Hint faults of the whole machine by the kernel's own count."""
    of_probe: int
    """Hint faults of the whole machine by the probe, those included that it knows it did not count."""

    @property
    def is_enough(self) -> bool:
        return all(self.count(worker) >= LEAST for worker in self.faults)

    def count(self, worker: str) -> int:
        return sum(self.faults[worker].values())

    def remote_share(self, worker: str) -> float | None:
        """Of the samples that were remote; None = there are none."""
        remote = sum(count for fault, count in self.faults[worker].items() if fault.is_remote)
        return remote / self.count(worker) if self.count(worker) else None

    @property
    def went_unseen(self) -> bool:
        """True when the kernel counted many samples that never reached the probe."""
        return self.of_kernel > 2 * self.of_probe + LEAST


def sample(bench: Bench) -> Samples:
    """Have both workers' successors use their memory. Raises OSError, NumauditError."""
    with ExitStack() as stack:
        works = [
            stack.enter_context(reference_workload(worker.work.size, _THREADS, worker.group.path))
            for worker in bench.workers
        ]
        # From here on: a Python that starts uses pages of libraries, which are anywhere.
        before, kernel_before = bench.session.read(HINT_FAULTS), _kernel_count(bench)
        used_before = [busy.cpu_seconds(worker) for worker in bench.workers]
        for work in works:
            work.order("touch")
        deadline = time.monotonic() + _WITHIN
        while True:
            kernel_count = _kernel_count(bench)  # first, so that the probe has seen what is in it
            found = _samples(bench, bench.session.read(HINT_FAULTS).since(before), kernel_count - kernel_before)
            used = min(busy.cpu_seconds(one) - was for one, was in zip(bench.workers, used_before, strict=True))
            is_known = found.is_enough or found.has_skipped or found.went_unseen
            if is_known or used > _CPU_SECONDS or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


def _samples(bench: Bench, added: HintFaultCounts, of_kernel: int) -> Samples:
    return Samples(
        {worker.name: added.faults.get(worker.group.id, {}) for worker in bench.workers},
        any(added.skipped.get(worker.group.id) for worker in bench.workers),
        of_kernel,
        added.events + added.lost.get("busy", 0),
    )


def _kernel_count(bench: Bench) -> int:
    return read_vmstat(bench.host).get("numa_hint_faults", 0)
