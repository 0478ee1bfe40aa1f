"""A running `numaudit agent`, for tests."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
NUMAUDIT = (sys.executable, "-c", "from numaudit.cli.start import run; run()")
COMPILING = (
    "from pathlib import Path; from numaudit.probes.loading import program_sources; "
    "program_sources.bytecode_folder = Path; "
)
"""Before the program: it finds no bytecode, so its loader needs bcc, and takes a while."""
PATIENCE = 120.0
"""Seconds for anything that takes moments on an idle machine: only a defect takes as long."""
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True, slots=True)
class Door:
    """What a client needs to get in."""

    tls: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent process."""

    process: subprocess.Popen[bytes]
    log_file: Path
    port: int
    door: Door = Door()

    def connection(self) -> http.client.HTTPConnection:
        if self.door.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.door.tls)

    def get(self, path: str, accept: str = OPENMETRICS) -> tuple[int, str]:
        connection = self.connection()
        try:
            connection.request("GET", path, headers={"Accept": accept, **self.door.headers})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def samples(self) -> dict[str, dict[Labels, float]]:
        """Metric name -> labels -> value of one scrape."""
        found: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample of a name that has these labels; None when there is none."""
        wanted = set(labels.items())
        found = [value for have, value in self.samples().get(name, {}).items() if wanted <= have]
        assert len(found) <= 1, f"{name} {labels}: {len(found)} series"
        return found[0] if found else None

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/report.json")[1])
        return found

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def stop(self, timeout: float = PATIENCE) -> tuple[int, float]:
        """SIGTERM; the exit code and the seconds it took."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout), time.monotonic() - begun


@contextmanager
def running_agent(
    *arguments: str,
    log: Path,
    before: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    program: str = "",
    ready_within: float = 2 * PATIENCE,
    door: Door = Door(),
) -> Iterator[Agent]:
    """Start an agent on a free port and wait for its first snapshot. `before` wraps the command (unshare, ...).

    `program` is Python that its process runs first.
    """
    command = [*before, *NUMAUDIT[:2], program + NUMAUDIT[2], "agent", "--listen", "127.0.0.1:0", *arguments]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env={**os.environ, **(environment or {})})
    try:
        port = _wait(lambda: port_of(log), process, log, ready_within)
        agent = Agent(process, log, port, door)
        _wait(lambda: agent.get("/-/ready")[0] == 200 or None, process, log, ready_within)
        yield agent
    finally:
        process.kill()
        process.wait()


def eventually(check: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether a check comes true in time. Whoever is asked gets time for work of its own."""
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        if check():
            return True
        time.sleep(min(max(0.05, 2 * (time.monotonic() - began)), 2.0))
    return check()


def port_of(log: Path) -> int | None:
    """Where the agent of this log serves; None = it does not yet."""
    match = re.search(r"serves http on \S+:(\d+)", log.read_text(errors="replace"))
    return None if match is None else int(match[1])


def _wait(ask: Callable[[], int | None], process: subprocess.Popen[bytes], log: Path, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            found = ask()
        except OSError:
            found = None
        if found is not None:
            return int(found)
        assert process.poll() is None, f"the agent ended with {process.returncode}:\n{log.read_text(errors='replace')}"
        time.sleep(0.02)
    raise AssertionError(f"the agent was not ready in {seconds} s:\n{log.read_text(errors='replace')}")
