"""The agent under attack: silent, slow, greedy, never-reading, half-handshake, huge-header, wrong-password clients.

Run: python tests/attack/attack.py [SECONDS]. A real agent with TLS and users serves 1,000 containers, and
752 clients on the loopback attack it all at once for two minutes. Meanwhile one scraper keeps its connection, one makes
a new one for each scrape, and a kubelet asks for health. It fails when a scrape or health takes more than a second or
gets a wrong answer, or when the agent takes more than 128 MiB.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bcrypt
import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from clients import KINDS, attacking
from hosts.node_tree import MIB, NodeTree
from processes.agent_process import Agent, Door, running_agent
from processes.certificates import Authority

MOST_SECONDS, MOST_MIB = 1.0, 128.0
PASSWORD = "open sesame"


@dataclass(slots=True)
class Probe:
    """One honest client: how long each of its requests took, and what was wrong with others."""

    name: str
    path: str
    pause: float
    keeps_connection: bool
    times: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def ask(self, agent: Agent, stop: threading.Event) -> None:
        connection = agent.connection()
        while not stop.wait(self.pause):
            begun = time.monotonic()
            try:
                self._ask_once(connection, agent.door)
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
                connection.close()
            self.times.append(time.monotonic() - begun)
            if not self.keeps_connection:
                connection.close()

    def _ask_once(self, connection: http.client.HTTPConnection, door: Door) -> None:
        """A closed connection is opened again once, as every scraper does."""
        for attempt in (1, 2):
            is_new = connection.sock is None
            try:
                connection.request("GET", self.path, headers={"Accept-Encoding": "gzip", **door.headers})
                answer = connection.getresponse()
                answer.read()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                if is_new or attempt == 2:
                    raise
        if answer.status != 200:
            self.wrong.append(str(answer.status))

    def line(self) -> str:
        times = sorted(self.times)
        middle, most = times[len(times) // 2] * 1000, times[-1] * 1000
        return f"{self.name:24} {len(times):5} requests, median {middle:6.1f} ms, worst {most:6.1f}, wrong {self.wrong}"


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    probes: tuple[Probe, ...]
    rss_before: float
    """MiB."""
    rss: float
    """MiB at most."""
    threads: int
    """At most."""
    evicted: float
    failed_ticks: float
    answers: dict[str, float]
    """By status code."""

    def problems(self) -> list[str]:
        """What is not as it must be."""
        found = [f"{one.name}: {one.wrong[:5]}" for one in self.probes if one.wrong or not one.times]
        found += [
            f"{one.name}: {max(one.times):.2f} s" for one in self.probes if max(one.times, default=0) > MOST_SECONDS
        ]
        found += [f"{self.rss:.0f} MiB"] if self.rss > MOST_MIB else []
        return found + (["ticks failed"] if self.failed_ticks else [])


def attack(folder: Path, seconds: float, containers: int) -> Outcome:
    """Attack an agent. Raises AssertionError when it does not start or ends."""
    tree = NodeTree(folder / "node")
    tree.fill(containers)
    door, config = _door(folder)
    settings = ("--root", str(tree.root), "--interval", "5s", "--set", f"web.config_file={config}")
    probes = (
        Probe("scraper", "/metrics", 0.5, keeps_connection=True),
        Probe("scraper that reconnects", "/metrics", 0.5, keeps_connection=False),
        Probe("health", "/-/healthy", 0.2, keeps_connection=False),
    )
    with running_agent(*settings, log=folder / "log", door=door) as agent:
        agent.samples()
        process = psutil.Process(agent.process.pid)
        before = process.memory_info().rss / MIB
        with attacking(agent.port, door.headers["Authorization"]):
            sizes = _watch(agent, process, probes, seconds)
        samples = agent.samples()
        codes: dict[str, float] = {}
        for labels, value in samples["numaudit_web_requests_total"].items():
            code = dict(labels)["code"]
            codes[code] = codes.get(code, 0) + value
        return Outcome(
            probes,
            before,
            max(rss for rss, _ in sizes),
            max(threads for _, threads in sizes),
            agent.value("numaudit_web_evicted_connections_total") or 0,
            agent.value("numaudit_failed_ticks_total") or 0,
            dict(sorted(codes.items())),
        )


def _door(folder: Path) -> tuple[Door, Path]:
    """TLS and a user, and the web-config file that asks for them."""
    authority = Authority(folder)
    certificate, key = authority.issue("localhost", folder)
    hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(10)).decode()
    config = folder / "web.yaml"
    config.write_text(
        f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n"
        f"basic_auth_users: {{prometheus: {hashed}}}\n"
    )
    authorization = "Basic " + base64.b64encode(f"prometheus:{PASSWORD}".encode()).decode()
    return Door(ssl.create_default_context(cafile=str(authority.certificate)), {"Authorization": authorization}), config


def _watch(agent: Agent, process: psutil.Process, probes: Sequence[Probe], seconds: float) -> list[tuple[float, int]]:
    """MiB and threads of the agent, again and again, while the honest clients ask."""
    stop, sizes = threading.Event(), []
    threads = [threading.Thread(target=one.ask, args=(agent, stop)) for one in probes]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sizes.append((process.memory_info().rss / MIB, process.num_threads()))
        time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    return sizes


def main(arguments: Sequence[str]) -> int:
    seconds = float(arguments[0]) if arguments else 120.0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        outcome = attack(Path(folder), seconds, containers=1000)
    print(
        f"{sum(KINDS.values())} clients attack for {seconds:.0f} s; allowed {MOST_SECONDS:.0f} s, {MOST_MIB:.0f} MiB:"
    )
    for probe in outcome.probes:
        print(f"  {probe.line()}")
    print(f"  memory {outcome.rss_before:.1f} MiB before, at most {outcome.rss:.1f}; at most {outcome.threads} threads")
    print(f"  {outcome.evicted:.0f} connections closed to make room; answers by status: {outcome.answers}")
    problems = outcome.problems()
    print("\n".join(f"FAILED {problem}" for problem in problems) or "nothing failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
