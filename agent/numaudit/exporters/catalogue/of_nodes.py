"""One row for each metric family of the node, the kubelet's managers and the newest tick."""

from __future__ import annotations

from numaudit.exporters import own_values, values
from numaudit.exporters.facts import Tick
from numaudit.exporters.metric import Metric, one
from numaudit.exporters.rejections import MOST_WORKLOADS

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
    Metric(
        "node_ended_cpu_seconds_total", "seconds",
        "CPU time of cgroups that came and went between two ticks, so it is no container's.",
        ("numa_node",), values.unseen(values.cpu_seconds), since="agent",
    ),
    Metric(
        "node_ended_allocated_bytes_total", "bytes", "Pages given to such cgroups: asked for from where, given where.",
        ("cpu_numa_node", "numa_node", "locality"), values.unseen(values.allocated), since="agent",
    ),
    Metric(
        "node_ended_hint_faults_total", "", "NUMA balancing's samples of accesses by such cgroups.",
        ("cpu_numa_node", "numa_node", "locality"), values.unseen(values.hint_faults), since="agent", item="fault",
    ),
    Metric(
        "restart_starts", "",
        "1: does the kubelet start after a restart of it, or a reboot of the node? yes, no, at risk, once or unknown.",
        ("reboot", "starts"), values.restart_starts,
    ),
    Metric(
        "restart_refused_pods", "",
        "Pods that a restart of the kubelet, or a reboot of the node, would refuse if the kubelet starts.",
        ("reboot",), values.refused_pods, item="pod",
    ),
    Metric(
        "memory_manager_stale_entries", "",
        "Containers that are gone and still hold memory in the map; the kubelet frees it at its next admission.",
        (), own_values.stale_entries, item="entry",
    ),
    Metric(
        "memory_manager_fragmentation_ratio", "ratio",
        "Share of the largest container of one node that all free memory is enough for, but that is not admitted.",
        (), own_values.fragmentation, merged=None,
    ),
    Metric(
        "memory_manager_unpromised_bytes", "bytes",
        "anon + shmem that no promise covers, of Burstable containers, services and all others.",
        ("numa_node",), own_values.unpromised,
    ),
    Metric(
        "memory_manager_encroached_bytes", "bytes",
        "Of these, what is beyond the system's reservation, in memory that is free in the map or that was promised.",
        ("numa_node", "state"), own_values.encroached,
    ),
)  # fmt: skip
