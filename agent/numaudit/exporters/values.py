"""How a row of the catalogue finds its label values and numbers. What is not known gives nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import compress
from operator import attrgetter, not_
from typing import Literal

from numaudit.exporters.facts import Live, Tick
from numaudit.exporters.metric import Columns, Values
from numaudit.report.values import ContainerReport, NodeBytes
from numaudit.snapshot import RESIDENT_TYPES, OverheadOfProbe
from numaudit.topology.nodeset import NodeSet

_ONE = (1,)


def info(container: ContainerReport) -> Values:
    # Spelled out: this runs for every container in every tick.
    uid, id_ = container.pod_uid or "", container.container_id or ""
    return Columns(((uid, id_, container.qos or "", container.runtime or ""),), _ONE)


@lru_cache(maxsize=4096)
def _each_node(nodes: NodeSet | None, resource: str) -> tuple[tuple[tuple[str, str], int], ...]:
    return () if nodes is None else tuple(((str(node), resource), 1) for node in nodes)


def intended_nodes(container: ContainerReport) -> Values:
    promise = container.intended
    if promise is None:
        return ()
    memory, cpu = _each_node(promise.memory_nodes, "memory"), _each_node(promise.cpu_nodes, "cpu")
    return (*memory, *cpu, *_each_node(promise.device_nodes, "device"))


def intended_bytes(container: ContainerReport) -> Values:
    promise = container.intended
    return [] if promise is None else [((kind,), size) for kind, size in (promise.bytes or {}).items()]


def allowed_nodes(container: ContainerReport) -> Values:
    return _allowed(container.allowed_memory_nodes, container.allowed_cpu_nodes)


@lru_cache(maxsize=4096)
def _allowed(memory: NodeSet | None, cpu: NodeSet | None) -> Columns:
    """Few cpusets are in use, and each by many containers."""
    points = _each_node(memory, "memory") + _each_node(cpu, "cpu")
    return Columns(tuple([labels for labels, _ in points]), tuple([number for _, number in points]))


def verdict(container: ContainerReport) -> Values:
    return () if container.verdict is None else Columns(((container.verdict.name,),), _ONE)


def by_type(nodes: Iterable[NodeBytes]) -> Columns:
    nodes = tuple(nodes)
    sizes = [size for node in nodes for size in _all_types(node)]
    labels = _type_labels(tuple([node.numa_node for node in nodes]), tuple([size is None for size in sizes]))
    return Columns(labels, tuple([size for size in sizes if size is not None]))


_all_types = attrgetter(*RESIDENT_TYPES)


@lru_cache(maxsize=1024)
def _type_labels(nodes: tuple[int, ...], unknown: tuple[bool, ...]) -> tuple[tuple[str, str], ...]:
    """Node and type, without those that are not known. Most containers have the same."""
    labels = [(str(node), kind) for node in nodes for kind in RESIDENT_TYPES]
    return tuple(compress(labels, map(not_, unknown)))


def allocated(container: ContainerReport) -> Values:
    for pair in container.allocated or ():
        if pair.bytes:
            node = "unknown" if pair.numa_node is None else str(pair.numa_node)
            yield (str(pair.cpu_numa_node), node), pair.bytes


def remote_ratios(container: ContainerReport) -> Values:
    # Hint faults see only what NUMA balancing scans, and first touches one use of each page: no share of all accesses.
    return [
        ((access.source,), access.remote_ratio)
        for access in container.accesses
        if access.remote_ratio is not None and access.source not in ("hint_faults", "first_touch")
    ]


def access_samples(container: ContainerReport) -> Values:
    counts = {"local": 0, "remote": 0}
    for pair in container.first_touches or ():
        if pair.numa_node is not None:
            counts["local" if pair.numa_node == pair.cpu_numa_node else "remote"] += pair.samples
    return [((locality, "first_touch"), count) for locality, count in counts.items() if count]


def hint_faults(container: ContainerReport) -> Values:
    sums: dict[tuple[str, ...], int] = {}
    for kind in container.hint_faults or ():
        labels = (str(kind.cpu_numa_node), str(kind.numa_node), kind.locality)
        sums[labels] = sums.get(labels, 0) + kind.faults
    return sums.items()


def hint_outcome(container: ContainerReport) -> Values:
    return () if container.hint_outcome is None else (((str(container.hint_outcome.outcome),), 1),)


def node_memory(tick: Tick) -> Values:
    for node in tick.report.nodes:
        for name, size in (("total", node.total_bytes), ("free", node.free_bytes)):
            if size is not None:
                yield (str(node.numa_node), name), size
        yield from by_type([node.resident])


def numastat(tick: Tick) -> Values:
    for node in tick.report.nodes:
        for event, size in (node.numastat_bytes or {}).items():
            yield (str(node.numa_node), event), size


def distances(tick: Tick) -> Values:
    for node in tick.report.nodes:
        for other, distance in node.distances.items():
            yield (str(node.numa_node), str(other)), distance


def policies(tick: Tick) -> Values:
    kubelet = tick.report.kubelet
    if kubelet is None:
        return ()
    managers = (kubelet.memory_manager_policy, kubelet.cpu_manager_policy, kubelet.topology_manager_policy)
    return ((tuple(policy or "" for policy in (*managers, kubelet.topology_manager_scope)), 1),)


def restart_safe(tick: Tick) -> Values:
    """Not after a reboot: what that does to a node's memory is unknown, so it would be 0 on every healthy node."""
    for file in tick.report.checkpoints:
        if file.starts_now != "unknown":
            yield (file.file,), int(file.starts_now == "yes")


def state_problems(tick: Tick) -> Values:
    for file in tick.report.checkpoints:
        names = dict.fromkeys(one.name for one in file.findings if one.severity == "error")
        for name in names or filter(None, (file.problem,)):
            yield (file.file, name), 1


def hint_fault_events(tick: Tick) -> Values:
    counters = tick.report.numa_balancing or {}
    return [((event,), count) for event, count in counters.items() if event.startswith("numa_hint_faults")]


def overheads(tick: Tick) -> tuple[OverheadOfProbe, ...]:
    return () if tick.report.overhead is None else tick.report.overhead.probes


def otlp(counts: Literal["batches", "points"]) -> Callable[[Live], Values]:
    def values(live: Live) -> Values:
        if live.otlp is None:
            return ()
        return [((outcome,), count) for outcome, count in getattr(live.otlp, counts).items()]

    return values
