"""`numaudit top` on a four-node machine, on a terminal: what it measures while work goes on, and a page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from processes.agent_process import NUMAUDIT
from screens.tmux import terminal
from workload import MIB, Worker, cgroup, worker

pytestmark = pytest.mark.one_kernel
SIZE = 32 * MIB


@pytest.fixture
def remote() -> Iterator[Worker]:
    """A process on node 0 whose memory is on node 2."""
    with cgroup("numaudit-top/remote", cpus="0", mems="2") as group, worker(group, SIZE) as process:
        yield process


def test_remote_memory_is_seen_live_and_whose_it_is(remote: Worker) -> None:
    with terminal(200, 40) as top:  # no long name of another test's cgroup crowds a column out
        top.run(f"{shlex.join(NUMAUDIT)} top --interval 1s --sort remote; echo ended with $?.")
        top.shows("every 1 s", ">/numaudit-top/remote", "EXPECTED")
        remote.order("touch")
        amount = r"(3[2-9]|4\d)\.\dMi"
        before = "(unmanaged +not a Kubernetes container +)?([▁-█ ]+ )?"
        row = re.compile(rf">/numaudit-top/remote +{before}2 +0 +{amount} +(- +)?{amount} +.*100\.0%")
        text = top.sees(lambda text: row.search(text) is not None, "its memory, and its accesses, are remote")
        assert "▓" in next(line for line in text.splitlines() if line.startswith("2  "))
        top.press("Enter")
        text = top.shows("cpuset.mems 2", "cpuset.cpus 0, on node 0", "on nodes other than 0, by process")
        assert re.search(rf"(?m)^ *{remote.pid} ", text)
        top.press("q")
        top.shows("q quit")
        top.press("q")
        top.shows("ended with 0.")
