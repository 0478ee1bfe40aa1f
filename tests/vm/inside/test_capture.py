"""A capture of a machine with two nodes: CPU time and allocations between its two readings, beside the work itself."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from numaudit.cli.main import call
from workload import MIB, Worker, cgroup, worker

pytestmark = pytest.mark.devices

SIZE = 8 * MIB


@contextlib.contextmanager
def allocating(asker: Worker) -> Iterator[list[int]]:
    """It allocates SIZE again and again; how many bytes, once the block has ended."""
    allocated, ends = [0], threading.Event()

    def again() -> None:
        while not ends.is_set():
            asker.order("refill")
            allocated[0] += SIZE

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield allocated
    finally:
        ends.set()
        thread.join()


def test_a_capture_tells_where_work_ran_and_where_its_memory_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work runs on node 1 and asks node 0 for memory, which nothing else does."""
    with cgroup("numaudit-lab/asks", cpus="1", mems="0") as group, worker(group, SIZE) as asker:
        before = asker.cpu_seconds()
        with allocating(asker) as allocated:
            assert call(["capture", "--duration", "3s", str(tmp_path / "tree")]) == 0
        used, id_ = asker.cpu_seconds() - before, group.id
    capsys.readouterr()
    assert call(["report", "--root", str(tmp_path / "tree"), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (row,) = [one for one in report["containers"] if one["id"] == id_]
    assert row["cpuTimeSource"] == "affinity"
    ((node, seconds),) = [tuple(one.values()) for one in row["cpuSeconds"]]
    assert node == 1
    assert 0.1 <= seconds <= used + 0.02, "more than it used in all that time, or hardly any"
    rates = report["rates"]
    assert rates["seconds"] >= 3
    grown = rates["numastatBytesPerSecond"]["0"]["other_node"] * rates["seconds"]
    assert SIZE // 2 <= grown <= allocated[0] + SIZE
