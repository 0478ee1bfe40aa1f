"""Label values and numbers of the rows of the catalogue. A row without a known value yields nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain, compress
from operator import attrgetter, ge
from typing import Literal

from numaudit.containermanager.versions import KNOWN_GATES
from numaudit.evaluation.verdicts import REMEDIES
from numaudit.exporters.facts import ExportedTick, Live
from numaudit.exporters.metric import Columns, Number, Values
from numaudit.report.counters import Counters
from numaudit.report.values import ContainerReport, NodeBytes, PromiseOfSource
from numaudit.snapshot import JUDGED_TYPES, RESIDENT_TYPES
from numaudit.snapshot.counted import OverheadOfProbe
from numaudit.topology.nodeset import NodeSet


def info(container: ContainerReport) -> Values:
    uid, id_ = container.pod_uid or "", container.container_id or ""
    return Columns(((uid, id_, container.qos or "", container.runtime or ""),), (1,))  # no other has the same


def _each_node(nodes: NodeSet | None, resource: str) -> tuple[tuple[tuple[str, str], int], ...]:
    return () if nodes is None else tuple(((str(node), resource), 1) for node in nodes)


def intended_nodes(container: ContainerReport) -> Values:
    promise = container.intended
    if promise is None:
        return ()
    memory, cpu = _each_node(promise.memory_nodes, "memory"), _each_node(promise.cpu_nodes, "cpu")
    return (*memory, *cpu, *_each_node(promise.device_nodes, "device"))


def device_nodes(container: ContainerReport) -> Values:
    held = () if container.devices is None else container.devices.items
    return [((str(node),), 1) for node in sorted({one.numa_node for one in held if one.numa_node is not None})]


def intended_bytes(container: ContainerReport) -> Values:
    promise = container.intended
    return [] if promise is None else [((kind,), size) for kind, size in (promise.bytes or {}).items()]


def claimed_nodes(container: ContainerReport) -> Values:
    """The claims' part of `intended_nodes`."""
    found: dict[tuple[str, str], int] = {}
    for one in _claims(container):
        found.update(_each_node(one.memory_nodes, "memory"))
        found.update(_each_node(one.cpu_nodes, "cpu"))
    return list(found.items())


def claimed_bytes(container: ContainerReport) -> Values:
    """The claims' part of `intended_bytes`."""
    if container.intended is None:
        return ()
    sizes = Counter[str]()
    for one in _claims(container):
        sizes.update(one.bytes or {})
    return [((kind,), size) for kind, size in sizes.items()]


def _claims(container: ContainerReport) -> list[PromiseOfSource]:
    sources = () if container.intended is None else container.intended.by_source
    return [one for one in sources if one.source == "dra"]


def allowed_nodes(container: ContainerReport) -> Values:
    return _allowed(container.allowed_memory_nodes, container.allowed_cpu_nodes)


@lru_cache(maxsize=256)
def _allowed(memory: NodeSet | None, cpu: NodeSet | None) -> Columns:
    """Few of a host's containers differ in them."""
    return Columns.of((*_each_node(memory, "memory"), *_each_node(cpu, "cpu")))


def verdict(container: ContainerReport) -> Values:
    return () if container.verdict is None else _fact(container.verdict.name)


@lru_cache(maxsize=256)
def _fact(*labels: str) -> Columns:
    """One series with the number 1, the same for all subjects."""
    return Columns.of(((labels, 1),))


def ranks(container: ContainerReport) -> Values:
    """Of every verdict, 0 as well: a rank that is mended ends an alert at once."""
    return () if container.ranks is None else [((name,), count) for name, count in container.ranks.verdicts.items()]


def containers_by_verdict(tick: ExportedTick) -> Values:
    counts = Counter(one.verdict.name for one in tick.selected if one.verdict is not None)
    return [((name,), counts[name]) for name in REMEDIES]


def misplaced_by_verdict(tick: ExportedTick) -> Values:
    sums = Counter[str]()
    for one in tick.selected:
        if one.verdict is not None and one.misplaced_bytes is not None:
            sums[one.verdict.name] += one.misplaced_bytes
    return [((name,), size) for name, size in sums.items()]


def by_type(nodes: Iterable[NodeBytes]) -> Columns:
    """Every size that is known, 0 as well."""
    nodes = tuple(nodes)
    sizes = [size for node in nodes for size in _all_types(node)]
    return _columns(nodes, sizes, tuple([size is not None for size in sizes]))


_PAGE = 4096
_LEAST = tuple(_PAGE if kind == "kernel" else 1 for kind in RESIDENT_TYPES)


def resident(container: ContainerReport) -> Columns:
    """Without what is 0: a container has most of its bytes on one node, and a host many containers.

    The kernel charges objects of some hundred bytes on nodes that a container does not use otherwise: below a page they
    say nothing, but were a fifth of its series. No sum needs them: a node's residual is without kernel memory.
    """
    nodes = container.resident or ()
    sizes = [size or 0 for size in chain.from_iterable(map(_all_types, nodes))]  # not known is not shown either
    return _columns(nodes, sizes, tuple(map(ge, sizes, _LEAST * len(nodes))))


def _columns(nodes: tuple[NodeBytes, ...], sizes: list[int], shown: tuple[bool, ...]) -> Columns:
    labels = _type_labels(tuple([node.numa_node for node in nodes]))
    return Columns.of_equal(tuple(compress(labels, shown)), tuple(compress(sizes, shown)))


_all_types = attrgetter(*RESIDENT_TYPES)


@lru_cache(maxsize=256)
def _type_labels(nodes: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    return tuple([(str(node), kind) for node in nodes for kind in RESIDENT_TYPES])


def misplaced(container: ContainerReport) -> Values:
    promise = container.intended
    if container.aligned_bytes is None or promise is None:
        return ()
    nodes = promise.memory_nodes or ()
    outside = [(node.numa_node, sum(filter(None, _judged_types(node)))) for node in container.resident or ()]
    return [((str(node),), size) for node, size in outside if size and node not in nodes]


_judged_types = attrgetter(*JUDGED_TYPES)


def huge_pages(container: ContainerReport) -> Values:
    """Without what is 0."""
    of_sizes = container.huge_pages or ()
    return [((str(node), one.type), size) for one in of_sizes for node, size in one.bytes_by_node.items() if size]


def misplaced_huge_pages(container: ContainerReport) -> Values:
    return [
        ((str(node), one.type), size)
        for one in container.huge_pages or ()
        if one.promised_nodes
        for node, size in one.bytes_by_node.items()
        if size and node not in one.promised_nodes
    ]


def cpu_seconds(container: Counters) -> Values:
    """Those that were counted: what a capture's two readings say is no counter."""
    if isinstance(container, ContainerReport) and container.cpu_time_source is not None:
        return ()
    rows = container.cpu_seconds
    return Columns(_nodes(*[one.numa_node for one in rows]), tuple([one.seconds for one in rows])) if rows else ()


@lru_cache(maxsize=256)
def _nodes(*nodes: int) -> tuple[tuple[str], ...]:
    """Labels of a series for each; many subjects have the same nodes."""
    return tuple([(str(node),) for node in nodes])


def allocated(container: Counters) -> Values:
    return [
        (_pair_labels(pair.cpu_numa_node, pair.numa_node), pair.bytes)
        for pair in container.allocated or ()
        if pair.bytes
    ]


@lru_cache(maxsize=1024)
def _pair_labels(cpu: int, node: int | None) -> tuple[str, str, str]:
    if node is None:
        return str(cpu), "unknown", "unknown"
    return str(cpu), str(node), "local" if cpu == node else "remote"


def remote_ratios(container: ContainerReport) -> Values:
    # Pages are no accesses.
    return [
        ((access.source,), access.remote_ratio)
        for access in container.accesses
        if access.remote_ratio is not None and access.of in ("accesses", "expectation")
    ]


def used_remotely(container: ContainerReport) -> Values:
    accesses = container.accesses
    return [((one.source,), one.used_remotely.at_least_bytes) for one in accesses if one.used_remotely is not None]


def used_remotely_age(container: ContainerReport) -> Values:
    return [((one.source,), one.age or 0.0) for one in container.accesses if one.used_remotely is not None]


def memory_accesses(container: ContainerReport) -> Values:
    sums: dict[tuple[str, ...], int] = {}
    for counted in container.memory_accesses or ():
        labels = (counted.locality, "pmu", counted.unit)
        sums[labels] = sums.get(labels, 0) + counted.count
    return sums.items()


def remote_stall(container: ContainerReport) -> Values:
    stall = container.remote_stall
    return () if stall is None else [(("pmu", stall.latency), stall.seconds_high)]


def hint_faults(container: Counters) -> Values:
    sums: dict[tuple[str, str, str], int] = {}
    for kind in container.hint_faults or ():
        labels = (str(kind.cpu_numa_node), str(kind.numa_node), kind.locality)
        sums[labels] = sums.get(labels, 0) + kind.pages
    return sums.items()


def hint_outcome(container: ContainerReport) -> Values:
    return () if container.hint_outcome is None else (((str(container.hint_outcome.outcome),), 1),)


def unseen(values: Callable[[Counters], Values]) -> Callable[[ExportedTick], Values]:
    """A container's counter, of the cgroups that came and went between two ticks."""

    def of_tick(tick: ExportedTick) -> Values:
        ended = tick.report.ended
        return () if ended is None or ended.unseen is None else values(ended.unseen)

    return of_tick


def node_memory(tick: ExportedTick) -> Values:
    for node in tick.report.nodes:
        if node.free_bytes is not None:
            yield (str(node.numa_node), "free"), node.free_bytes
        yield from by_type([node.resident])


def node_total(tick: ExportedTick) -> Values:
    return [((str(node.numa_node),), node.total_bytes) for node in tick.report.nodes if node.total_bytes is not None]


def numastat(*events: str) -> Callable[[ExportedTick], Values]:
    """Some of the kernel's events, by node and event; of one event, by node."""

    def values(tick: ExportedTick) -> Values:
        for node in tick.report.nodes:
            for event, size in (node.numastat_bytes or {}).items():
                if event in events:
                    yield (str(node.numa_node), event) if len(events) > 1 else (str(node.numa_node),), size

    return values


def distances(tick: ExportedTick) -> Values:
    for node in tick.report.nodes:
        for other, distance in node.distances.items():
            yield (str(node.numa_node), str(other)), distance


def policies(tick: ExportedTick) -> Values:
    kubelet = tick.report.kubelet
    if kubelet is None:
        return ()
    managers = (kubelet.memory_manager_policy, kubelet.cpu_manager_policy, kubelet.topology_manager_policy)
    gates = {name: on for name, on in (kubelet.feature_gates or {}).items() if name in KNOWN_GATES}
    settings = (kubelet.topology_manager_options, gates)
    texts = (*managers, kubelet.topology_manager_scope, *map(_settings_text, settings), kubelet.version)
    texts += (_settings_text(kubelet.cpu_manager_options),)
    return ((tuple(text or "" for text in texts), 1),)


def _settings_text(settings: Mapping[str, object] | None) -> str:
    """As a flag of the kubelet has them, sorted: `name=true,other=false`."""
    return ",".join(f"{name}={str(value).lower()}" for name, value in sorted((settings or {}).items()))


def vmstat(event: str) -> Callable[[ExportedTick], Number | None]:
    """One of the kernel's counters of NUMA balancing on the whole host."""
    return lambda tick: (tick.report.numa_balancing or {}).get(event)


def tier_moves(direction: Literal["demoted_bytes", "promoted_bytes"]) -> Callable[[ContainerReport], Values]:
    def values(container: ContainerReport) -> Values:
        sizes = [(moved.numa_node, getattr(moved, direction)) for moved in container.tier_moves or ()]
        return [((str(node),), size) for node, size in sizes if size is not None]

    return values


def memory_tiers(tick: ExportedTick) -> Values:
    return [((str(node.numa_node),), node.memory_tier) for node in tick.report.nodes if node.memory_tier is not None]


def memory_speed(
    figure: Literal["latency_nanoseconds", "bytes_per_second"], scale: float
) -> Callable[[ExportedTick], Values]:
    def values(tick: ExportedTick) -> Values:
        for node in tick.report.nodes:
            for access in ("read", "write") if node.memory_speed is not None else ():
                value = getattr(node.memory_speed, f"{access}_{figure}")
                if value is not None:
                    yield (str(node.numa_node), access), value * scale

    return values


def demotion(tick: ExportedTick) -> Number | None:
    tiering = tick.report.tiering
    return None if tiering is None or tiering.demotion_enabled is None else int(tiering.demotion_enabled)


def balancing_mode(tick: ExportedTick) -> Number | None:
    return None if tick.report.tiering is None else tick.report.tiering.numa_balancing


def overheads(tick: ExportedTick) -> tuple[OverheadOfProbe, ...]:
    return () if tick.report.overhead is None else tick.report.overhead.probes


def nrt_failures(live: Live) -> Values:
    return () if live.nrt is None else [((reason,), count) for reason, count in live.nrt.failures.items()]


def otlp(counts: Literal["batches", "points"]) -> Callable[[Live], Values]:
    def values(live: Live) -> Values:
        if live.otlp is None:
            return ()
        return [((outcome,), count) for outcome, count in getattr(live.otlp, counts).items()]

    return values
