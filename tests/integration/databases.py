"""Real Prometheus and VictoriaMetrics servers, each in a folder and on a port of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_process import PATIENCE

Labels = frozenset[tuple[str, str]]


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


@contextmanager
def prometheus(
    binary: Path, folder: Path, *targets: int, interval: str = "1s", rules: Path | None = None
) -> Iterator[Database]:
    """Scrapes 127.0.0.1 at these ports."""
    port = free_port()
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [] if rules is None else [str(rules)],
        "scrape_configs": [
            {"job_name": "numaudit", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in targets]}]}
        ],
    }
    (folder / "prometheus.json").write_text(json.dumps(config))
    command = [str(binary), f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/data"]
    with server([*command, f"--web.listen-address=127.0.0.1:{port}"], folder / "prometheus.log"):
        yield _when_ready(Database(f"http://127.0.0.1:{port}"), "/-/ready")


@contextmanager
def victoria_metrics(binary: Path, folder: Path) -> Iterator[Database]:
    """Takes OTLP, with the names that Prometheus would have."""
    port = free_port()
    command = [str(binary), f"-storageDataPath={folder}/data", f"-httpListenAddr=127.0.0.1:{port}"]
    command += ["-opentelemetry.usePrometheusNaming", "-opentelemetry.promoteAllResourceAttributes=false"]
    command += ["-opentelemetry.promoteScopeMetadata=false", "-search.latencyOffset=0s", "-search.disableCache"]
    with server(command, folder / "victoria.log"):
        yield _when_ready(Database(f"http://127.0.0.1:{port}"), "/health")


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


def _when_ready(database: Database, path: str) -> Database:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{database.url}{path}", timeout=2).close()
            return database
        except OSError as error:
            assert time.monotonic() < end, f"{database.url} is not ready: {error}"
            time.sleep(0.1)
