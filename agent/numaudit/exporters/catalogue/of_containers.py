"""One row for each metric family of containers.

Counters give what this one container has counted since its start; `series` carries them over restarts.
"""

from __future__ import annotations

from numaudit.exporters import values
from numaudit.exporters.metric import Metric, one
from numaudit.report.values import ContainerReport

_LARGEST_PAIRS = 4
"""All pairs of a machine with two nodes."""

CONTAINER_METRICS: tuple[Metric[ContainerReport], ...] = (
    Metric(
        "container_info", "", "Facts of the newest instance; always 1.",
        ("pod_uid", "container_id", "qos", "runtime"), values.info, merged=None,
    ),
    Metric(
        "container_intended_node", "", "1 for each node that the kubelet's managers promised, by resource.",
        ("numa_node", "resource"), values.intended_nodes, merged="max",
    ),
    Metric(
        "container_intended_bytes", "bytes", "Promised bytes.",
        ("type",), values.intended_bytes,
    ),
    Metric(
        "container_allowed_node", "", "1 for each node the effective cpuset allows, by resource.",
        ("numa_node", "resource"), values.allowed_nodes, merged="max",
    ),
    Metric(
        "container_resident_bytes", "bytes", "Where the bytes are, each in one type; absent = none there.",
        ("numa_node", "type"), values.resident,
    ),
    Metric(
        "container_misplaced_bytes", "bytes", "Judged bytes on nodes that were not promised.",
        ("numa_node",), values.misplaced,
    ),
    Metric(
        "container_judged_bytes", "bytes", "Bytes that judge alignment, on all nodes: anon, shmem and hugetlb.",
        (), one(lambda container: container.judged_bytes),
    ),
    Metric(
        "container_aligned_bytes", "bytes", "Judged bytes on the nodes that were promised.",
        (), one(lambda container: container.aligned_bytes),
    ),
    Metric(
        "container_aligned_ratio", "ratio", "Aligned bytes / judged bytes.",
        (), one(lambda container: container.aligned_ratio), merged=None,
    ),
    Metric(
        "container_cpu_seconds_total", "seconds", "CPU time by the node it was spent on.",
        ("numa_node",), values.cpu_seconds, since="container",
    ),
    Metric(
        "container_allocated_bytes_total", "bytes", "Pages given by the kernel: asked for from where, given where.",
        ("cpu_numa_node", "numa_node", "locality"), values.allocated, since="container", largest=_LARGEST_PAIRS,
    ),
    Metric(
        "container_hint_faults_total", "", "Pages that NUMA balancing saw used, each once in a scan pass.",
        ("cpu_numa_node", "numa_node", "locality"), values.hint_faults, since="container", largest=_LARGEST_PAIRS,
        item="page",
    ),
    Metric(
        "container_memory_access_samples_total", "", "Sampled first uses of a page.",
        ("locality", "source"), values.access_samples, since="container", item="sample",
    ),
    Metric(
        "container_migrated_bytes_total", "bytes", "Pages moved by the container's tasks, its own or others'.",
        ("reason",), lambda container: [((kind.reason,), kind.bytes) for kind in container.migrated or ()],
        since="container",
    ),
    Metric(
        "container_remote_ratio", "ratio",
        "Share of the accesses that were to another node's memory: counted (pmu), or expected if every byte were used "
        "equally (expected).",
        ("source",), values.remote_ratios, merged=None,
    ),
    Metric(
        "container_remote_ratio_lower", "",
        "The remote share at least, by the best source that measures: of the accesses (pmu), or of the container's "
        "memory by the pages that were seen used from other nodes (hint_faults).",
        ("source",), values.remote_lower, merged=None, item="ratio",
    ),
    Metric(
        "container_sampled_page_bytes", "bytes",
        "Memory that the newest complete scan pass of NUMA balancing saw used from its own node, and from other nodes.",
        ("locality",), values.sampled_page_bytes,
    ),
    Metric(
        "container_sampled_page_coverage_ratio", "ratio",
        "Share of the container's memory that this pass saw used; of the rest nothing is known.",
        (), one(values.sampled_page_coverage), merged=None,
    ),
    Metric(
        "container_verdict", "", "1 for the verdict that holds.", ("verdict",), values.verdict, merged="max",
    ),
    Metric(
        "container_hint_outcome", "", "1 for how the hints turned out at the container's admission.",
        ("outcome",), values.hint_outcome, merged="max",
    ),
    Metric(
        "container_finding", "", "1 while the finding holds.", ("finding",),
        lambda container: [((name,), 1) for name in dict.fromkeys(container.findings)], merged="max",
    ),
    Metric(
        "container_distance_ratio", "ratio",
        "Mean distance from where it ran to its bytes / 10, if every byte were used equally; 1 = all local.",
        (), one(lambda container: container.distance_ratio), merged=None,
    ),
    Metric(
        "container_memory_accesses_total", "",
        "Memory accesses that the processor counted: lines of the cache, or load instructions.",
        ("locality", "source", "unit"), values.memory_accesses, since="container", item="access",
    ),
    Metric(
        "container_remote_stall_seconds_total", "seconds",
        "CPU time spent waiting for remote memory, estimated from above: no overlap, and the farthest node's latency.",
        ("source", "latency"), values.remote_stall, since="container",
    ),
)  # fmt: skip
