"""A node with a CPU and no memory: it has no counters of memory, and no cgroup has any there."""

from __future__ import annotations

import json

import pytest

from numaudit.cli.main import call
from numaudit.doctor.checks import examine
from numaudit.engine.observer import Observer
from numaudit.kernel.cgroup import Reader, find_hierarchies
from numaudit.kernel.host import Host
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from numaudit.report.build import build
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.topology.nodeset import NodeSet
from workload import MIB, cgroup, eventually, worker

pytestmark = pytest.mark.bare


def _bare(observer: Observer) -> int:
    machine = observer.machine.read()
    (bare,) = machine.online - machine.with_memory
    assert machine.by_id[bare].cpus
    return bare


def test_no_figure_has_the_node() -> None:
    observer = Observer.of(Host())
    reader = Reader(find_hierarchies(Host()), huge_page_sizes=(1 << 30,))
    bare = _bare(observer)
    cpus = observer.machine.read().by_id[bare].cpus
    with cgroup("numaudit-lab/homeless", cpus=str(cpus)) as group, worker(group, 16 * MIB):

        def equal() -> Snapshot:
            snapshot = observer.observe()
            found = snapshot.residency[ContainerId(group.id)]
            assert found == reader.resident("/numaudit-lab/homeless")
            assert sum((found.anon or {}).values()) >= 16 * MIB
            return snapshot

        snapshot = eventually(equal)
        found = snapshot.residency[ContainerId(group.id)]
        for by_node in (found.anon, found.file, found.kernel):
            assert by_node is not None
            assert NodeSet.from_ids(by_node) == snapshot.machine.with_memory
        report = build(snapshot)
        (node,) = [one for one in report.nodes if one.numa_node == bare]
        assert (node.total_bytes, node.memory_tier, node.memory_speed) == (0, None, None)
        (row,) = [one for one in report.containers if one.id == group.id]
        assert row.allowed_cpu_nodes == NodeSet.of(bare)
        assert row.remote_bytes == row.judged_bytes


def test_topology_and_doctor_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["topology", "-o", "json"]) == 0
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    (bare,) = [one for one in nodes if not one["memoryBytes"]]
    assert (bare["memoryBytes"], bare["memoryTier"], bare["demotionTargets"]) == (0, None, [])
    assert bare["cpus"]
    none = Session.refused((), ProbeRefusal(Reason.NOT_LIVE, ""))  # to try probes takes long
    details = {one.name: one.detail for one in examine(Host(), none)}
    assert details["numa nodes"] == "3 online (0-2), 2 with memory, 3 with CPUs"
