"""One row for each metric family of containers.

Counters give what this one container has counted since its start; `series` carries them over restarts.
"""

from __future__ import annotations

from numaudit.exporters.catalogue import values
from numaudit.exporters.metric import Metric, one
from numaudit.report.values import ContainerReport

_LARGEST_PAIRS = 4
"""All pairs of a machine with two nodes."""

CONTAINER_METRICS: tuple[Metric[ContainerReport], ...] = (
    Metric(
        "container_info", "", "Facts about the newest instance of the container; always 1.",
        ("pod_uid", "container_id", "qos", "runtime"), values.info, merged=None,
    ),
    Metric(
        "container_intended_node", "",
        "1 for each node that the kubelet, or a resource claim (DRA), promised to the container, by resource.",
        ("numa_node", "resource"), values.intended_nodes, merged="max",
    ),
    Metric(
        "container_device_node", "", "1 for each node that has a PCI device of the container, by sysfs.",
        ("numa_node",), values.device_nodes, merged="max",
    ),
    Metric(
        "container_intended_bytes", "bytes",
        "Bytes that the kubelet, or a resource claim (DRA), promised to the container, by type.",
        ("type",), values.intended_bytes,
    ),
    Metric(
        "container_claimed_node", "",
        "1 for each node of container_intended_node that a resource claim (DRA) promised, by resource.",
        ("numa_node", "resource"), values.claimed_nodes, merged="max",
    ),
    Metric(
        "container_claimed_bytes", "bytes", "The part of container_intended_bytes that resource claims (DRA) promised.",
        ("type",), values.claimed_bytes,
    ),
    Metric(
        "container_allowed_node", "", "1 for each node that the effective cpuset allows, by resource.",
        ("numa_node", "resource"), values.allowed_nodes, merged="max",
    ),
    Metric(
        "container_resident_bytes", "bytes",
        "Resident bytes by node and type; each byte has one type. Zeros and kernel memory below a page are left out.",
        ("numa_node", "type"), values.resident,
    ),
    Metric(
        "container_misplaced_bytes", "bytes", "Judged bytes on nodes that were not promised.",
        ("numa_node",), values.misplaced,
    ),
    Metric(
        "container_huge_page_bytes", "bytes", "Huge pages that the container uses, by node and page size.",
        ("numa_node", "type"), values.huge_pages,
    ),
    Metric(
        "container_misplaced_huge_page_bytes", "bytes",
        "Huge pages on other nodes than the container was promised pages of that size on.",
        ("numa_node", "type"), values.misplaced_huge_pages,
    ),
    Metric(
        "container_judged_bytes", "bytes", "Bytes that decide alignment: anon, shmem and hugetlb on all nodes.",
        (), one(lambda container: container.judged_bytes),
    ),
    Metric(
        "container_aligned_bytes", "bytes", "Judged bytes on the promised nodes.",
        (), one(lambda container: container.aligned_bytes),
    ),
    Metric(
        "container_aligned_ratio", "ratio", "Aligned bytes divided by judged bytes.",
        (), one(lambda container: container.aligned_ratio), merged=None,
    ),
    Metric(
        "container_cpu_seconds_total", "seconds", "CPU time by the node of the CPU.",
        ("numa_node",), values.cpu_seconds, since="container",
    ),
    Metric(
        "container_allocated_bytes_total", "bytes",
        "Memory that the kernel allocated, by the CPU's node and the page's node.",
        ("cpu_numa_node", "numa_node", "locality"), values.allocated, since="container", largest=_LARGEST_PAIRS,
    ),
    Metric(
        "container_hint_faults_total", "",
        "Pages that NUMA balancing saw used (hint faults); each page counts once in a scan pass.",
        ("cpu_numa_node", "numa_node", "locality"), values.hint_faults, since="container", largest=_LARGEST_PAIRS,
        item="page",
    ),
    Metric(
        "container_migrated_bytes_total", "bytes", "Pages migrated by the container's tasks, whoever owns the pages.",
        ("reason",), lambda container: [((kind.reason,), kind.bytes) for kind in container.migrated or ()],
        since="container",
    ),
    Metric(
        "container_demoted_bytes_total", "bytes", "Memory that the kernel moved from this node to slower memory tiers.",
        ("numa_node",), values.tier_moves("demoted_bytes"), since="container",
    ),
    Metric(
        "container_promoted_bytes_total", "bytes",
        "Memory that the kernel moved from slower memory tiers to this node.",
        ("numa_node",), values.tier_moves("promoted_bytes"), since="container",
    ),
    Metric(
        "container_remote_ratio", "ratio",
        "Share of accesses to another node's memory: counted (pmu), or expected if every byte were used equally "
        "(expected).",
        ("source",), values.remote_ratios, merged=None,
    ),
    Metric(
        "container_used_remotely_bytes", "bytes",
        "Memory that was seen used from another node, at least; absent where none was seen, which proves nothing.",
        ("source",), values.used_remotely,
    ),
    Metric(
        "container_used_remotely_age_seconds", "seconds", "Age of container_used_remotely_bytes.",
        ("source",), values.used_remotely_age, merged="max",
    ),
    Metric(
        "container_verdict", "", "1 for the verdict that holds.", ("verdict",), values.verdict, merged="max",
    ),
    Metric(
        "container_hint_outcome", "", "1 for the outcome of the topology hints at the container's admission.",
        ("outcome",), values.hint_outcome, merged="max",
    ),
    Metric(
        "container_finding", "", "1 while the finding holds.", ("finding",),
        lambda container: [((name,), 1) for name in dict.fromkeys(container.findings)], merged="max",
    ),
    Metric(
        "container_ranks", "",
        "Processes with a declared placement, and unbound actors, by verdict, where ranks are watched.",
        ("verdict",), values.ranks, item="process",
    ),
    Metric(
        "container_distance_ratio", "ratio",
        "Mean NUMA distance from its CPUs to its bytes, divided by 10, if all bytes were used equally; 1 is all local.",
        (), one(lambda container: container.distance_ratio), merged=None,
    ),
    Metric(
        "container_memory_accesses_total", "",
        "Memory accesses that the processor counted, in cache lines or load instructions.",
        ("locality", "source", "unit"), values.memory_accesses, since="container", item="access",
    ),
    Metric(
        "container_remote_stall_seconds_total", "seconds",
        "Upper bound of the CPU time spent waiting for remote memory: without overlap, at the farthest node's latency.",
        ("source", "latency"), values.remote_stall, since="container",
    ),
)  # fmt: skip
