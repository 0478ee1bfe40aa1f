"""Cgroups that come and go faster than ticks: what they used is still counted, by the kernel's own account of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.session import ProbeReadings
from numaudit.report.build import build
from numaudit.report.counters import Counters
from workload import cgroup

CGROUPS, TICKS = 100, 2
CHURN = f"""
import os, sys, time
parent = sys.argv[1]
for number in range({CGROUPS}):
    group = f"{{parent}}/short-{{number}}"
    os.mkdir(group)
    child = os.fork()
    if child == 0:
        with open(f"{{group}}/cgroup.procs", "w") as procs:
            procs.write("0")
        pages, end = bytearray(1 << 20), time.process_time() + 0.01
        while time.process_time() < end:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    while True:
        try:
            os.rmdir(group)
            break
        except OSError:
            time.sleep(0.001)
"""


def _seconds(counters: Counters) -> float:
    return sum(on.seconds for on in counters.cpu_seconds or ())


def _bytes(counters: Counters) -> int:
    return sum(pair.bytes for pair in counters.allocated or ())


def test_cgroups_that_live_between_two_ticks_are_counted_for_the_host() -> None:
    observer = Observer.of(Host())
    with observer.open_probes([CPU_TIME, PAGE_ALLOC]) as session, cgroup("numaudit-lab/churn") as parent:
        observer.observe(readings=ProbeReadings(session))
        for _ in range(TICKS):
            subprocess.run([sys.executable, "-I", "-S", "-c", CHURN, str(parent.path)], check=True)
            report = build(observer.observe(readings=ProbeReadings(session)))
        words = parent.read("cpu.stat").split()
        used = int(words[words.index("usage_usec") + 1]) / 1e6
        assert report.ended is not None
        assert report.ended.unseen is not None
        assert all(account.lost.get("map-full", 0) == 0 for account in report.probes)
        assert _seconds(report.ended.seen) == 0
        # Not closer: where the hypervisor takes a CPU away, the kernel's own account leaves that time out.
        assert _seconds(report.ended.unseen) == pytest.approx(used, rel=0.05)
        assert TICKS * CGROUPS << 20 <= _bytes(report.ended.unseen) < TICKS * CGROUPS << 22
