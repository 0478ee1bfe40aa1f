"""One row for each metric family of the node, the kubelet's managers and the newest tick."""

from __future__ import annotations

from numaudit.evaluation.setup.facts import SetupLabels
from numaudit.exporters.catalogue import own_values, values
from numaudit.exporters.facts import ExportedTick
from numaudit.exporters.metric import Metric, one, word
from numaudit.exporters.rejections import MOST_WORKLOADS

TICK_METRICS: tuple[Metric[ExportedTick], ...] = (
    Metric(
        "admission_rejections_total", "",
        "Pods that the kubelet refused since the agent started; each pod counts once.",
        ("reason", "outcome"), lambda tick: tick.rejections.by_reason.items(), since="agent", item="pod",
    ),
    Metric(
        "admission_workload_rejections_total", "",
        f"Refused pods by workload, for the {MOST_WORKLOADS} most refused workloads.",
        ("namespace", "workload"), lambda tick: tick.rejections.by_workload.items(), since="agent", item="pod",
    ),
    Metric(
        "node_containers", "",
        "Containers that metrics.include and metrics.exclude select, by verdict; complete whatever else is left out.",
        ("verdict",), values.containers_by_verdict, item="container",
    ),
    Metric(
        "node_misplaced_bytes", "bytes",
        "Judged bytes on nodes that were not promised, by the verdict of the containers that have them.",
        ("verdict",), values.misplaced_by_verdict,
    ),
    Metric(
        "node_policy_info", "", "The kubelet's version and policies; always 1.",
        (
            "memory_manager", "cpu_manager", "topology_manager", "scope", "topology_manager_options", "feature_gates",
            "kubernetes_version", "cpu_manager_options",
        ),
        values.policies,
    ),
    Metric(
        "node_setup_problem_info", "", "1 for each rule of `numaudit setup` that finds an error or a warning.",
        ("rule", "level"), own_values.setup_problems,
    ),
    Metric(
        "node_setup_info", "", "Kernel, sockets and settings that nodes of a pool should share; always 1.",
        SetupLabels._fields, lambda tick: ((tick.setup, 1),) if any(tick.setup) else (),
    ),
    Metric(
        "state_valid", "", "1 if the kubelet's checkpoint is valid, 0 if not.", ("file",),
        own_values.valid,
    ),
    Metric(
        "state_restart_safe", "",
        "1 if the kubelet would start again with the checkpoint (or configuration), 0 if it would refuse it or the "
        "result is undefined.",
        ("file",), own_values.restart_safe,
    ),
    Metric(
        "state_problem_info", "",
        "1 for each error of a checkpoint or the configuration, and each problem that makes a restart unsafe.",
        ("file", "reason"),
        own_values.problems,
    ),
    Metric(
        "memory_manager_bytes", "bytes",
        "The Memory Manager's memory map: reserved or free memory.",
        ("numa_node", "type", "state"), own_values.manager_bytes, otel="numaudit.memory_manager.bytes",
    ),
    Metric(
        "memory_manager_total_bytes", "bytes", "Memory map: total size of a node's memory.",
        ("numa_node", "type"), own_values.manager_whole("total"),
    ),
    Metric(
        "memory_manager_system_reserved_bytes", "bytes",
        "Memory map: memory reserved for the system.",
        ("numa_node", "type"), own_values.manager_whole("system_reserved"),
    ),
    Metric(
        "memory_manager_allocatable_bytes", "bytes",
        "Memory map: memory for containers.",
        ("numa_node", "type"), own_values.manager_whole("allocatable"),
    ),
    Metric(
        "memory_manager_assignments", "", "Promises on a node; each container and resource counts as one.",
        ("numa_node",), own_values.manager_assignments, item="assignment",
    ),
    Metric(
        "memory_manager_group", "", "1 for the NUMA group that the node is in; absent if nothing is promised on it.",
        ("numa_node", "group"), own_values.manager_groups,
    ),
    Metric(
        "memory_manager_admissible_bytes", "bytes",
        "Largest memory request that would be admitted now on `width` nodes; CPUs and devices may allow less.",
        ("width",), own_values.admissible, merged=None,
    ),
    Metric(
        "memory_manager_stranded_bytes", "bytes",
        "Free memory that no container of one node can get, because the node is in a group of several.",
        ("numa_node",), own_values.stranded,
    ),
    Metric(
        "memory_manager_short_bytes", "bytes",
        "Huge pages that the Memory Manager would still promise on these nodes and that the kernel cannot give.",
        ("group", "type"), own_values.huge_pages_short,
    ),
    Metric(
        "node_memory_bytes", "bytes", "Memory by the node's own count, independent of cgroups; `free` is a type.",
        ("numa_node", "type"), values.node_memory,
    ),
    Metric(
        "node_memory_total_bytes", "bytes", "Total memory of a node.", ("numa_node",), values.node_total,
    ),
    Metric(
        "node_unattributed_bytes", "bytes", "Memory that belongs to no container: the root cgroup's own.",
        ("numa_node", "type"), lambda tick: values.by_type(tick.report.unattributed or ()),
    ),
    Metric(
        "node_residual_bytes", "bytes",
        "The node's own count minus containers and unattributed bytes; signed.",
        ("numa_node",), lambda tick: [((str(on.numa_node),), on.residual_bytes) for on in tick.report.residual],
    ),
    Metric(
        "node_numastat_bytes_total", "bytes",
        "Memory allocated on a node: numa_hit if this node was wanted, numa_miss if another was.",
        ("numa_node", "event"), values.numastat("numa_hit", "numa_miss"), since="boot",
    ),
    Metric(
        "node_numastat_locality_bytes_total", "bytes",
        "Memory allocated on a node: local_node for a CPU of this node, other_node for a CPU of another.",
        ("numa_node", "event"), values.numastat("local_node", "other_node"), since="boot",
    ),
    Metric(
        "node_numastat_foreign_bytes_total", "bytes",
        "Memory wanted on a node but allocated on another (numa_foreign), where it counts as numa_miss.",
        ("numa_node",), values.numastat("numa_foreign"), since="boot",
    ),
    Metric(
        "node_numastat_interleaved_bytes_total", "bytes",
        "Memory that an interleaving policy wanted on a node and got there (interleave_hit).",
        ("numa_node",), values.numastat("interleave_hit"), since="boot",
    ),
    Metric(
        "node_hint_faults_total", "", "NUMA balancing's hint faults on the whole host.",
        (), one(values.vmstat("numa_hint_faults")), since="boot", item="fault",
    ),
    Metric(
        "node_hint_faults_local_total", "", "NUMA balancing's hint faults that found the page on the CPU's node.",
        (), one(values.vmstat("numa_hint_faults_local")), since="boot", item="fault",
    ),
    Metric(
        "node_distance", "", "NUMA distance between nodes, from the firmware's SLIT; 10 is local.",
        ("from_numa_node", "to_numa_node"), values.distances, merged=None, item="distance",
    ),
    Metric(
        "node_memory_tier", "", "Number of the node's memory tier; a smaller one is faster.",
        ("numa_node",), values.memory_tiers, merged=None, item="tier",
    ),
    Metric(
        "node_memory_latency_seconds", "seconds",
        "Latency of the node's memory for the nearest CPUs, as the firmware states it (HMAT, CDAT); not measured.",
        ("numa_node", "access"), values.memory_speed("latency_nanoseconds", 1e-9), merged=None,
    ),
    Metric(
        "node_memory_bandwidth_bytes", "bytes",
        "Bytes in a second from the node's memory for the nearest CPUs, as the firmware states it; not measured.",
        ("numa_node", "access"), values.memory_speed("bytes_per_second", 1), merged=None,
    ),
    Metric(
        "node_demotion_enabled", "", "1 if the kernel moves cold pages to slower memory tiers, 0 if not.",
        (), one(values.demotion),
    ),
    Metric(
        "node_numa_balancing_mode", "",
        "Mode of NUMA balancing where there are several memory tiers: 0 off, 1 normal, 2 memory tiering, 3 both.",
        (), one(values.balancing_mode), merged=None,
    ),
    Metric(
        "collector_success", "",
        "1 if the collector or source of the kubelet answered in the newest tick, 0 if not, also where its last values "
        "are still used; absent where the host has nothing to collect.",
        ("collector",),
        lambda tick: [
            ((word(asked.source),), int(asked.state in ("ok", "partial") and not asked.old))
            for asked in tick.report.sources
            if asked.state != "absent"
        ],
    ),
    Metric(
        "collector_age_seconds", "seconds", "Age of the values in use, by source of the kubelet.", ("collector",),
        lambda tick: [
            ((word(asked.source),), asked.age_seconds)
            for asked in tick.report.sources
            if asked.age_seconds is not None
        ],
    ),
    Metric(
        "collector_duration_seconds", "seconds", "Wall-clock time of the collector in the newest tick.", ("collector",),
        lambda tick: [
            ((word(asked.source),), asked.seconds) for asked in tick.report.sources if asked.seconds is not None
        ],
    ),
    Metric(
        "collector_skipped", "", "Items that vanished or could not be read in the newest tick.", ("collector",),
        lambda tick: [((word(asked.source),), asked.skipped) for asked in tick.report.sources],
        item="item",
    ),
    Metric(
        "overhead_cpu_ratio", "ratio", "Estimated share of all CPUs' time that the probes take.",
        (), one(lambda tick: None if tick.report.overhead is None else tick.report.overhead.cpu_share),
    ),
    Metric(
        "overhead_step", "", "1 for each step that keeps the probes within their CPU budget.", ("step",),
        lambda tick: [((word(step),), 1) for step in (tick.report.overhead.steps if tick.report.overhead else ())],
    ),
    Metric(
        "overhead_coverage_ratio", "ratio", "Share of the containers whose accesses are watched; absent if all are.",
        (), one(lambda tick: None if tick.report.overhead is None else tick.report.overhead.coverage),
    ),
    Metric(
        "rank_round_seconds", "seconds", "Time that the newest complete round over the processes of ranks took.",
        (), one(lambda tick: None if tick.report.rank_round is None else tick.report.rank_round.seconds),
    ),
    Metric(
        "bpf_events_total", "", "Events that a probe has counted.", ("probe",),
        lambda tick: [((of.probe,), of.events) for of in values.overheads(tick)], since="agent", item="event",
    ),
    Metric(
        "bpf_estimated_seconds_total", "seconds", "Estimated CPU time of a probe.", ("probe",),
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
        "feature_enabled", "", "1 if the agent can measure the feature on this host, 0 if not.",
        ("feature",), lambda tick: [((feature.name,), int(feature.enabled)) for feature in tick.features],
    ),
    Metric(
        "feature_problem_info", "", "1 for the reason why a feature is off or reduced; `numaudit doctor` says more.",
        ("feature", "reason"),
        lambda tick: [((feature.name, feature.reason), 1) for feature in tick.features if feature.reason],
    ),
    Metric(
        "ended_containers", "", "Ended containers that are still exported.",
        (), one(lambda tick: tick.ended_containers), item="container",
    ),
    Metric(
        "dropped_series_total", "", "Series left out because of metrics.max_series, counted in each tick.",
        ("reason",), lambda tick: [((reason,), count) for reason, count in tick.dropped_series.items()], since="agent",
        item="series",
    ),
    Metric(
        "omitted_series", "", "Container series that metrics.max_series leaves out now.",
        (), one(lambda tick: tick.omitted.series), item="series",
    ),
    Metric(
        "omitted_containers", "", "Containers that metrics.max_series leaves out now.",
        (), one(lambda tick: tick.omitted.containers), item="container",
    ),
    Metric(
        "build_info", "", "Version of numaudit; always 1.",
        ("version", "python"), lambda tick: (((tick.version, tick.python), 1),),
    ),
    Metric(
        "node_ended_cpu_seconds_total", "seconds",
        "CPU time of cgroups that lived between two ticks; no container series has it.",
        ("numa_node",), values.unseen(values.cpu_seconds), since="agent",
    ),
    Metric(
        "node_ended_allocated_bytes_total", "bytes",
        "Memory allocated to cgroups that lived between two ticks, by the CPU's node and the page's node.",
        ("cpu_numa_node", "numa_node", "locality"), values.unseen(values.allocated), since="agent",
    ),
    Metric(
        "node_ended_hint_faults_total", "",
        "Pages that NUMA balancing saw used by cgroups that lived between two ticks.",
        ("cpu_numa_node", "numa_node", "locality"), values.unseen(values.hint_faults), since="agent", item="fault",
    ),
    Metric(
        "restart_starts", "",
        "1 for the answer whether the kubelet would start again, after a restart or after a reboot of the node.",
        ("reboot", "starts"), own_values.restart_starts,
    ),
    Metric(
        "restart_refused_pods", "",
        "Pods that the kubelet would refuse after a restart, or after a reboot of the node, if it starts.",
        ("reboot",), own_values.refused_pods, item="pod",
    ),
    Metric(
        "memory_manager_fragmentation_ratio", "ratio",
        "1 minus the largest container of one node that is admitted, divided by the one that all free memory allows.",
        (), own_values.fragmentation, merged=None,
    ),
    Metric(
        "memory_manager_unpromised_bytes", "bytes",
        "Memory (anon and shmem) of Burstable containers, services and others that no promise covers.",
        ("numa_node",), own_values.unpromised,
    ),
    Metric(
        "memory_manager_encroached_bytes", "bytes",
        "Memory without a promise that exceeds the system's reservation, in memory that is free or promised.",
        ("numa_node", "state"), own_values.encroached,
    ),
)  # fmt: skip
