"""The report of a four-node machine: where bytes are, from where they were given, and that the accounts agree."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.cli.observe.report_work import observe_whole
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.values import ContainerReport, Report
from workload import MIB, cgroup, worker

SIZE = 32 * MIB
OVERHEAD = 8 * MIB
"""The worker's interpreter, beside its `SIZE` bytes."""


@pytest.fixture(scope="module")
def observer() -> Observer:
    return Observer.of(Host())


@pytest.fixture(scope="module")
def watched(observer: Observer) -> Iterator[tuple[Report, float]]:
    """One report of three workloads on CPU 0, which is on node 0, while they use their memory; its seconds."""
    with (
        cgroup("numaudit-report/aligned", cpus="0", mems="0") as aligned,
        cgroup("numaudit-report/misaligned", cpus="0", mems="1") as misaligned,
        cgroup("numaudit-report/split", cpus="0", mems="0-1") as split,
        worker(aligned, SIZE) as first,
        worker(misaligned, SIZE) as second,
        worker(split, SIZE, policy="interleave", nodes=[0, 1]) as third,
    ):
        for one in (first, second, third):
            one.order("touch")
        begin = time.monotonic()
        report = observe_whole(observer, 5.0, 3.0).report
        yield report, time.monotonic() - begin


@pytest.fixture(scope="module")
def measured(watched: tuple[Report, float]) -> Report:
    return watched[0]


def found(report: Report, name: str) -> ContainerReport:
    (one,) = [one for one in report.containers if one.path == f"/numaudit-report/{name}"]
    return one


def distances_from_node_0() -> list[int]:
    return [int(one) for one in Path("/sys/devices/system/node/node0/distance").read_text().split()]


def anon(container: ContainerReport) -> dict[int, int]:
    return {row.numa_node: row.anon or 0 for row in container.resident or ()}


def test_an_aligned_workload_has_no_remote_byte_and_none_is_expected(measured: Report) -> None:
    one = found(measured, "aligned")
    assert SIZE <= anon(one)[0] < SIZE + OVERHEAD
    assert one.remote_bytes == 0
    assert one.expected_remote_ratio == 0
    assert one.distance_ratio == 1


def test_a_misaligned_workload_is_remote_with_every_byte(measured: Report) -> None:
    one = found(measured, "misaligned")
    assert SIZE <= anon(one)[1] < SIZE + OVERHEAD
    assert one.remote_bytes == one.judged_bytes
    assert one.expected_remote_ratio == 1
    assert one.distance_ratio == pytest.approx(distances_from_node_0()[1] / 10)
    assert one.verdict is not None
    assert [cause.cause for cause in one.verdict.causes] == ["cpuset"]


def test_a_split_workload_is_expected_remote_by_the_share_of_its_bytes_elsewhere(measured: Report) -> None:
    one = found(measured, "split")
    by_node = anon(one)
    assert by_node[1] == pytest.approx(SIZE / 2, abs=MIB)
    remote = by_node[1] / sum(by_node.values())
    assert one.expected_remote_ratio == pytest.approx(remote, abs=0.02)
    assert one.distance_ratio == pytest.approx((1 - remote) + remote * distances_from_node_0()[1] / 10, abs=0.05)
    assert one.verdict is not None
    assert "mempolicy" in [cause.cause for cause in one.verdict.causes]


def test_three_workloads_on_one_cpu_share_its_time(watched: tuple[Report, float]) -> None:
    measured, most = watched
    seconds = [sum(row.seconds for row in found(measured, name).cpu_seconds or ()) for name in
               ("aligned", "misaligned", "split")]  # fmt: skip
    assert all(one > 0 for one in seconds)
    assert sum(seconds) <= most
