"""A real database takes the push, and has the report's numbers under Prometheus' names."""

from __future__ import annotations

from pathlib import Path

from databases import Database, victoria_metrics
from processes.agent_process import eventually, running_agent
from required import tool


def test_what_was_pushed_is_what_is_scraped(fixtures: Path, tmp_path: Path) -> None:
    with victoria_metrics(tool("victoria-metrics"), tmp_path) as database:
        settings = {"otlp.endpoint": f"{database.url}/opentelemetry/v1/metrics", "otlp.interval": "1s"}
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        root = str(fixtures / "kubernetes-four-nodes")
        with running_agent("--root", root, "--interval", "1s", *options, log=tmp_path / "log") as agent:
            assert eventually(lambda: (agent.value("numaudit_otlp_batches_total", outcome="delivered") or 0) >= 2)
            assert agent.value("numaudit_otlp_points_total", outcome="rejected") == 0
            scraped = agent.samples()
            assert eventually(lambda: len(database.query("numaudit_container_info")) > 0)
            for name, wanted in scraped.items():
                if not name.startswith(("numaudit_container_", "numaudit_node_")) or name.endswith("_created"):
                    continue
                assert _has_values(database, name, sorted(wanted.values())), name
            # The database makes of each pushed name the scraped one; `process.*` has the conventions' names.
            ours = {name for name in scraped if name.startswith("numaudit_") and not name.endswith("_created")}
            ours -= {"numaudit_process_threads"}
            assert eventually(lambda: _names(database) == ours), _names(database) ^ ours
            resident = database.query("numaudit_container_resident_bytes")
            for labels, value in scraped["numaudit_container_resident_bytes"].items():
                assert resident[_as_pushed(labels)] == value


def _has_values(database: Database, name: str, values: list[float]) -> bool:
    return eventually(lambda: sorted(database.query(name).values()) == values)


def _names(database: Database) -> set[str]:
    return {name for name in database.get("/api/v1/label/__name__/values")["data"] if name.startswith("numaudit_")}


_RENAMED = {
    "namespace": "k8s_namespace_name",
    "pod": "k8s_pod_name",
    "container": "k8s_container_name",
    "numa_node": "numaudit_numa_node_id",
    "type": "numaudit_memory_type",
}


def _as_pushed(labels: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    renamed = {(_RENAMED[name], value) for name, value in labels if value}
    return frozenset({("__name__", "numaudit_container_resident_bytes"), *renamed})
