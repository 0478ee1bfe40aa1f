"""What `numaudit run --report` says of its command."""

from __future__ import annotations

from typing import cast

from numaudit.containermanager.memory.state import Block
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.intent.node import Promise
from numaudit.run.watch import CommandWatch
from numaudit.snapshot import Allowed, Container, ContainerId, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

JOB = ContainerId(7)
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))


class Drifted:
    """An observer of a command that somebody sent to node 1."""

    def observe(self, **_: object) -> Snapshot:
        return Snapshot(
            taken_at=1000.0,
            machine=MACHINE,
            cgroup_mode="v2",
            containers=(Container(JOB, "/numaudit/run-1-2", "group"),),
            allowed={JOB: Allowed(NodeSet.of(1), CpuSet.parse("0-3"))},
            residency={JOB: Resident(anon={0: 0, 1: 1 << 30}, shmem={})},
        )


def test_a_command_is_started_again_where_a_pod_would_be_deleted() -> None:
    promise = Promise((Block.of("memory", 1 << 30, NodeSet.of(0)),), CpuSet())
    watch = CommandWatch(Engine(cast("Observer", Drifted())), JOB, "job", promise)
    watch.tick()
    report = watch.report()
    assert report is not None
    (one,) = report.containers
    assert one.verdict is not None and one.verdict.remedy is not None
    assert one.verdict.name == "drifted"
    assert one.verdict.remedy.endswith("or end the command and start it again.")
