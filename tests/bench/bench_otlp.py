"""What the OTLP push costs with 1,000 containers on eight nodes, every probe's counters included.

Run: python tests/bench/bench_otlp.py. A process of its own ticks on a made-up host whose probes' maps are filled by
hand, renders for a scraper, and pushes to a receiver in this process, so that ticks and pushes overlap. Its peak memory
is the kernel's VmHWM; the CPU time of a push is that of the pushing thread.

It fails when the peak is over 160 MiB.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most
from hosts.node_tree import MIB, NodeTree
from made_up.probes import Counters, made_up_session
from monitoring.otlp_receiver import OtlpReceiver
from numaudit.config.settings import OtlpSettings, Settings
from numaudit.daemon import memory
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.prometheus import negotiate
from numaudit.kernel.host import Host
from numaudit.snapshot.counted import HintFault
from processes.agent_process import PATIENCE, eventually
from short import pick, run

NODES = 8
CONTAINERS = pick(1000, short=20)
TICKS = pick(12, short=4)
TICK_EVERY, PUSH_EVERY = 1.0, 1.0
"""Seconds: far more often than the agent does, so that a tick and a push are under way at the same time."""
PEAK_MIB, RSS_MIB = 160.0, 90.0
_AGENT = "--agent"


def main() -> None:
    if _AGENT in sys.argv:
        _agent(*sys.argv[sys.argv.index(_AGENT) + 1 :][:2])
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, OtlpReceiver(keeps=0) as receiver:
        tree = NodeTree(Path(folder) / "node", nodes=NODES)
        tree.fill(CONTAINERS)
        command = [sys.executable, __file__, *sys.argv[1:], _AGENT, str(tree.root), receiver.url]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    series, tick, push, before, peak = (float(word) for word in done.stdout.split())
    print(f"{CONTAINERS} containers x {NODES} nodes with every probe, {series:.0f} series:")
    print(f"  peak before pushes  {before:7.1f} MiB")
    print(f"  peak memory         {peak:7.1f} MiB, allowed {PEAK_MIB:.0f}")
    print(f"  OTLP push           {push:7.1f} ms CPU; {push / 600:.2f} % of a core at 60 s")
    print(f"  one tick            {tick:7.1f} ms CPU; with pushes {tick / 150 + push / 600:.2f} % of a core")
    at_most("peak memory with OTLP, 8 nodes x 1,000 containers", peak, PEAK_MIB, "MiB", short=PEAK_MIB / 2)
    at_most("memory before pushes, 8 nodes x 1,000 containers", before, RSS_MIB, "MiB", short=RSS_MIB)


def _agent(root: str, receiver: str) -> int:
    """Tick and push. Print: series, CPU ms of a tick and of a push, peak MiB before the first push and in all."""
    memory.limit_heap()
    probes, session = made_up_session()
    settings = Settings(
        listen=("127.0.0.1", 0), otlp=OtlpSettings(endpoint=receiver, interval=PUSH_EVERY, timeout=PATIENCE)
    )
    daemon = Agent.of(settings, Engine(Observer.of(Host.under(Path(root))), session), RateLimit())
    memory.collect_garbage_rarely()
    cgroups = [path.stat().st_ino for path in Path(root).glob("sys/fs/cgroup/kubepods.slice/*/cri-*.scope")]
    form, _ = negotiate("application/openmetrics-text; version=1.0.0", "gzip")
    with daemon.server:
        for number in range(3):
            _count(probes, cgroups, number)
            daemon.ticker.tick()
            daemon.ticker.pages.get(form)
        before = _peak_mib()
        daemon.push.start()
        (pushing,) = [thread.native_id for thread in threading.enumerate() if thread.name == "otlp"]
        spent = 0.0
        for number in range(TICKS):
            _count(probes, cgroups, 3 + number)
            begin = time.thread_time()
            daemon.ticker.tick()
            spent += time.thread_time() - begin
            time.sleep(TICK_EVERY)
        assert daemon.ticker.newest.published is not None and not daemon.ticker.health.failed
        assert eventually(lambda: daemon.push.counts.deliveries >= 3)
        push = (
            int(Path(f"/proc/self/task/{pushing}/schedstat").read_text().split()[0])
            / 1e6
            / daemon.push.counts.deliveries
        )
        figures = daemon.ticker.newest.published.exposition.series, spent * 1000 / TICKS, push, before, _peak_mib()
    print(*figures, flush=True)
    os._exit(0)


def _count(probes: dict[str, Counters], cgroups: list[int], number: int) -> None:
    """What the probes of each container have counted so far: on two nodes, as with containers that are placed well."""
    for index, cgroup in enumerate(cgroups):
        home, other = index % NODES, (index + 1) % NODES
        probes["cpu_time"].by_cgroup[cgroup] = {home: number * 10**9 + index, other: number * 10**8}
        probes["page_alloc"].by_cgroup[cgroup] = {(home, node): (number + 1) * MIB + index for node in range(NODES)} | {
            (other, node): (number + 1) * 4096 for node in range(NODES)
        }
        faults = {HintFault(home, node, 0 if node != home else 8): number * 100 + index for node in range(NODES)}
        probes["hint_faults"].by_cgroup[cgroup] = faults


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    run(main)
