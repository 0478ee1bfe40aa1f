"""The agent for many minutes under churn: memory, files, threads and maps stay as they are, and nothing is lost.

Run: python tests/soak/soak.py [SECONDS [CONTAINERS_PER_SECOND]]. A scraper fetches every two seconds, and an OTLP
receiver takes a push every five, while containers come and go among a hundred that stay. It fails when the agent takes
more in the last third than in the middle third, when a container that lived two ticks was in no scrape, or when one
was shown under a wrong name.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from churn import Churn
from hosts.node_tree import MIB, NodeTree
from monitoring.otlp_receiver import OtlpReceiver
from processes.agent_process import Agent, running_agent

INTERVAL = 1.0
GROWTH_MIB, GROWTH_SHARE = 2.0, 0.05
"""What the median of the last third may be above that of the middle third, the larger of the two. Single figures are
taken amid a push, or while ten times as many containers are kept as live; they differ by a fifth at 100 a second."""
LEAST_OWED = 0.5
"""The share of those that lived for three intervals that must have lived two ticks: else ticks came too late."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a process has at one moment."""

    at: float
    rss: float
    files: int
    threads: int
    maps: int
    cpu: float

    def __str__(self) -> str:
        return (
            f"{self.at:6.0f} s  {self.rss:6.1f} MiB  {self.files:4} files  {self.threads:3} threads  {self.maps:4} maps"
            f"  {self.cpu / max(self.at, 1) * 100:5.1f} % CPU"
        )


def main(arguments: Sequence[str]) -> int:
    seconds = float(arguments[0]) if arguments else 1200.0
    rate = float(arguments[1]) if len(arguments) > 1 else 10.0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, OtlpReceiver() as receiver:
        tree = NodeTree(Path(folder) / "node")
        tree.fill(100)
        settings = (
            "--interval",
            f"{INTERVAL:g}s",
            "--set",
            f"otlp.endpoint={receiver.url}",
            "--set",
            "otlp.interval=5s",
        )
        with running_agent("--root", str(tree.root), *settings, log=Path(folder) / "log") as agent:
            churn = Churn(tree, rate, life=6.0, interval=INTERVAL)
            with churn.running(agent, scrape_every=2.0):
                sizes = _watch(agent, receiver, seconds)
            failed = _judge(sizes, churn, agent)
            code, stopping = agent.stop(60)
            print(f"stopped with {code} after {stopping:.2f} s")
            if failed:
                print(agent.log()[-3000:])
    return 1 if failed or code else 0


def _watch(agent: Agent, receiver: OtlpReceiver, seconds: float) -> list[Sizes]:
    process, begun, sizes = psutil.Process(agent.process.pid), time.monotonic(), []
    while (at := time.monotonic() - begun) < seconds:
        time.sleep(min(5.0, seconds / 60))
        sizes.append(sizes_of(process.pid, at))
        if len(sizes) % 12 == 1:
            print(f"{sizes[-1]}  {len(receiver.requests)} pushes", flush=True)
        del receiver.requests[:-1], receiver.headers[:-1]
    return sizes


def sizes_of(pid: int, at: float) -> Sizes:
    """What a process has now."""
    process = psutil.Process(pid)
    cpu = process.cpu_times()
    maps = Path(f"/proc/{pid}/maps").read_text().count("\n")
    rss, files, threads = process.memory_info().rss / MIB, process.num_fds(), process.num_threads()
    return Sizes(at, rss, files, threads, maps, cpu.user + cpu.system)


def grows(sizes: Sequence[Sizes]) -> bool:
    """Whether there is more of anything in the last third than in the middle one; printed, too."""
    third = len(sizes) // 3
    middle, last = sizes[third : 2 * third], sizes[2 * third :]
    failed = False
    for name, allowed in (("rss", GROWTH_MIB), ("files", 20), ("threads", 2), ("maps", 10)):
        before, after = (statistics.median(getattr(one, name) for one in part) for part in (middle, last))
        ok = after <= before + max(allowed, GROWTH_SHARE * before if name == "rss" else 0)
        failed |= not ok
        verdict = "flat" if ok else "GROWS"
        print(f"{name:8} median of the middle third {before:8.1f}, of the last third {after:8.1f}: {verdict}")
    return failed


def _judge(sizes: Sequence[Sizes], churn: Churn, agent: Agent) -> bool:
    failed = grows(sizes)
    owed, unseen, wrong = churn.owed(), churn.unseen(), churn.misattributed()
    print(f"{churn.started} containers, {churn.scrapes} scrapes; {len(owed)} lived two ticks")
    if len(owed) < LEAST_OWED * churn.lived_long():
        print(f"of {churn.lived_long()} that lived three intervals: too few for a result")
        failed = True
    print(f"of those {len(unseen)} unseen; {len(wrong)} names misattributed; {churn.late_answers} answers came late")
    counts = agent.samples()
    for name in ("ticks_total", "failed_ticks_total", "missed_ticks_total", "dropped_series_total"):
        print(f"{name}: {sum(counts[f'numaudit_{name}'].values()):.0f}")
    failed_ticks = next(iter(counts["numaudit_failed_ticks_total"].values()))
    return bool(failed or unseen or wrong or failed_ticks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
