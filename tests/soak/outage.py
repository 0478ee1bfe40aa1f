"""The agent while its OTLP receiver is down for minutes: it waits, and goes on as if nothing had been.

Run: python tests/soak/outage.py [SECONDS]. A receiver takes pushes for a minute, refuses connections for SECONDS (600),
and comes back at the same address for a minute, while the bytes of a hundred containers change. It fails when the
agent's memory grows meanwhile, when a tick fails, when pushes do not go on, or when what is pushed in the end is not
what the agent serves.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "support")]

from hosts.node_tree import MIB, NodeTree
from monitoring.otlp_receiver import OtlpReceiver
from processes.agent_process import Agent, eventually, running_agent

GROWTH_MIB = 2.0
"""What the memory's median of the outage's last third may be above that of its first third."""


@dataclass(slots=True)
class Outage:
    """What the agent did before, during and after it."""

    tree: NodeTree
    agent: Agent
    port: int
    rss: list[float] = field(default_factory=list)
    """MiB, while no receiver listened."""
    failed: float = 0
    """Pushes that failed."""
    differing: set[object] = field(default_factory=set)
    """Containers whose bytes came in otherwise than they are served, in the end."""

    def pass_by(self, before: float, down: float, after: float) -> None:
        """Seconds of each part. Raises AssertionError when no push comes in where one should."""
        with OtlpReceiver(self.port) as receiver:
            self._live(before)
            assert eventually(lambda: len(receiver.requests) >= 1)
        self.rss = self._live(down)
        assert eventually(lambda: (self.agent.value("numaudit_otlp_batches_total", outcome="failed") or 0) >= 1)
        self.failed = self.agent.value("numaudit_otlp_batches_total", outcome="failed") or 0
        with OtlpReceiver(self.port) as receiver:
            self._live(after)
            # From now on nothing changes, so that after two more ticks a push and a scrape are the same.
            ticks = self.agent.value("numaudit_ticks_total") or 0
            assert eventually(lambda: (self.agent.value("numaudit_ticks_total") or 0) >= ticks + 2)
            seen = len(receiver.requests)
            assert eventually(lambda: len(receiver.requests) >= seen + 2)
            served, pushed = judged_by_scrape(self.agent), judged_by_push(receiver)
        self.differing = set(served.items() ^ pushed.items())
        assert len(served) > 10

    def _live(self, seconds: float) -> list[float]:
        """Containers get other bytes each second; the agent's MiB meanwhile."""
        process, sizes, begun = psutil.Process(self.agent.process.pid), [], time.monotonic()
        while time.monotonic() - begun < seconds:
            for index, path in enumerate(self.tree.containers()):
                self.tree.hold(path, (MIB + index * 4096, int(time.monotonic()) * 4096))
            time.sleep(min(1.0, seconds / 10))
            sizes.append(process.memory_info().rss / MIB)
        return sizes


def judged_by_scrape(agent: Agent) -> dict[tuple[str, str], float]:
    """Pod and container -> judged bytes."""
    found = agent.samples()["numaudit_container_judged_bytes"]
    named = ((dict(labels), value) for labels, value in found.items())
    return {(labels["pod"], labels["container"]): value for labels, value in named if labels["pod"]}


def judged_by_push(receiver: OtlpReceiver) -> dict[tuple[str, str], float]:
    """The same of the newest push."""
    found = {}
    for (name, attributes), value in receiver.points().items():
        labels = dict(attributes)
        if name == "numaudit.container.judged" and "k8s.pod.name" in labels:
            found[str(labels["k8s.pod.name"]), str(labels.get("k8s.container.name", ""))] = value
    return found


def main(arguments: Sequence[str]) -> int:
    seconds = float(arguments[0]) if arguments else 600.0
    with OtlpReceiver() as receiver:
        port = receiver.server_address[1]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree = NodeTree(Path(folder) / "node")
        tree.fill(100)
        settings = ("--set", f"otlp.endpoint=http://127.0.0.1:{port}", "--set", "otlp.interval=5s")
        with running_agent("--root", str(tree.root), "--interval", "1s", *settings, log=Path(folder) / "log") as agent:
            outage = Outage(tree, agent, port)
            outage.pass_by(60, seconds, 60)
            delivered = agent.value("numaudit_otlp_batches_total", outcome="delivered")
            failed_ticks = agent.value("numaudit_failed_ticks_total") or 0
            lines = agent.log().count("\n")
            code, stopping = agent.stop(60)
    third = len(outage.rss) // 3
    first, last = statistics.median(outage.rss[:third]), statistics.median(outage.rss[-third:])
    flat = last <= first + GROWTH_MIB
    print(
        f"down for {seconds:.0f} s: {outage.failed:.0f} pushes failed, {delivered:.0f} were delivered before and after"
    )
    print(f"rss: median of the first third {first:.1f} MiB, of the last {last:.1f}: {'flat' if flat else 'GROWS'}")
    print(f"{len(outage.differing)} containers differ afterwards; {failed_ticks:.0f} failed ticks; {lines} log lines")
    print(f"stopped with {code} after {stopping:.2f} s")
    return 0 if flat and not outage.differing and not failed_ticks and not code else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
