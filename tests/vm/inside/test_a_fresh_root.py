"""CPU time where the root cgroup has never handed a controller down, as on a host without systemd.

Every other test hands controllers down, and the kernel does not forget it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME, CpuTime
from numaudit.probes.session import Session
from workload import CGROUPS, MIB, Cgroup, Worker, eventually, remove_cgroup, worker

pytestmark = pytest.mark.fresh_root
SPUN = 0.4
"""Seconds of CPU time that each spinner takes at least."""


@pytest.fixture
def fresh_groups() -> Iterator[list[Cgroup]]:
    """Two cgroups without any controller."""
    handed_down = (CGROUPS / "cgroup.subtree_control").read_text().split()
    assert not handed_down, f"another test ran before this one in this guest: it handed down {handed_down}"
    groups = [Cgroup(CGROUPS / name) for name in ("fresh-one", "fresh-other")]
    for group in groups:
        group.path.mkdir()
    yield groups
    for group in groups:
        remove_cgroup(group)


def test_two_spinners_on_one_cpu_have_half_of_it_each(fresh_groups: list[Cgroup]) -> None:
    """The truth is each process's own clock."""
    with ExitStack() as stack:
        session = stack.enter_context(Session.open(Host(), [CPU_TIME], cgroups=100, nodes=16))
        workers = [stack.enter_context(worker(group, MIB)) for group in fresh_groups]
        for one in workers:
            os.sched_setaffinity(one.pid, {1})
            one.order("spin")
        outside, first, inside = _clocks(workers), session.read(CPU_TIME), _clocks(workers)

        def have_spun() -> None:
            assert all(now - then > SPUN for now, then in zip(_clocks(workers), inside, strict=True))

        eventually(have_spun)
        inside_end, second, outside_end = _clocks(workers), session.read(CPU_TIME), _clocks(workers)
        probe = session.probe(CPU_TIME)
    added = second.since(first).by_node
    for number, group in enumerate(fresh_groups):
        counted = added.get(group.id, {})
        assert set(counted) <= {1}
        least, most = inside_end[number] - inside[number], outside_end[number] - outside[number]
        assert least * 0.9 < sum(counted.values()) / 1e9 < most * 1.1
    assert isinstance(probe, CpuTime)
    assert probe.hook == "sched_switch"


def _clocks(workers: list[Worker]) -> list[float]:
    """CPU seconds of each process by its own clock."""
    return [one.cpu_seconds() for one in workers]
