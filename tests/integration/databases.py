"""Real Prometheus and VictoriaMetrics servers, each in a folder and on a port of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitoring.recorded_scrapes import Recording
from processes.agent_process import PATIENCE
from required import tool

Labels = frozenset[tuple[str, str]]
Target = int | Mapping[str, int]
"""A port of 127.0.0.1, or several by the name of their node."""


@dataclass(frozen=True, slots=True)
class Database:
    """A server that answers PromQL."""

    url: str

    def get(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 (a JSON document)
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        with urllib.request.urlopen(f"{self.url}{path}{query}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def query(self, promql: str) -> dict[Labels, float]:
        """An instant query: labels -> value."""
        result = self.get("/api/v1/query", query=promql)["data"]["result"]
        return {frozenset(one["metric"].items()): float(one["value"][1]) for one in result}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_configuration(
    file: Path,
    targets: Sequence[Target],
    interval: str,
    path: Callable[[str], str] | None = None,
    rules: Path | None = None,
) -> None:
    """A name becomes the label `nodename`.

    `path`: name -> where its metrics are, for nodes that share a port; then the name is the instance, too.
    """
    groups: list[dict[str, Any]] = []
    for target in targets:
        for name, port in target.items() if isinstance(target, Mapping) else [("", target)]:
            labels = {"nodename": name} if name else {}
            if path is not None:
                labels |= {"__metrics_path__": path(name), "instance": name}
            groups.append({"targets": [f"127.0.0.1:{port}"], "labels": labels})
    config: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [{"job_name": "numaudit", "static_configs": groups}],
    }
    if rules is not None:
        config["global"]["evaluation_interval"] = interval
        config["rule_files"] = [str(rules)]
    file.write_text(json.dumps(config))


@contextmanager
def prometheus(
    binary: Path,
    folder: Path,
    *targets: Target,
    interval: str = "1s",
    lookback: str = "5m",
    path: Callable[[str], str] | None = None,
    rules: Path | None = None,
) -> Iterator[Database]:
    """Scrapes these. What is in `data` of the folder is there from the start."""
    port = free_port()
    _write_configuration(folder / "prometheus.json", targets, interval, path, rules)
    command = [str(binary), f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/data"]
    command += ["--storage.tsdb.retention.time=100y", f"--query.lookback-delta={lookback}"]
    with server([*command, f"--web.listen-address=127.0.0.1:{port}"], folder / "prometheus.log"):
        yield when_ready(Database(f"http://127.0.0.1:{port}"), "/-/ready")


def fill(folder: Path, recording: Recording) -> float:
    """Recorded scrapes as the data of a Prometheus that is not started yet; when the last one was."""
    text = folder / "scrapes.txt"
    text.write_text("".join(recording.openmetrics()))
    promtool = tool("prometheus").with_name("promtool")
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "data")]
    subprocess.run(command, check=True, capture_output=True)
    return recording.end


@contextmanager
def victoria_metrics(binary: Path, folder: Path, *targets: Target) -> Iterator[Database]:
    """Takes OTLP, with the names that Prometheus would have, and scrapes as `prometheus` does."""
    port = free_port()
    command = [str(binary), f"-storageDataPath={folder}/data", f"-httpListenAddr=127.0.0.1:{port}"]
    command += ["-opentelemetry.usePrometheusNaming", "-opentelemetry.promoteAllResourceAttributes=false"]
    command += ["-opentelemetry.promoteScopeMetadata=false", "-search.latencyOffset=0s", "-search.disableCache"]
    if targets:
        _write_configuration(folder / "scrape.json", targets, "1s")
        command += [f"-promscrape.config={folder}/scrape.json"]
    with server(command, folder / "victoria.log"):
        yield when_ready(Database(f"http://127.0.0.1:{port}"), "/health")


def alertmanager_program() -> list[str]:
    """The command of an Alertmanager, to which its options are added."""
    binary = tool("alertmanager")
    # Debian's has its templates at a fixed place, which is not on this system.
    mounted = f'mount --bind {binary.parents[1]}/share /usr/share && exec "$0" "$@"'
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", mounted, str(binary)]


@contextmanager
def server(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def when_ready(database: Database, path: str) -> Database:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{database.url}{path}", timeout=2).close()
            return database
        except OSError as error:
            assert time.monotonic() < end, f"{database.url} is not ready: {error}"
            time.sleep(0.1)
