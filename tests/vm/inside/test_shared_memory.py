"""Shared memory that another container pays for, and which process has memory elsewhere: the truth is page frames."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import page_frames
from numaudit.cli.main import call
from numaudit.cli.observe.report_work import observe_whole
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report.values import ContainerReport, Report
from samples import balancing
from workload import MIB, Cgroup, Worker, cgroup, eventually, worker

SIZE = 32 * MIB


@pytest.fixture(scope="module")
def observer() -> Observer:
    return Observer.of(Host())


@pytest.fixture(scope="module")
def tmpfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Memory that is mounted where no name tells that it is."""
    folder = tmp_path_factory.mktemp("cache")
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@dataclass(frozen=True)
class Sharing:
    """One used 32 MiB first, on node 1; another and its second process map all of it, from node 0.

    Nothing moves them: NUMA balancing would bring them to the user.
    """

    owner: Cgroup
    first: Worker
    user: Cgroup
    second: Worker
    third: Worker


@pytest.fixture(scope="module")
def sharing(tmpfs: Path) -> Iterator[Sharing]:
    with (
        balancing("0"),
        cgroup("numaudit-shared/owner", cpus="1", mems="1") as owner,
        cgroup("numaudit-shared/user", cpus="0", mems="0") as user,
        worker(owner, SIZE, "shmem", file=tmpfs / "segment") as first,
        worker(user, SIZE, "shmem", file=tmpfs / "segment") as second,
        worker(user, SIZE, "shmem", file=tmpfs / "segment") as third,
    ):
        yield Sharing(owner, first, user, second, third)


def found(report: Report, group: str) -> ContainerReport:
    (one,) = [one for one in report.containers if one.path == f"/numaudit-shared/{group}"]
    return one


def of_others(container: ContainerReport) -> dict[int, int]:
    assert container.mappings is not None
    assert container.mappings.shared_of_others is not None
    return dict(container.mappings.shared_of_others)


def shmem(container: ContainerReport) -> dict[int, int]:
    return {row.numa_node: row.shmem or 0 for row in container.resident or () if row.shmem}


def test_shared_memory_of_another_is_seen_once_with_its_user_and_only_there(
    observer: Observer, sharing: Sharing
) -> None:
    for one in (sharing.second, sharing.third):
        assert page_frames.nodes(one.pid, one.address, SIZE) == {1: SIZE}
        assert page_frames.charged(one.pid, one.address, SIZE) == {sharing.owner.id: SIZE}

    def seen() -> Report:
        report = observe_whole(observer, 20.0, None).report
        assert shmem(found(report, "owner")) == {1: SIZE}
        return report

    report = eventually(seen)
    owner, user = found(report, "owner"), found(report, "user")
    assert (of_others(owner), of_others(user)) == ({}, {1: SIZE})
    assert shmem(user) == {}
    assert user.mappings is not None
    assert [(one.kind, dict(one.bytes_by_node), one.charged_to) for one in user.mappings.shared or ()] == [
        ("shmem", {1: SIZE}, sharing.owner.id)
    ]
    assert user.verdict is not None
    (cause,) = user.verdict.causes
    assert cause.cause == "shared-memory"
    assert "at least 32Mi" in cause.evidence
    assert "segment, charged to /numaudit-shared/owner" in cause.evidence


def test_the_accounts_of_the_nodes_count_shared_memory_once(observer: Observer, sharing: Sharing) -> None:
    assert sharing

    def accounts_agree() -> None:
        report = observe_whole(observer, 20.0, None).report
        for row in report.residual:
            assert abs(row.residual_bytes) <= max(0.02 * (report.nodes[row.numa_node].total_bytes or 0), 4 * MIB), row

    eventually(accounts_agree)


def test_shared_memory_of_another_counts_in_what_is_expected(observer: Observer, sharing: Sharing) -> None:
    sharing.second.order("touch")
    try:
        user = found(observe_whole(observer, 20.0, 3.0).report, "user")
    finally:
        sharing.second.order("sleep")
    own = sum((row.anon or 0) + (row.shmem or 0) + (row.hugetlb or 0) for row in user.resident or ())
    assert user.remote_bytes == 0
    assert user.expected_remote_ratio == pytest.approx(SIZE / (own + SIZE), abs=0.01)


def test_the_process_with_memory_elsewhere_is_named_with_its_kind_and_policy(
    observer: Observer, capsys: pytest.CaptureFixture[str]
) -> None:
    before = time.time()
    with (
        cgroup("numaudit-shared/bound", cpus="0", mems="0-1") as group,
        worker(group, SIZE, policy="bind", nodes=[1]) as running,
        worker(group, SIZE),
    ):
        after = time.time()
        assert page_frames.nodes(running.pid, running.address, SIZE) == {1: SIZE}
        bound = found(observe_whole(observer, 20.0, None).report, "bound")
        assert call(["report", "/numaudit-shared/bound"]) == 0
        table = capsys.readouterr().out
        assert call(["report", "/numaudit-shared/bound", "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        name = Path(f"/proc/{running.pid}/comm").read_text().rstrip("\n")
    assert bound.elsewhere
    worst = bound.elsewhere[0]
    assert (worst.pid, worst.process, worst.kind, worst.policy, worst.file) == (
        running.pid, name, "anon", "bind:1", None,
    )  # fmt: skip
    assert dict(worst.bytes_by_node) == {1: SIZE}
    assert worst.started_at is not None
    assert before - 30 < worst.started_at < after + 30
    assert document["containers"][0]["elsewhere"][0]["bytes"] == {"1": SIZE}
    assert f"{running.pid}  {name}" in table
    assert "anon  bind:1" in table
