"""Memory that each process of one container used from another node, as hint faults saw it: the work itself knows."""

from __future__ import annotations

import time

import pytest

from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.kinds import KINDS
from numaudit.probes.session import Session
from numaudit.snapshot import ContainerId
from page_truth import PATIENCE, SLACK, Part, Plan, Process, Thread, used_remotely, working
from workload import MIB

pytestmark = pytest.mark.one_kernel
TRIES = 3
"""New processes, for the kernel may leave memory out of a pass."""
SIZES = ((16, 0), (4, 12), (2, 20))
"""MiB on its own node and on the next, of each process."""
TWICE = [Thread([0], [(0, 1), (1, 1)])] * 2
RANKS = Plan(
    [
        Process([Part(near), Part(far, (1,))], TWICE) if far else Process([Part(near)], [Thread([0], [(0, 1)])] * 2)
        for near, far in SIZES
    ]
)


def _is_so(told: int | None, far: int) -> bool:
    """Most of it, and no more than that."""
    return 0.6 * far * MIB <= (told or 0) <= far * MIB + SLACK


def test_what_each_process_uses_from_afar_is_its_own() -> None:
    said: list[list[int | None]] = []
    observer = Observer.of(Host())
    with Session.open(Host(), KINDS, cgroups=100, nodes=16) as session:
        for _ in range(TRIES):
            with working(RANKS) as (group, processes):
                engine, of = Engine(observer, session), frozenset({ContainerId(group.id)})
                truth = [used_remotely(one, each) for one, each in zip(RANKS.processes, processes, strict=True)]
                assert truth == [far * MIB for _, far in SIZES]
                until = time.monotonic() + PATIENCE
                while time.monotonic() < until:
                    time.sleep(0.5)
                    report = engine.tick(10.0, of, with_processes=True).report
                    (row,) = [one for one in report.containers if one.id == group.id]
                    assert row.processes is not None
                    by_pid = {one.pid: one.used_remotely_bytes for one in row.processes.items}
                    said.append([by_pid[one.pid] for one in processes])
                    if any(said[-1]) and all(_is_so(one, far) for one, (_, far) in zip(said[-1], SIZES, strict=True)):
                        return
    pytest.fail(f"the processes used {SIZES} MiB of their own and of the next node; the last ticks say {said[-5:]}")
