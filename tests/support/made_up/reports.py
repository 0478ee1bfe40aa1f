"""Reports for tests of the outputs: from a snapshot of a made-up two-node host."""

from __future__ import annotations

from numaudit.exporters.exposition import Exposition, evaluate_containers, evaluate_tick
from numaudit.exporters.facts import ExportedTick, Feature, Live, OtlpCounts
from numaudit.exporters.series import SeriesTracker
from numaudit.report.build import build
from numaudit.report.values import Report
from numaudit.snapshot import Allowed, CollectorOutcome, Container, ContainerId, NodeMemory, Resident, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MACHINE = Machine(
    (
        Node(0, CpuSet.parse("0-3"), 64 << 30, distances={0: 10, 1: 20}),
        Node(1, CpuSet.parse("4-7"), 64 << 30, distances={0: 20, 1: 10}),
    )
)
STARTED, BOOTED, NOW = 1_700_000_500.0, 1_700_000_000.5, 1_700_001_000.25


def container(id_: int = 7, pod: str | None = "db-0", name: str | None = "db", namespace: str = "prod") -> Container:
    """A Guaranteed container; without a pod, a plain cgroup."""
    if pod is None:
        return Container(ContainerId(id_), f"/system.slice/unit-{id_}.service", "service")
    return Container(
        ContainerId(id_), f"/kubepods.slice/{pod}/{name}-{id_}.scope", "container", qos="Guaranteed",
        runtime="containerd", container_id=f"{id_:064x}", pod_uid=f"uid-of-{pod}", namespace=namespace, pod=pod,
        name=name,
    )  # fmt: skip


def report(*containers: Container, anon: dict[int, int] | None = None, taken_at: float = NOW) -> Report:
    """Each container is allowed node 0 and holds `anon` (node -> bytes) and 4 KiB of page cache."""
    held = Resident(anon=anon or {0: 4096, 1: 8192}, shmem={0: 0, 1: 0}, file={0: 4096, 1: 0})
    snapshot = Snapshot(
        taken_at=taken_at,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=containers,
        allowed={one.id: Allowed(NodeSet.parse("0"), CpuSet.parse("0-1")) for one in containers},
        residency={one.id: held for one in containers},
        nodes=tuple(
            NodeMemory(node.id, 64 << 30, 32 << 30, Resident(anon={node.id: 1 << 20}), numastat={"numa_hit": 40960})
            for node in MACHINE.nodes
        ),
        unattributed=Resident(anon={0: 100, 1: 200}),
        cpu_time={one.id: {0: one.id + 0.5, 1: 0.25} for one in containers},
        page_alloc={one.id: {(0, 0): 8192, (0, 1): 4096, (1, None): 4096} for one in containers},
        outcomes=(
            CollectorOutcome("residency", "ok", seconds=0.25),
            CollectorOutcome("allowed", "unavailable", "no cpuset"),
        ),
    )
    return build(snapshot)


def tick(of: Report) -> ExportedTick:
    return ExportedTick(
        of, "1.2.3", "3.11.7", STARTED, BOOTED, of.containers, (Feature("pmu", False, 'no "PMU"\nhere\\'),)
    )


def exposition(of: Report) -> Exposition:
    """A first tick's numbers."""
    series = SeriesTracker().update(of.containers, of.taken_at, (0,))
    return evaluate_tick(tick(of), evaluate_containers(series))


LIVE = Live(
    snapshot_age=3.5, ticks=12, failed_ticks=0, missed_ticks=1, tick_seconds=0.125, tick_cpu_seconds=0.0625,
    cpu_seconds=1.5, resident_bytes=30 << 20, virtual_bytes=90 << 20, open_files=12, most_files=1024,
    process_started_at=STARTED, threads=4,
    requests={("/metrics", "200"): 5, ("other", "404"): 1},
    connections=2, otlp=OtlpCounts({"delivered": 3, "failed": 1}, {"delivered": 300, "rejected": 0, "failed": 9}),
)  # fmt: skip
