"""Ranks of one container that are bound one by one: what its sums cannot show, its processes do.

The truth is move_pages(2) for memory and each process's own clock for CPU time. Node N has CPU N.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import page_frames
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.report.processes import ProcessReport
from numaudit.report.values import ContainerReport
from numaudit.snapshot import ContainerId
from samples import balancing
from workload import MIB, Cgroup, Worker, cgroup, eventually, worker

pytestmark = pytest.mark.one_kernel

SIZE = 32 * MIB
PYTHON = 16 * MIB
"""The memory of an interpreter, at most."""
RUN = 0.5
"""Seconds of CPU time that make a measurement."""


@contextlib.contextmanager
def container() -> Iterator[Cgroup]:
    """It may use nodes 0 and 1; nothing moves its pages."""
    with balancing("0"), cgroup("numaudit-ranks/server", cpus="0-1", mems="0-1") as group:
        yield group


def measured(group: Cgroup, *ranks: Worker) -> tuple[ContainerReport, ContainerReport, Mapping[int, float]]:
    """Its rows without and with its processes, of the same measurement; CPU seconds of each by their own clocks."""
    observer = Observer.of(Host())
    of = frozenset({ContainerId(group.id)})
    with observer.open_probes((CPU_TIME,)) as session:
        engine = Engine(observer, session, counts_from_load=True)
        engine.tick(numa_maps_of=of, with_processes=True)
        before = {one.pid: one.cpu_seconds() for one in ranks}

        def have_run() -> None:
            assert all(one.cpu_seconds() - before[one.pid] > RUN for one in ranks)

        for one in ranks:
            one.order("touch")
        eventually(have_run)
        for one in ranks:
            one.order("sleep")
        ran = {one.pid: one.cpu_seconds() - before[one.pid] for one in ranks}
        without, with_processes = engine.tick(), engine.tick(10.0, of, with_processes=True)
    return row(without.report.containers, group), row(with_processes.report.containers, group), ran


def row(containers: tuple[ContainerReport, ...], group: Cgroup) -> ContainerReport:
    (found,) = [one for one in containers if one.id == group.id]
    return found


def process(found: ContainerReport, rank: Worker) -> ProcessReport:
    assert found.processes is not None
    (one,) = [one for one in found.processes.items if one.pid == rank.pid]
    assert one.unread == ()
    return one


def bytes_under(one: ProcessReport, policy: str) -> dict[int, int]:
    (mapped,) = [mapped for mapped in one.mappings or () if (mapped.kind, mapped.policy) == ("anon", policy)]
    return dict(mapped.bytes_by_node)


def test_two_ranks_that_are_each_local_expect_no_remote_access() -> None:
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(container())
        ranks = []
        for node in (0, 1):
            ranks.append(stack.enter_context(worker(group, SIZE, policy="bind", nodes=[node], cpus=str(node))))
        without, found, ran = measured(group, *ranks)
        assert without.expected_basis == "container"
        assert without.expected_remote_ratio is not None
        assert 0.3 < without.expected_remote_ratio < 0.7
        assert found.expected_basis == "processes"
        assert found.expected_remote_ratio == pytest.approx(0.0, abs=0.02)
        for node, rank in enumerate(ranks):
            one = process(found, rank)
            assert bytes_under(one, f"bind:{node}") == page_frames.nodes(rank.pid, rank.address, SIZE)
            assert (str(one.main and one.main.cpu_nodes), one.differing) == (str(node), ())
            assert one.cpu_time_source == "affinity"
            assert one.cpu_seconds == {node: pytest.approx(ran[rank.pid], abs=0.1)}
            assert (one.judged_bytes or {})[node] <= SIZE + PYTHON


def test_a_rank_with_memory_on_the_other_node_is_seen_alone() -> None:
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(container())
        local = stack.enter_context(worker(group, SIZE, policy="bind", nodes=[0], cpus="0"))
        remote = stack.enter_context(worker(group, SIZE, policy="bind", nodes=[0], cpus="1"))
        _, found, ran = measured(group, local, remote)
        one = process(found, remote)
        elsewhere, own = SIZE, (one.judged_bytes or {})[1]
        assert own < PYTHON
        assert one.expected_remote_ratio == pytest.approx(elsewhere / (elsewhere + own), abs=0.1)
        assert process(found, local).expected_remote_ratio == pytest.approx(0.0, abs=0.02)
        share = ran[remote.pid] / sum(ran.values())
        assert found.expected_remote_ratio == pytest.approx(share * (one.expected_remote_ratio or 0.0), abs=0.05)


def test_a_thread_without_affinity_is_a_group_of_its_own() -> None:
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(container())
        rank = stack.enter_context(worker(group, SIZE, policy="bind", nodes=[0], threads=3, cpus="0"))
        stray = max(int(one.name) for one in Path(f"/proc/{rank.pid}/task").iterdir())
        os.sched_setaffinity(stray, {0, 1})
        _, found, ran = measured(group, rank)
        one = process(found, rank)
        assert (one.threads, one.main and one.main.threads, str(one.main and one.main.cpu_nodes)) == (3, 2, "0")
        (other,) = one.differing
        assert (other.threads, other.first_thread, str(other.cpu_nodes), str(other.cpus)) == (1, stray, "0-1", "0-1")
        assert sum(one.cpu_seconds.values()) == pytest.approx(ran[rank.pid], abs=0.1)
        assert one.threads_elsewhere == other.last_on.get(1, 0)


def test_each_mapping_has_its_own_policy() -> None:
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(container())
        rank = stack.enter_context(worker(group, SIZE, policy="interleave", nodes=[0, 1], cpus="0"))
        _, found, _ = measured(group, rank)
        one = process(found, rank)
        assert one.policy == "default"
        pages = bytes_under(one, "interleave:0-1")
        assert pages == page_frames.nodes(rank.pid, rank.address, SIZE) == {0: SIZE // 2, 1: SIZE // 2}
        assert 0.2 < (one.expected_remote_ratio or 0.0) < 0.5
