"""The catalogue: one row for each metric family. Both exporters and docs/metrics.md loop over these rows.

To add a metric, add a row. A row's function gives label values and numbers, or nothing where the
number is not known: absent is not 0. Container counters give what this one container has counted
since its start; `series` carries them over restarts.
"""

from __future__ import annotations

from typing import Any

from numaudit.exporters import own_values, values
from numaudit.exporters.facts import Live, Tick
from numaudit.exporters.metric import IDENTITY, Label, Metric, one
from numaudit.exporters.rejections import MOST_WORKLOADS
from numaudit.report.values import ContainerReport
from numaudit.snapshot import RESIDENT_TYPES

LABELS = {
    "namespace": Label("k8s.namespace.name", "Kubernetes namespace; empty for a plain cgroup"),
    "pod": Label("k8s.pod.name", "Pod name; empty for a plain cgroup"),
    "container": Label(
        "k8s.container.name", "Container name; `POD` for a pod's sandbox; the cgroup path for a plain cgroup"
    ),
    "workload": Label("numaudit.workload", "Deployment, StatefulSet, Job, ...; a pod of none by its own name"),
    "pod_uid": Label("k8s.pod.uid", "Pod UID"),
    "container_id": Label("container.id", "The runtime's container id"),
    "qos": Label("numaudit.qos", "Guaranteed, Burstable or BestEffort"),
    "runtime": Label("container.runtime.name", "containerd, cri-o, docker or podman"),
    "numa_node": Label("numaudit.numa.node.id", "NUMA node", integer=True),
    "cpu_numa_node": Label(
        "numaudit.numa.cpu_node.id", "NUMA node of the CPU; `other`: pairs added up beside the largest", integer=True
    ),
    "from_numa_node": Label("numaudit.numa.from_node.id", "NUMA node", integer=True),
    "to_numa_node": Label("numaudit.numa.to_node.id", "NUMA node", integer=True),
    "resource": Label("numaudit.resource", "memory, cpu or device"),
    "type": Label(
        "numaudit.memory.type",
        f"One of {', '.join(RESIDENT_TYPES)}; for nodes also free; for promises memory, hugepages-2Mi, ...",
    ),
    "source": Label("numaudit.source", "hint_faults: of sampled pages; expected: residence x CPU time; first_touch"),
    "locality": Label("numaudit.locality", "local or remote; unknown where the page's node is"),
    "verdict": Label("numaudit.verdict", "aligned, split, spilled, drifted, cpu-remote, ..."),
    "outcome": Label("numaudit.outcome", "Of hints: aligned-single, ..., rejected-affinity. Of OTLP: delivered, ..."),
    "finding": Label("numaudit.finding", "Name of the finding"),
    "file": Label("file.name", "memory_manager_state, cpu_manager_state or kubelet_internal_checkpoint"),
    "memory_manager": Label("numaudit.kubelet.memory_manager", "Policy; empty when it is not known"),
    "cpu_manager": Label("numaudit.kubelet.cpu_manager", "Policy; empty when it is not known"),
    "topology_manager": Label("numaudit.kubelet.topology_manager", "Policy; empty when it is not known"),
    "scope": Label("numaudit.kubelet.scope", "container or pod; empty when it is not known"),
    "topology_manager_options": Label("numaudit.kubelet.topology_manager_options", "name=value,... as a flag has them"),
    "feature_gates": Label("numaudit.kubelet.feature_gates", "Those set that bear on resources; name=value,..."),
    "kubernetes_version": Label("numaudit.kubelet.version", "v1.36.2; empty when it is not known"),
    "event": Label("numaudit.kernel.event", "The kernel's word: numa_hit, numa_hint_faults, ..."),
    "step": Label("numaudit.overhead.step", "Step taken: page_alloc off, watch list, first_touch off, hint_faults off"),
    "probe": Label("numaudit.probe", "Which probe: page_alloc, cpu_time, hint_faults, migrations, first_touch"),
    "collector": Label("numaudit.collector", "Which question was asked"),
    "feature": Label("numaudit.feature", "What may or may not be measurable here, as in `numaudit doctor`"),
    "reason": Label(
        "numaudit.reason", "Why. Of lost events: map-full, busy (another BPF program ran), ring-full, no-address"
    ),
    "state": Label("numaudit.memory.state", "reserved (for containers) or free"),
    "group": Label("numaudit.numa.group", "Nodes of an assignment, such as 0-1"),
    "width": Label("numaudit.numa.width", "Number of nodes", integer=True),
    "version": Label("numaudit.version", "numaudit's version"),
    "python": Label("numaudit.python.version", "The interpreter's version"),
    "path": Label("url.path", "A known path, or `other`"),
    "code": Label("http.response.status_code", "HTTP status", integer=True),
}


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
        ("numa_node",),
        lambda container: [((str(on.numa_node),), on.seconds) for on in container.cpu_seconds or ()],
        since="container",
    ),
    Metric(
        "container_allocated_bytes_total", "bytes", "Pages given by the kernel: asked for from where, given where.",
        ("cpu_numa_node", "numa_node", "locality"), values.allocated, since="container", largest=_LARGEST_PAIRS,
    ),
    Metric(
        "container_hint_faults_total", "", "NUMA balancing's samples of real accesses.",
        ("cpu_numa_node", "numa_node", "locality"), values.hint_faults, since="container", largest=_LARGEST_PAIRS,
        item="fault",
    ),
    Metric(
        "container_memory_access_samples_total", "", "Sampled accesses, by how they were sampled.",
        ("locality", "source"), values.access_samples, since="container", item="sample",
    ),
    Metric(
        "container_migrated_bytes_total", "bytes", "Pages moved by the container's tasks, its own or others'.",
        ("reason",), lambda container: [((kind.reason,), kind.bytes) for kind in container.migrated or ()],
        since="container",
    ),
    Metric(
        "container_remote_ratio", "ratio", "Share of memory accesses that go to another node, by how it is known.",
        ("source",), values.remote_ratios, merged=None,
    ),
    Metric(
        "container_remote_ratio_lower", "",
        "Lower end of the 95 % confidence interval of the remote share, by the best source that measures one.",
        ("source",), values.remote_lower, merged=None, item="ratio",
    ),
    Metric(
        "container_remote_samples", "", "Samples that this share rests on.",
        ("source",), values.remote_samples, merged=None, item="sample",
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
)  # fmt: skip


TICK_METRICS: tuple[Metric[Tick], ...] = (
    Metric(
        "admission_rejections_total", "", "Pods the kubelet refused since the agent began, each counted once.",
        ("reason", "outcome"), lambda tick: tick.rejections.by_reason.items(), since="agent", item="pod",
    ),
    Metric(
        "admission_workload_rejections_total", "", f"The same by workload, of the {MOST_WORKLOADS} most refused.",
        ("namespace", "workload"), lambda tick: tick.rejections.by_workload.items(), since="agent", item="pod",
    ),
    Metric(
        "node_policy_info", "", "The kubelet's version and policies; always 1.",
        (
            "memory_manager", "cpu_manager", "topology_manager", "scope", "topology_manager_options", "feature_gates",
            "kubernetes_version",
        ),
        values.policies,
    ),
    Metric(
        "state_valid", "", "1 when nothing is wrong with the kubelet's checkpoint, 0 when something is.", ("file",),
        lambda tick: [((file.file,), int(file.valid)) for file in tick.report.checkpoints if file.valid is not None],
    ),
    Metric(
        "state_restart_safe", "", "1 when the kubelet would start again with the checkpoint, 0 when not or by chance.",
        ("file",), values.restart_safe,
    ),
    Metric(
        "state_problem_info", "", "What is wrong with a checkpoint; 1 while it is so.", ("file", "reason"),
        values.state_problems,
    ),
    Metric(
        "memory_manager_bytes", "bytes", "The Memory Manager's memory map: the two parts of what is allocatable.",
        ("numa_node", "type", "state"), own_values.manager_bytes, otel="numaudit.memory_manager.memory",
    ),
    Metric(
        "memory_manager_total_bytes", "bytes", "All of a node's, as the kubelet's checkpoint has it.",
        ("numa_node", "type"), own_values.manager_whole("total"),
    ),
    Metric(
        "memory_manager_system_reserved_bytes", "bytes", "What the kubelet's settings reserve of it.",
        ("numa_node", "type"), own_values.manager_whole("system_reserved"),
    ),
    Metric(
        "memory_manager_allocatable_bytes", "bytes", "What is left for containers.",
        ("numa_node", "type"), own_values.manager_whole("allocatable"),
    ),
    Metric(
        "memory_manager_assignments", "", "Assignments on a node, one for each container and resource.",
        ("numa_node",), own_values.manager_assignments, item="assignment",
    ),
    Metric(
        "memory_manager_group", "", "1 for the nodes of the assignments that are on a node; absent = there are none.",
        ("numa_node", "group"), own_values.manager_groups,
    ),
    Metric(
        "memory_manager_admissible_bytes", "bytes",
        "Largest request for memory that would be admitted on `width` nodes now; CPUs and devices may allow less.",
        ("width",), own_values.admissible, merged=None,
    ),
    Metric(
        "memory_manager_stranded_bytes", "bytes",
        "Memory that is free, but for no container of one node, since the node is in a group of several.",
        ("numa_node",), own_values.stranded,
    ),
    Metric(
        "node_memory_bytes", "bytes", "The node's own count, independent of any cgroup; what is free is a type.",
        ("numa_node", "type"), values.node_memory,
    ),
    Metric(
        "node_memory_total_bytes", "bytes", "All memory of a node.", ("numa_node",), values.node_total,
    ),
    Metric(
        "node_unattributed_bytes", "bytes", "What no container holds: the root cgroup's own memory.",
        ("numa_node", "type"), lambda tick: values.by_type(tick.report.unattributed or ()),
    ),
    Metric(
        "node_residual_bytes", "bytes", "The node's own count without containers and unattributed bytes; signed.",
        ("numa_node",), lambda tick: [((str(on.numa_node),), on.residual_bytes) for on in tick.report.residual],
    ),
    Metric(
        "node_numastat_bytes_total", "bytes",
        "Pages given on a node: numa_hit = this node was wanted, numa_miss = another was.",
        ("numa_node", "event"), values.numastat("numa_hit", "numa_miss"), since="boot",
    ),
    Metric(
        "node_numastat_locality_bytes_total", "bytes",
        "The same pages by who asked: local_node = a CPU of this node, other_node = one of another.",
        ("numa_node", "event"), values.numastat("local_node", "other_node"), since="boot",
    ),
    Metric(
        "node_numastat_foreign_bytes_total", "bytes",
        "Pages wanted on a node and given on another (numa_foreign); there they are numa_miss.",
        ("numa_node",), values.numastat("numa_foreign"), since="boot",
    ),
    Metric(
        "node_numastat_interleaved_bytes_total", "bytes",
        "Pages that an interleaving policy wanted on a node, and that were given there (interleave_hit).",
        ("numa_node",), values.numastat("interleave_hit"), since="boot",
    ),
    Metric(
        "node_hint_faults_total", "", "NUMA balancing's hint faults on the whole host.",
        (), one(values.vmstat("numa_hint_faults")), since="boot", item="fault",
    ),
    Metric(
        "node_hint_faults_local_total", "", "Those that found the page on the CPU's node.",
        (), one(values.vmstat("numa_hint_faults_local")), since="boot", item="fault",
    ),
    Metric(
        "node_distance", "", "Relative memory distance by the firmware (SLIT); 10 is local.",
        ("from_numa_node", "to_numa_node"), values.distances, merged=None, item="distance",
    ),
    Metric(
        "collector_success", "",
        "1 when the collector worked in the newest tick, 0 when not; none where there is nothing to ask.",
        ("collector",),
        lambda tick: [
            ((asked.source,), int(asked.state in ("ok", "partial")))
            for asked in tick.report.sources
            if asked.state != "absent"
        ],
    ),
    Metric(
        "collector_duration_seconds", "seconds", "Wall-clock time of the collector in the newest tick.", ("collector",),
        lambda tick: [((asked.source,), asked.seconds) for asked in tick.report.sources if asked.seconds is not None],
    ),
    Metric(
        "collector_skipped", "", "Items that vanished or could not be read in the newest tick.", ("collector",),
        lambda tick: [((asked.source,), asked.skipped) for asked in tick.report.sources],
        item="item",
    ),
    Metric(
        "overhead_cpu_ratio", "ratio", "Share of all CPUs' time that the probes take, by estimate.",
        (), one(lambda tick: None if tick.report.overhead is None else tick.report.overhead.cpu_share),
    ),
    Metric(
        "overhead_step", "", "1 for each step that is taken to keep the probes within their budget.", ("step",),
        lambda tick: [((step,), 1) for step in (tick.report.overhead.steps if tick.report.overhead else ())],
    ),
    Metric(
        "overhead_coverage_ratio", "ratio", "Share of the containers whose accesses are watched; absent = all are.",
        (), one(lambda tick: None if tick.report.overhead is None else tick.report.overhead.coverage),
    ),
    Metric(
        "bpf_events_total", "", "Events that a probe has counted.", ("probe",),
        lambda tick: [((of.probe,), of.events) for of in values.overheads(tick)], since="agent", item="event",
    ),
    Metric(
        "bpf_estimated_seconds_total", "seconds", "CPU time that a probe has taken, by estimate.", ("probe",),
        lambda tick: [((of.probe,), of.seconds) for of in values.overheads(tick)], since="agent",
    ),
    Metric(
        "bpf_runs_total", "", "Runs of a probe's programs; only while kernel.bpf_stats_enabled is 1.", ("probe",),
        own_values.runs, since="agent", item="run",
    ),
    Metric(
        "bpf_run_seconds_total", "seconds",
        "CPU time of a probe's programs, by the kernel's own count; only while kernel.bpf_stats_enabled is 1.",
        ("probe",), own_values.run_seconds, since="agent",
    ),
    Metric(
        "lost_events_total", "", "Events that a probe did not count.", ("probe", "reason"),
        own_values.lost_events, since="agent", item="event",
    ),
    Metric(
        "feature_enabled", "", "1 when this host lets the agent measure it, 0 when not.",
        ("feature",), lambda tick: [((feature.name,), int(feature.enabled)) for feature in tick.features],
    ),
    Metric(
        "feature_problem_info", "", "Why a feature is off or reduced, in a word; `numaudit doctor` says more.",
        ("feature", "reason"),
        lambda tick: [((feature.name, feature.reason), 1) for feature in tick.features if feature.reason],
    ),
    Metric(
        "ended_containers", "", "Containers that have ended and are still exported, for the next two scrapes.",
        (), one(lambda tick: tick.ended_containers), item="container",
    ),
    Metric(
        "dropped_series_total", "", "Series left out, counted in each tick: over max_series.",
        ("reason",), lambda tick: [((reason,), count) for reason, count in tick.dropped_series.items()], since="agent",
        item="series",
    ),
    Metric(
        "omitted_series", "", "Container series that max_series leaves out now.",
        (), one(lambda tick: tick.omitted.series), item="series",
    ),
    Metric(
        "omitted_containers", "", "Containers that max_series leaves out now.",
        (), one(lambda tick: tick.omitted.containers), item="container",
    ),
    Metric(
        "build_info", "", "numaudit's version; always 1.",
        ("version", "python"), lambda tick: (((tick.version, tick.python), 1),),
    ),
)  # fmt: skip


LIVE_METRICS: tuple[Metric[Live], ...] = (
    Metric(
        "snapshot_age_seconds", "seconds", "Time since the newest snapshot was taken, at the moment of the scrape.",
        (), one(lambda live: live.snapshot_age),
    ),
    Metric(
        "ticks_total", "", "Ticks that gave a snapshot.",
        (), one(lambda live: live.ticks), since="agent", item="tick",
    ),
    Metric(
        "failed_ticks_total", "", "Ticks that gave none; the log says why.",
        (), one(lambda live: live.failed_ticks), since="agent", item="tick",
    ),
    Metric(
        "missed_ticks_total", "", "Ticks left out because the one before took too long.",
        (), one(lambda live: live.missed_ticks), since="agent", item="tick",
    ),
    Metric(
        "tick_duration_seconds", "seconds", "Wall-clock time of the newest tick, rendering included.",
        (), one(lambda live: live.tick_seconds),
    ),
    Metric(
        "tick_cpu_seconds", "seconds", "CPU time of the newest tick, rendering included.",
        (), one(lambda live: live.tick_cpu_seconds),
    ),
    Metric(
        "process_cpu_seconds_total", "seconds", "CPU time of the agent, user and system.",
        (), one(lambda live: live.cpu_seconds), since="agent", otel="process.cpu.time",
    ),
    Metric(
        "process_resident_memory_bytes", "bytes", "Resident memory of the agent.",
        (), one(lambda live: live.resident_bytes), otel="process.memory.usage",
    ),
    Metric(
        "process_open_files", "", "Open descriptors of the agent.",
        (), one(lambda live: live.open_files), item="file_descriptor", otel="process.unix.file_descriptor.count",
    ),
    Metric(
        "process_threads", "", "Threads of the agent.",
        (), one(lambda live: live.threads), item="thread", otel="process.thread.count",
    ),
    Metric(
        "process_cpu_seconds_total", "seconds", "CPU time of the agent, user and system.",
        (), one(lambda live: live.cpu_seconds), since="agent", is_standard=True,
    ),
    Metric(
        "process_resident_memory_bytes", "bytes", "Resident memory of the agent.",
        (), one(lambda live: live.resident_bytes), is_standard=True,
    ),
    Metric(
        "process_virtual_memory_bytes", "bytes", "Virtual memory of the agent.",
        (), one(lambda live: live.virtual_bytes), is_standard=True,
    ),
    Metric(
        "process_open_fds", "", "Open descriptors of the agent.",
        (), one(lambda live: live.open_files), is_standard=True,
    ),
    Metric(
        "process_max_fds", "", "Open descriptors that the agent may have.",
        (), one(lambda live: live.most_files), is_standard=True,
    ),
    Metric(
        "process_start_time_seconds", "seconds", "When the agent's process began, in seconds since the epoch.",
        (), one(lambda live: live.process_started_at), is_standard=True,
    ),
    # Not `http.server.request.*`, whose only count is that of a histogram of durations, which nobody measures here.
    Metric(
        "web_requests_total", "", "HTTP requests answered.",
        ("path", "code"), lambda live: live.requests.items(), since="agent", item="request",
    ),
    Metric("web_connections", "", "Open HTTP connections.", (), one(lambda live: live.connections), item="connection"),
    Metric(
        "web_evicted_connections_total", "", "Idle connections closed to make room for newer ones.",
        (), one(lambda live: live.evicted_connections), since="agent", item="connection",
    ),
    Metric(
        "web_config_valid", "", "0 while the web-config file is wrong and the one read before is in force.",
        (), one(lambda live: None if live.web_config_valid is None else int(live.web_config_valid)),
    ),
    Metric(
        "otlp_batches_total", "", "OTLP batches, by outcome.",
        ("outcome",), values.otlp("batches"), since="agent", item="batch",
    ),
    Metric(
        "otlp_points_total", "", "OTLP data points, by outcome.",
        ("outcome",), values.otlp("points"), since="agent", item="data_point",
    ),
    Metric(
        "suppressed_log_lines_total", "", "Log lines left out because the same message came too often.",
        (), one(lambda live: live.suppressed_log_lines), since="agent", item="line",
    ),
    Metric(
        "otlp_last_success_timestamp_seconds", "seconds",
        "When an OTLP push was last delivered as a whole, as Unix time; absent = not yet.",
        (), one(lambda live: None if live.otlp is None else live.otlp.last_success),
    ),
    Metric(
        "config_reload_success", "", "0 when the settings were wrong as they were read last, and those before stay.",
        (), one(lambda live: None if live.reload_success is None else int(live.reload_success)),
    ),
    Metric(
        "config_reload_success_timestamp_seconds", "seconds", "When the settings in force were read.",
        (), one(lambda live: live.reloaded_at),
    ),
)  # fmt: skip

METRICS: tuple[Metric[Any], ...] = (*CONTAINER_METRICS, *TICK_METRICS, *LIVE_METRICS)


def labels_of(metric: Metric[Any]) -> tuple[str, ...]:
    """All labels of a row, those of the container first."""
    return (*IDENTITY, *metric.labels) if metric in CONTAINER_METRICS else metric.labels
