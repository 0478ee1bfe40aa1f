"""What a tick of the agent costs with 1,000 containers on two nodes, and how much memory the agent takes.

Run: python tests/bench/bench_tick.py. It runs real agents on a made-up two-node host, one with a push to an OTLP
receiver. Figures of the agent are its own:
the CPU time of its process, over ticks during which every container's figures changed.

It fails when a goal is missed: of the CPU time of ticks with rendering and packing (the least of several, by the
thread's own clock), all containers changing or none of them, and of the memory that the agent takes.

A made-up host runs no BPF programs. What their counters add is measured in this process, with maps that are filled by
hand: CPU time, allocated pages and hint faults, all of which change in every tick; then, besides, a scan pass of every
process that ends in every tick. There one tick follows another; an agent sleeps between two, and some machines wake up
slowly.
"""

from __future__ import annotations

import gzip
import re
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most, at_most_ms, cost, pick, run
from hosts.node_tree import MIB, NodeTree
from made_up.probes import Counters, made_up_session
from monitoring.otlp_receiver import OtlpReceiver
from numaudit.config.settings import Settings
from numaudit.daemon.agent import Agent as HostAgent
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.start import collect_garbage_rarely
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.prometheus import negotiate
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.snapshot.counted import HintFault
from processes.agent_process import Agent, running_agent

CONTAINERS, QUARTER, FEW = pick((1000, 250, 10), short=(100, 25, 10))
ALL_MS, QUARTER_MS, PROBES_MS, PASSES_MS = 60.0, 16.0, 95.0, 120.0
"""The first two also where no container's figures change."""
RSS_MIB, RSS_LARGE_MIB, RSS_OTLP_MIB = 52.0, 90.0, 128.0
LARGE_NODES = 8
"""Nodes of the machine on which the memory of an agent is measured once more."""
MANY_TIMES, MOST_FOR_MANY = 5, 5.2
"""So many times the containers take at most so many times the CPU time."""
SHORT_ALL, SHORT_QUARTER, SHORT_PROBES, SHORT_PASSES, SHORT_MANY = 8.0, 5.0, 15.0, 20.0, 7.0
"""Goals of the short form: in yardsticks, the last as a ratio."""
SHORT_RSS_MIB = 46.0
SECONDS = pick(15, short=6)
INTERVAL = pick(2, short=1)
PUSH_INTERVAL = pick(3, short=1)
_LOCAL, _REMOTE = HintFault(0, 0, 8), HintFault(0, 1, 0)
SCRAPES, ROUNDS = pick((50, 5), short=(5, 1))
Count = Callable[[Mapping[str, Counters], int, int, int, int], None]
"""Fills the maps of the probes for a cgroup's id, its process, the container's place, and the number of the tick."""
SCRAPER = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree = NodeTree(Path(folder) / "node")
        tree.fill(CONTAINERS)
        log, root = Path(folder) / "log", ("--root", str(tree.root), "--interval", f"{INTERVAL}s")
        with running_agent(*root, log=log) as agent:
            series = _scrape(f"http://127.0.0.1:{agent.port}/metrics")  # from now on each tick renders that form
            ticks = _cpu_ms_of_ticks(agent, tree)
            rss = _mib(agent.process.pid)
        with running_agent("--root", str(tree.root), "--interval", "1h", log=log) as agent:
            scrape = _scrape_cost(agent.process.pid, f"http://127.0.0.1:{agent.port}/metrics")
        with OtlpReceiver() as receiver:
            otlp = ("--set", f"otlp.endpoint={receiver.url}", "--set", f"otlp.interval={PUSH_INTERVAL}s")
            with running_agent(*root, *otlp, log=log) as agent:
                _scrape(f"http://127.0.0.1:{agent.port}/metrics")
                push = _push_ms(agent)
                rss_otlp = _mib(agent.process.pid)
        rss_large = _rss_on_a_large_machine(Path(folder), log)
        collect_garbage_rarely()
        awake, _ = _ticks_here(tree)
        still, _ = _ticks_here(tree, stays=True)
        probed, series_probed = _ticks_here(tree, count=_count)
        _write_status_of_processes(tree)
        passed, _ = _ticks_here(tree, count=_count_and_end_passes)
        many = NodeTree(Path(folder) / "many")
        many.fill(MANY_TIMES * CONTAINERS)
        times = min(_ticks_here(many)[0]) / min(awake)
        quarter = NodeTree(Path(folder) / "quarter")
        quarter.fill(QUARTER)
        of_quarter = max(min(_ticks_here(quarter)[0]), min(_ticks_here(quarter, stays=True)[0]))
        small = NodeTree(Path(folder) / "small")
        small.fill(FEW)
        few, _ = _ticks_here(small)
    _print_costs(min(few), min(awake), min(still), min(probed), min(passed))
    cost("scrape", f"a scrape of {series:,} series", scrape, "ms")
    cost("push", f"an OTLP push of {series:,} series", push, "ms")
    cost("agent", f"memory with {CONTAINERS:,} containers on 2 nodes", rss, "MiB")
    cost("agent", f"memory with {CONTAINERS:,} containers on {LARGE_NODES} nodes", rss_large, "MiB")
    cost("agent", f"memory with {CONTAINERS:,} containers on 2 nodes and OTLP", rss_otlp, "MiB")
    print(f"{series} series, with probes {series_probed}; ms of CPU, median, least and most:")
    found = {
        "an agent's ticks": ticks,
        "without sleep": awake,
        "none changes": still,
        "probes": probed,
        "passes": passed,
    }
    for what, spent in found.items():
        print(f"  {what:18}  {statistics.median(spent):7.1f} {min(spent):7.1f} {max(spent):7.1f}")
    at_most_ms("tick, render and gzip, all containers change", min(awake), ALL_MS, short=SHORT_ALL)
    at_most_ms("tick, render and gzip, none of them changes", min(still), ALL_MS, short=SHORT_ALL)
    at_most_ms(f"tick, render and gzip, {QUARTER} containers", of_quarter, QUARTER_MS, short=SHORT_QUARTER)
    at_most_ms("tick, render and gzip with all probes", min(probed), PROBES_MS, short=SHORT_PROBES)
    at_most_ms("the same, and every process ends a scan pass", min(passed), PASSES_MS, short=SHORT_PASSES)
    at_most(f"{MANY_TIMES} times the containers take", times, MOST_FOR_MANY, "times as long", short=SHORT_MANY)
    at_most("memory of the agent", rss, RSS_MIB, "MiB", short=SHORT_RSS_MIB)
    at_most(f"memory of the agent, {LARGE_NODES} nodes", rss_large, RSS_LARGE_MIB, "MiB", short=RSS_LARGE_MIB)
    at_most("memory of the agent with OTLP", rss_otlp, RSS_OTLP_MIB, "MiB", short=RSS_OTLP_MIB)


def _print_costs(few: float, changing: float, still: float, probed: float, passed: float) -> None:
    """A tick's CPU milliseconds in parts: two sizes of the node give what is paid once, and what for each container."""
    each = (changing - few) / (CONTAINERS - FEW)
    once = max(few - each * FEW, 0.0)
    cost("tick", "a tick with rendering and packing, without containers", once, "ms")
    cost("container and tick", "a container whose figures changed", 1000 * each, "us")
    cost(
        "container and tick",
        "a container whose figures are as before",
        1000 * max(still - once, 0.0) / CONTAINERS,
        "us",
    )
    counts, passes = 1000 * (probed - changing) / CONTAINERS, 1000 * (passed - probed) / CONTAINERS
    cost("container and tick", "what all probes count of a container, in addition", counts, "us")
    cost("container and tick", "a scan pass of its process, in addition", passes, "us")


def _rss_on_a_large_machine(folder: Path, log: Path) -> float:
    """MiB with as many containers, after ticks in which all of them changed."""
    tree = NodeTree(folder / "large", nodes=LARGE_NODES)
    tree.fill(CONTAINERS)
    with running_agent("--root", str(tree.root), "--interval", f"{INTERVAL}s", log=log) as agent:
        _scrape(f"http://127.0.0.1:{agent.port}/metrics")
        _cpu_ms_of_ticks(agent, tree)
        return _mib(agent.process.pid)


def _cpu_ms_of_ticks(agent: Agent, tree: NodeTree) -> list[float]:
    """What each of some ticks took. Between two of them, never during one, every container gets other figures."""
    spent = []
    paths = tree.containers()
    for number in range(SECONDS):
        for index, path in enumerate(paths):
            tree.hold(path, (MIB + index * 4096,) * (tree.nodes - 1) + (MIB + number * 4096,))
        time.sleep(INTERVAL)
        spent.append(_number(agent, "numaudit_tick_cpu_seconds") * 1000)
    return spent


def _ticks_here(tree: NodeTree, *, count: Count | None = None, stays: bool = False) -> tuple[list[float], int]:
    """CPU ms of each of some ticks in this process, and the series. Between two ticks every container changes,
    unless it `stays`. `count`: what probes count of it; None = there are none."""
    (tree.root / "proc/sys/kernel/numa_balancing").write_text("1\n")
    probes, session = made_up_session()
    settings = Settings(listen=("127.0.0.1", 0))
    observer = Observer.of(Host.under(tree.root))
    daemon = HostAgent.of(settings, Engine(observer, None if count is None else session), RateLimit())
    form, _ = negotiate(SCRAPER["Accept"], "gzip")
    cgroups = {path: (tree.root / f"sys/fs/cgroup{path}").stat().st_ino for path in tree.containers()}
    spent = []
    with daemon.server:
        for number in range(SECONDS):
            for index, (path, cgroup) in enumerate(cgroups.items()):
                if number and stays:
                    continue
                tree.hold(path, (MIB + index * 4096, MIB + number * 4096))
                if count is not None:
                    count(probes, cgroup, tree.process_of(path), index, number)
            begin = time.thread_time()
            daemon.ticker.tick()
            spent.append((time.thread_time() - begin) * 1000)
            daemon.ticker.pages.get(form)  # from the first scrape on, a tick renders that form
        assert daemon.ticker.newest.published is not None and not daemon.ticker.health.failed
        observer.files.close()  # the next agent in this process needs as many
        return spent[2:], daemon.ticker.newest.published.exposition.series


def _count(probes: Mapping[str, Counters], cgroup: int, _: int, index: int, number: int) -> None:
    """What the programs count of one container up to a tick."""
    probes["cpu_time"].by_cgroup[cgroup] = {0: number * 10**9 + index, 1: number * 10**8}
    probes["page_alloc"].by_cgroup[cgroup] = {(0, 0): number * MIB + index, (0, 1): number * 4096}
    probes["hint_faults"].by_cgroup[cgroup] = {_LOCAL: number * 100 + index, _REMOTE: number * 7}


def _count_and_end_passes(probes: Mapping[str, Counters], cgroup: int, process: int, index: int, number: int) -> None:
    """The same, and its process begins another scan pass each time."""
    _count(probes, cgroup, process, index, number)
    seen = {_LOCAL: 200 + number, _REMOTE: 50 + number}
    probes["hint_faults"].passes[cgroup] = {ScanPass(process, 1, one): PassUse(seen) for one in (number, number + 1)}


def _write_status_of_processes(tree: NodeTree) -> None:
    """Their memory, so that it can be asked for."""
    for path in tree.containers():
        status = tree.root / f"proc/{tree.process_of(path)}/status"
        status.write_text("RssAnon:\t2048 kB\nRssFile:\t512 kB\nRssShmem:\t0 kB\n")


def _number(agent: Agent, name: str) -> float:
    """By a packed scrape, so that no other form is rendered in each tick."""
    match = re.search(rf"^{name} (\S+)$", _body(f"http://127.0.0.1:{agent.port}/metrics").decode(), re.MULTILINE)
    assert match is not None
    return float(match[1])


def _push_ms(agent: Agent) -> float:
    """What one push took on average: the CPU time of its thread."""
    while not _pushes(agent):  # it begins after the first tick
        time.sleep(0.1)
    pushing = _lasting_tasks(agent.process.pid)[2]  # after the main thread and the web server's
    before, pushed = _cpu_ns(pushing), _pushes(agent)
    time.sleep(SECONDS)
    while _pushes(agent) == pushed:  # on a busy machine one may take longer
        time.sleep(0.1)
    return (_cpu_ns(pushing) - before) / 1e6 / (_pushes(agent) - pushed)


def _lasting_tasks(pid: int) -> list[Path]:
    """Threads in the order of their begin, without those of connections and of the loading of probes, which end."""
    tasks = sorted(Path(f"/proc/{pid}/task").iterdir(), key=lambda task: int(task.name))
    time.sleep(1)
    return [task for task in tasks if task.exists()]


def _pushes(agent: Agent) -> float:
    return agent.value("numaudit_otlp_batches_total", outcome="delivered") or 0


def _cpu_ns(task: Path) -> int:
    """Nanoseconds that a thread was on a CPU."""
    return int((task / "schedstat").read_text().split()[0])


def _mib(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / MIB


def _scrape(url: str) -> int:
    """The number of series."""
    return sum(not line.startswith(b"#") for line in _body(url).splitlines())


def _body(url: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=SCRAPER)) as answer:
        body: bytes = answer.read()
        return gzip.decompress(body) if answer.headers.get("Content-Encoding") == "gzip" else body


def _scrape_cost(pid: int, url: str, count: int = SCRAPES) -> float:
    """CPU ms of one scrape, the smallest of several runs."""
    costs = []
    for _ in range(ROUNDS):
        before = psutil.Process(pid).cpu_times()
        for _ in range(count):
            _scrape(url)
        after = psutil.Process(pid).cpu_times()
        costs.append((after.user + after.system - before.user - before.system) * 1000 / count)
    return min(costs)


if __name__ == "__main__":
    run(main)
