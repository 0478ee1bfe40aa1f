"""One row for each metric family of the agent at the moment of the scrape."""

from __future__ import annotations

from numaudit.exporters.catalogue import values
from numaudit.exporters.facts import Live
from numaudit.exporters.metric import Metric, one

LIVE_METRICS: tuple[Metric[Live], ...] = (
    Metric(
        "snapshot_age_seconds", "seconds", "Age of the newest snapshot at the time of the scrape.",
        (), one(lambda live: live.snapshot_age),
    ),
    Metric(
        "ticks_total", "", "Ticks that produced a snapshot.",
        (), one(lambda live: live.ticks), since="agent", item="tick",
    ),
    Metric(
        "failed_ticks_total", "", "Ticks that produced no snapshot; the log says why.",
        (), one(lambda live: live.failed_ticks), since="agent", item="tick",
    ),
    Metric(
        "missed_ticks_total", "", "Ticks skipped because the previous one took too long.",
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
        "process_threads", "", "Threads of the agent.",
        (), one(lambda live: live.threads), item="thread", otel="process.thread.count",
    ),
    Metric(
        "process_cpu_seconds_total", "seconds", "CPU time of the agent, user and system.",
        (), one(lambda live: live.cpu_seconds), since="agent", is_standard=True, otel="process.cpu.time",
    ),
    Metric(
        "process_resident_memory_bytes", "bytes", "Resident memory of the agent.",
        (), one(lambda live: live.resident_bytes), is_standard=True, otel="process.memory.usage",
    ),
    Metric(
        "process_virtual_memory_bytes", "bytes", "Virtual memory of the agent.",
        (), one(lambda live: live.virtual_bytes), is_standard=True,
    ),
    Metric(
        "process_open_fds", "", "Open file descriptors of the agent.",
        (), one(lambda live: live.open_files), is_standard=True,
        item="file_descriptor", otel="process.unix.file_descriptor.count",
    ),
    Metric(
        "process_max_fds", "", "Maximum number of open file descriptors of the agent.",
        (), one(lambda live: live.most_files), is_standard=True,
    ),
    Metric(
        "process_start_time_seconds", "seconds", "Start time of the agent's process, in Unix time.",
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
        "web_config_valid", "", "1 if the web-config file is valid, 0 if not and the previous one stays in force.",
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
        "suppressed_log_lines_total", "", "Log lines suppressed because the same message came too often.",
        (), one(lambda live: live.suppressed_log_lines), since="agent", item="line",
    ),
    Metric(
        "otlp_last_success_timestamp_seconds", "seconds",
        "Unix time of the last OTLP push that was delivered as a whole; absent until then.",
        (), one(lambda live: None if live.otlp is None else live.otlp.last_success),
    ),
    Metric(
        "nrt_writes_total", "", "Writes to this node's NodeResourceTopology; none where nothing changed.",
        (), one(lambda live: None if live.nrt is None else live.nrt.writes), since="agent", item="write",
    ),
    Metric(
        "nrt_failures_total", "", "Failed attempts to publish this node's NodeResourceTopology, by reason.",
        ("reason",), values.nrt_failures, since="agent", item="failure",
    ),
    Metric(
        "nrt_last_success_timestamp_seconds", "seconds",
        "Unix time when this node's NodeResourceTopology last had all that the agent publishes; absent until then.",
        (), one(lambda live: None if live.nrt is None else live.nrt.last_success),
    ),
    Metric(
        "config_reload_success", "",
        "1 if the settings were valid when last read, 0 if not and the previous ones stay in force.",
        (), one(lambda live: None if live.reload_success is None else int(live.reload_success)),
    ),
    Metric(
        "config_reload_success_timestamp_seconds", "seconds", "Unix time when the settings in force were read.",
        (), one(lambda live: live.reloaded_at),
    ),
)  # fmt: skip
