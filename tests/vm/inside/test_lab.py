"""The policy of a process of the guest, as the kernel prints it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.report import cells
from workload import MIB, Worker, cgroup, worker

POLICIES: dict[str, tuple[str | None, tuple[int, ...], str]] = {
    "plain": (None, (), "default"),
    "bound": ("bind", (1,), "bind:1"),
    "preferring": ("preferred", (2,), "prefer:2"),
    "preferring-many": ("preferred-many", (0, 2), "prefer (many):0,2"),
    "interleaved": ("interleave", (0, 1, 2, 3), "interleave:0-3"),
    "weighted": ("weighted-interleave", (0, 2), "weighted interleave:0,2"),
    "local": ("local", (), "local"),
}
"""Name -> policy and nodes of the worker, and the column POLICY."""


@pytest.mark.one_kernel
def test_the_policy_of_each_process_is_what_the_kernel_prints() -> None:
    """Weighted interleave, which Linux has since 6.9, with its weights; the pages are spread by them."""
    weight = Path("/sys/kernel/mm/mempolicy/weighted_interleave/node0")
    weight.write_text("3")
    try:
        with ExitStack() as stack:
            workers: dict[str, Worker] = {}
            for name, (policy, nodes, _) in POLICIES.items():
                group = stack.enter_context(cgroup(f"numaudit-lab/{name}", cpus="0"))
                workers[name] = stack.enter_context(worker(group, 4 * MIB, policy=policy, nodes=nodes))
            spread = workers["weighted"].bytes_by_node()
            assert spread == {0: 3 * MIB, 2: MIB}
            printed = {name: one.policy() for name, one in workers.items()}
            report = Engine(Observer.of(Host())).tick(numa_maps_budget=60).report
        shown = {one.path: cells.policy(one) for one in report.containers}
    finally:
        weight.write_text("0")
    assert printed == {name: said for name, (_, _, said) in POLICIES.items()}
    weighted = f"{printed['weighted']} 3:1"
    assert {name: shown[f"/numaudit-lab/{name}"] for name in POLICIES} == {**printed, "weighted": weighted}
