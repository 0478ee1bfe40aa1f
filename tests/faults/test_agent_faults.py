"""The agent goes on whatever breaks around it, or ends with a clear message."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.resources import Resource

from hosts.node_tree import MIB, NodeTree
from kubelets.http import replies, serving
from kubelets.steps import Step
from monitoring.otlp_receiver import Answer, OtlpReceiver
from numaudit.config.settings import Settings
from numaudit.daemon.agent import Agent as HostAgent
from numaudit.daemon.logs import RateLimit
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.otel import requests
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host, KubeletConnection
from numaudit.kubelet.sources import polled
from numaudit.probes.kinds import KINDS
from processes.agent_process import NUMAUDIT, PATIENCE, Agent, eventually, running_agent
from processes.hostile_http import FILLING, KEEPING, hostile

MOST_GROWTH = 48 * MIB
"""What the agent gains anyhow in its first ticks is less than half of it; a bomb is 64 MiB and more."""
PROMPTLY = 10.0
"""Seconds that a busy machine may take for what takes a moment; two of them are for what does not end by itself."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and cgroups need root")


@pytest.fixture
def agent(tree: NodeTree, tmp_path: Path) -> Iterator[Agent]:
    with running_agent("--root", str(tree.root), "--interval", "1s", log=tmp_path / "log") as running:
        yield running


def _headers(agent: Agent, method: str, path: str, **asked: str) -> tuple[int, dict[str, str], bytes]:
    connection = agent.connection()
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in asked.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()
    finally:
        connection.close()


def test_the_page_and_the_report_are_of_one_tick_and_come_once(tree: NodeTree, tmp_path: Path) -> None:
    with running_agent("--root", str(tree.root), "--interval", "1h", log=tmp_path / "log") as agent:
        status, page, body = _headers(agent, "GET", "/")
        assert (status, page["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"prod/db-0/db" in body
        assert page["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert page["X-Content-Type-Options"] == "nosniff"
        assert 0 <= float(page["Numaudit-Age"]) < PATIENCE
        assert page["Numaudit-Interval"] == "3600"
        status, head, nothing = _headers(agent, "HEAD", "/")
        assert (status, head["Content-Length"], nothing) == (200, str(len(body)), b"")
        for path in ("/", "/report.json"):
            status, again, nothing = _headers(agent, "GET", path, If_None_Match=page["ETag"])
            assert (status, again["ETag"], nothing) == (304, page["ETag"], b"")


def test_the_agent_serves_what_the_report_says_and_stops_at_once(agent: Agent) -> None:
    (container,) = [one for one in agent.report()["containers"] if one["container"] == "db"]
    assert container["judgedBytes"] == agent.value("numaudit_container_judged_bytes", container="db")
    assert agent.stop()[0] == 0
    assert agent.log().rstrip().endswith("ticks")


def test_an_empty_list_of_probes_runs_none_and_speaks_of_none(tree: NodeTree, tmp_path: Path) -> None:
    arguments = ("--root", str(tree.root), "--set", "probes=")
    with running_agent(*arguments, log=tmp_path / "log") as agent:
        asked = {dict(labels)["collector"] for labels in agent.samples()["numaudit_collector_success"]}
        assert "residency" in asked
        assert asked.isdisjoint(kind.name for kind in KINDS)
        assert "probes" not in agent.log()


def test_a_failing_collector_stops_no_other_and_recovers(agent: Agent, tree: NodeTree) -> None:
    mounts = tree.root / "sys/devices/system/node/node0/meminfo"
    good = mounts.read_text()
    mounts.write_text("nonsense\n")
    assert eventually(lambda: agent.value("numaudit_node_memory_total_bytes", numa_node="0") is None)
    assert agent.value("numaudit_container_judged_bytes", container="db") == 7 * MIB + 4096 * 3
    mounts.write_text(good)
    assert eventually(lambda: agent.value("numaudit_node_memory_total_bytes", numa_node="0") is not None)


def test_cgroups_that_vanish_as_a_whole_are_logged_once_and_come_back(agent: Agent, tree: NodeTree) -> None:
    folder = tree.root / "sys/fs/cgroup"
    folder.rename(tree.root / "hidden")
    assert eventually(lambda: agent.value("numaudit_collector_success", collector="cgroups") == 0)
    seen = agent.value("numaudit_ticks_total") or 0
    assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= seen + 2)
    (tree.root / "hidden").rename(folder)
    assert eventually(lambda: agent.value("numaudit_collector_success", collector="cgroups") == 1)
    assert eventually(lambda: agent.log().count("cgroups: ok") == 1)
    assert agent.log().count("cgroups: unavailable") == 1


def test_a_kubelet_that_comes_and_goes_is_a_change_of_state(agent: Agent, tree: NodeTree) -> None:
    assert agent.value("numaudit_collector_success", collector="intent") is None
    assert agent.value("numaudit_feature_enabled", feature="kubelet") == 0
    kubelet = tree.root / "var/lib/kubelet"
    kubelet.mkdir(parents=True)
    (kubelet / "memory_manager_state").write_text("{torn")
    assert eventually(lambda: agent.value("numaudit_collector_success", collector="intent") == 1)
    assert eventually(lambda: agent.value("numaudit_feature_enabled", feature="kubelet") == 1)
    shutil.rmtree(kubelet)
    assert eventually(lambda: agent.value("numaudit_collector_success", collector="intent") == 0)
    assert eventually(lambda: agent.value("numaudit_feature_enabled", feature="kubelet") == 0)
    assert (agent.log().count("intent: absent"), agent.log().count("intent: unavailable")) == (1, 1)


def test_a_stopped_agent_counts_the_ticks_it_missed_and_makes_none_up(agent: Agent) -> None:
    agent.process.send_signal(signal.SIGSTOP)
    time.sleep(4.5)  # long enough for the ticks of four intervals to be missed
    agent.process.send_signal(signal.SIGCONT)
    assert eventually(lambda: (agent.value("numaudit_missed_ticks_total") or 0) >= 2)
    assert eventually(lambda: (agent.value("numaudit_snapshot_age_seconds") or 0) < 2.5)


def test_a_push_that_hangs_delays_neither_ticks_nor_the_end(tree: NodeTree, tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        receiver.answers = [Answer(hangs=True)] * 5
        otlp = ("--set", f"otlp.endpoint={receiver.url}", "--set", "otlp.timeout=300s")
        with running_agent("--root", str(tree.root), "--interval", "1s", *otlp, log=tmp_path / "log") as agent:
            assert receiver.got_one.wait(PATIENCE)
            before = agent.value("numaudit_ticks_total") or 0
            assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= before + 3)
            assert agent.stop()[0] == 0  # the receiver hangs until the block ends


def test_an_agent_that_cannot_end_cleanly_in_time_leaves_anyway(tree: NodeTree, tmp_path: Path) -> None:
    hang = "import time; from numaudit.daemon.web import server; server.Server.stop = lambda *_: time.sleep(10**6); "
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        program = [*NUMAUDIT[:2], hang + NUMAUDIT[2], "agent", "--root", str(tree.root), "--listen", "127.0.0.1:0"]
        process = subprocess.Popen(program, stderr=stderr)
    try:
        assert eventually(lambda: "serves http" in log.read_text())
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert "the agent exits without them" in log.read_text()
    finally:
        process.kill()


def test_a_receiver_that_comes_back_gets_what_is_true_then(tree: NodeTree, tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        receiver.answers = [Answer(400)] * 3
        otlp = ("--set", f"otlp.endpoint={receiver.url}", "--set", "otlp.interval=1s", "--set", "otlp.timeout=60s")
        with running_agent("--root", str(tree.root), "--interval", "1s", *otlp, log=tmp_path / "log") as agent:
            assert eventually(lambda: agent.value("numaudit_otlp_batches_total", outcome="failed") == 3)
            ticks = agent.value("numaudit_ticks_total") or 0
            assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= ticks + 2)
            seen = len(receiver.requests)
            assert eventually(lambda: len(receiver.requests) >= seen + 2)  # one may have been on its way
            assert (agent.value("numaudit_otlp_batches_total", outcome="delivered") or 0) >= 1
            assert agent.value("numaudit_otlp_batches_total", outcome="failed") == 3
            assert agent.log().count("failed; the agent keeps trying") == 1
            assert receiver.points()["numaudit.ticks", frozenset()] >= ticks + 2


@needs_root
def test_a_full_disk_changes_nothing(tree: NodeTree, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)], check=True)
    try:
        log = full / "log"
        arguments = ("--root", str(tree.root), "--interval", "1s")
        with running_agent(*arguments, log=log, environment={"TMPDIR": str(full)}) as agent:
            with pytest.raises(OSError, match="No space"):
                (full / "filler").write_bytes(b"x" * 100_000)
            (tree.root / "sys/fs/cgroup").rename(tree.root / "hidden")  # something to write about
            before = agent.value("numaudit_ticks_total") or 0
            assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= before + 3)
            assert agent.stop()[0] == 0
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)


@needs_root
def test_the_agent_needs_to_write_nowhere(tree: NodeTree, tmp_path: Path) -> None:
    read_only = 'mount -o remount,bind,ro / && exec "$0" "$@"'
    before = ("unshare", "--mount", "sh", "-c", read_only)
    with running_agent("--root", str(tree.root), "--interval", "1s", log=tmp_path / "log", before=before) as agent:
        assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= 2)
        assert agent.stop()[0] == 0


def test_an_agent_that_strangers_can_reach_says_so_once(tree: NodeTree, tmp_path: Path) -> None:
    with running_agent(
        "--root", str(tree.root), "--interval", "1s", "--listen", "0.0.0.0:0", log=tmp_path / "log"
    ) as one:
        assert eventually(lambda: (one.value("numaudit_ticks_total") or 0) >= 3)
        assert one.log().count("may read the names of pods and namespaces") == 1
        assert " WARNING " in next(line for line in one.log().splitlines() if "may read" in line)


@needs_root
def test_an_agent_limited_to_160_mib_works_or_says_why_not(tree: NodeTree, tmp_path: Path) -> None:
    hierarchies = find_hierarchies(Host())
    group = hierarchies.memory / f"numaudit-test-{os.getpid()}"
    limit = group / ("memory.max" if hierarchies.is_v2 else "memory.limit_in_bytes")
    tree.fill(1000)
    group.mkdir()
    try:
        limit.write_text(str(160 * MIB))
        enter = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$0" "$@"')
        arguments = ("--interval", "1s")
        # First on this host, where BPF programs are compiled within the limit, then with many containers.
        with OtlpReceiver() as receiver:
            otlp = ("--set", f"otlp.endpoint={receiver.url}", "--set", "otlp.interval=2s")
            for more in ((), ("--root", str(tree.root), *otlp)):
                with running_agent(*arguments, *more, log=tmp_path / "log", before=enter) as agent:
                    assert eventually(lambda agent=agent: (agent.value("numaudit_ticks_total") or 0) >= 5)  # type: ignore[misc]
                    features = agent.samples()["numaudit_feature_enabled"]
                    problems = {dict(labels)["feature"] for labels in agent.samples()["numaudit_feature_problem_info"]}
                    assert all(value == 1 or dict(labels)["feature"] in problems for labels, value in features.items())
                    assert not more or (agent.value("numaudit_otlp_batches_total", outcome="delivered") or 0) >= 2
                    assert agent.stop()[0] == 0
            sent = [name for number in range(len(receiver.requests)) for name, _ in receiver.points(number)]
            assert sent.count("numaudit.container.judged") > 1000
    finally:
        group.rmdir()


@pytest.mark.parametrize("step", [3600, -3600])
def test_a_step_of_the_wall_clock_changes_neither_ticks_nor_ages_nor_beginnings(
    step: int, tree: NodeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Observer.of(Host.under(tree.root))
    daemon = HostAgent.of(Settings(listen=("127.0.0.1", 0)), Engine(observer), RateLimit())
    try:
        daemon.ticker.tick()
        before, real = _created(daemon), time.time
        monkeypatch.setattr(time, "time", lambda: real() + step)
        assert 0 <= (daemon.live.now().snapshot_age or 0) < 60
        daemon.ticker.tick()
        assert 0 <= (daemon.live.now().snapshot_age or 0) < 60
        assert (daemon.ticker.health.succeeded, daemon.ticker.health.failed, daemon.ticker.schedule.missed) == (2, 0, 0)
        # A counter that began at 0 again would pass for a restart to Prometheus.
        assert _created(daemon) == before
        (part,) = requests(daemon.live.with_newest_tick(), Resource({}), time.time())
        (pushed,) = ExportMetricsServiceRequest.FromString(part.body).resource_metrics[0].scope_metrics
        points = [point for one in pushed.metrics for point in (*one.sum.data_points, *one.gauge.data_points)]
        assert all(point.start_time_unix_nano <= point.time_unix_nano for point in points)
    finally:
        daemon.server.server_close()


def test_what_waits_to_be_done_is_done_even_when_every_tick_takes_too_long(tree: NodeTree) -> None:
    daemon = HostAgent.of(Settings(listen=("127.0.0.1", 0)), Engine(Observer.of(Host.under(tree.root))), RateLimit())
    try:
        done: list[int] = []
        for number in range(3):
            daemon.loop.inbox.put(lambda number=number: done.append(number))  # type: ignore[misc]
        daemon.loop.wait_until(time.monotonic() - 1)
        assert done == [0, 1, 2]
    finally:
        daemon.server.server_close()


def _created(daemon: HostAgent) -> dict[tuple[str, str, str], float]:
    assert daemon.ticker.newest.published is not None
    assert daemon.ticker.newest.published.exposition.created
    return dict(daemon.ticker.newest.published.exposition.created)


def test_a_kubelet_that_is_down_is_logged_once_and_asked_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its /pods by HTTP, and its checkpoints, which stay where they are while it is down."""
    caplog.set_level("INFO", logger="numaudit")
    clock = [1000.0]
    monkeypatch.setattr(polled, "monotonic", lambda: clock[0])
    step = Step("standalone-single-numa-node/1-running")
    kubelet = step.tree(tmp_path / "tree").kubelet
    with serving(replies(step.read("pods.json"))) as url:
        port = int(url.rpartition(":")[2])
        observer = Observer.of(Host(kubelet_root=str(kubelet), connection=KubeletConnection(url)))
        daemon = HostAgent.of(Settings(listen=("127.0.0.1", 0)), Engine(observer), RateLimit())
        daemon.ticker.tick()
        pods = _pods(daemon)
        assert len(pods) > 3
    try:
        clock[0] += 100
        daemon.ticker.tick()
        assert (_state(daemon, "pods"), _state(daemon, "memory checkpoint")) == ("partial", "ok")
        assert _pods(daemon) == pods
        with serving(replies(step.read("pods.json")), port):
            daemon.ticker.tick()
            assert _state(daemon, "pods") == "partial"  # not asked again at once
            clock[0] += polled.RETRY_AFTER
            daemon.ticker.tick()
            assert (_state(daemon, "pods"), _pods(daemon)) == ("ok", pods)
        lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("pods: ")]
        assert [line.split(": ")[1] for line in lines] == ["partial", "ok"]
    finally:
        daemon.server.server_close()


def _state(daemon: HostAgent, source: str) -> str:
    assert daemon.ticker.newest.published is not None
    (state,) = [one.state for one in daemon.ticker.newest.published.ticked.report.sources if one.source == source]
    return state


def _pods(daemon: HostAgent) -> set[str]:
    assert daemon.ticker.newest.published is not None
    assert daemon.ticker.newest.published.ticked.snapshot.intent is not None
    return set(daemon.ticker.newest.published.ticked.snapshot.intent.pods or {})


@pytest.mark.parametrize("how", ["says nothing", "drips its head", "says to go on", "packs twice", "packs zeros"])
def test_under_a_hostile_kubelet_an_agent_ticks_stays_small_and_ends_at_once(how: str, tmp_path: Path) -> None:
    with hostile({**KEEPING, **FILLING}[how]) as server:
        settings = ("--interval", "1s", "--set", "probes=", "--set", f"kubelet.url={server.url}")
        with running_agent(*settings, log=tmp_path / "log") as agent:
            before = psutil.Process(agent.process.pid).memory_info().rss
            assert eventually(lambda: (agent.value("numaudit_ticks_total") or 0) >= 3)
            assert server.clients
            assert psutil.Process(agent.process.pid).memory_info().rss < before + MOST_GROWTH
            code, seconds = agent.stop()
            assert code == 0
            assert seconds < PROMPTLY
            assert "internal error" not in agent.log()
