"""Each source of the kubelet is read once, whatever the verb: an answer is of one moment, and the kubelet is spared.

One exception is allowed: a checkpoint that was caught between two writes of the kubelet is read again until it adds up
(`kubelet/sources/checkpoints.py`). All files here add up.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from queue import SimpleQueue

import pytest
import yaml

from hosts.tree_copies import lent
from kubelets.http import replies, serving
from kubelets.podresources_server import serving as podresources_serving
from made_up.probes import made_up_session
from numaudit.cli import EXIT_NOT_BEGUN, options
from numaudit.cli.main import call
from numaudit.cli.observe.report_work import ReportSelection
from numaudit.cli.observe.top_feed import LiveFeed
from numaudit.config.settings import Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.doctor import checks
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.session import Session
from numaudit.views.top.news import News, TickBegan, TickFigures
from numaudit.views.trends import key_of

LIST = "/v1.PodResourcesLister/List"


@dataclass
class CountedKubelet:
    """A recorded one that answers again, on a node that a test lets pass for the live one."""

    root: Path
    log: Path
    url: str = ""
    reads: Counter[str] = field(default_factory=Counter)
    """Name of a file, path of a page or `podresources` -> how often."""

    def file(self, kind: str) -> Path:
        return self.root / "var/lib/kubelet" / kind


@contextmanager
def counted_kubelet(captured: Path) -> Iterator[CountedKubelet]:
    """The kubelet of a captured tree, in a copy."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        root = stack.enter_context(lent(captured))
        answers = (root / "numaudit").rename(folder / "answers")
        one = CountedKubelet(root, answers / "kubelet.log")
        (configuration,) = (root / "etc/kubernetes").iterdir()
        bodies = {
            "/pods": (answers / "pods.json").read_bytes(),
            "/metrics": (answers / "kubelet-metrics.txt").read_bytes(),
            "/configz": json.dumps({"kubeletconfig": yaml.safe_load(configuration.read_text())}).encode(),
        }
        listed = (answers / "podresources-list.pb").read_bytes()

        def page(request: BaseHTTPRequestHandler) -> None:
            one.reads[request.path] += 1
            replies(bodies[request.path])(request)

        def resources() -> bytes:
            one.reads["podresources"] += 1
            return listed

        socket = root / "var/lib/kubelet/pod-resources/kubelet.sock"
        socket.parent.mkdir()
        stack.enter_context(podresources_serving(socket, {LIST: resources}))
        one.url = stack.enter_context(serving(page))
        stack.enter_context(_opens_counted(one))
        yield one


_listeners: list[Callable[[str], None]] = []


@cache
def _listen() -> None:
    """An audit hook stays until the process ends, so there is one for all tests."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and _listeners and isinstance(arguments[0], str | bytes | os.PathLike):
            for listener in _listeners:
                listener(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)


@contextmanager
def _opens_counted(one: CountedKubelet) -> Iterator[None]:
    folders = tuple(f"{one.root}/{name}/" for name in ("var/lib/kubelet", "etc/kubernetes"))

    def listener(path: str) -> None:
        if path.startswith(folders) or path == str(one.log):
            one.reads[Path(path).name] += 1

    _listen()
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


PATIENCE = 60.0
"""Seconds, on a busy machine."""
POD = "gu-small-numanode"


@pytest.fixture
def kubelet(fixtures: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountedKubelet]:
    """A captured node passes for the live one."""
    with counted_kubelet(fixtures / "kubernetes-four-nodes") as one:
        monkeypatch.setattr(Host, "is_live", property(lambda host: host.root == one.root))
        defaults = (one.root, *(Host.__init__.__defaults__ or ())[1:])
        monkeypatch.setattr(Host.__init__, "__defaults__", defaults)
        monkeypatch.setattr(checks, "check_sources", lambda _: ())
        monkeypatch.setattr(Session, "open", lambda *_, **__: made_up_session()[1])
        monkeypatch.setenv("NUMAUDIT_KUBELET_URL", one.url)
        monkeypatch.setenv("NUMAUDIT_KUBELET_LOG_FILE", str(one.log))
        yield one


def _verb(*arguments: str) -> Callable[[CountedKubelet], None]:
    """Placeholders of an argument: `{memory}` and `{cpu}` are the kubelet's files, `{new}` and `{pod}` are not."""

    def run(kubelet: CountedKubelet) -> None:
        pod = kubelet.root.parent / "pod.json"
        container = {"name": "app", "resources": {"limits": {"cpu": "500m", "memory": "900Mi"}}}
        pod.write_text(json.dumps({"metadata": {"name": "a"}, "spec": {"containers": [container]}}))
        files = {
            "memory": kubelet.file("memory_manager_state"),
            "cpu": kubelet.file("cpu_manager_state"),
            "new": kubelet.root.parent / "new",
            "pod": pod,
        }
        assert call([one.format_map(files) for one in arguments]) in (0, 1)

    return run


def _top(_: CountedKubelet) -> None:
    """Three ticks, two of them with a container open. Opening one asks for a tick, and no other comes."""
    news: SimpleQueue[News] = SimpleQueue()
    feed = LiveFeed(Observer.of(options.host(None)), ReportSelection(), 3600)

    def measured() -> TickFigures:
        assert isinstance(news.get(timeout=PATIENCE), TickBegan)
        one = news.get(timeout=PATIENCE)
        assert isinstance(one, TickFigures)
        return one

    feed.start(news.put)
    try:
        key = next(key_of(one) for one in measured().whole.containers if one.pod == POD)
        for _tick in range(2):
            feed.open(key)
            opened = measured().opened
            assert opened is not None
            assert opened.placement is not None
    finally:
        feed.stop()


def _agent(_: CountedKubelet) -> None:
    daemon = Agent.of(
        Settings(listen=("127.0.0.1", 0)), Engine(Observer.of(options.host(None)), Session({})), RateLimit()
    )
    daemon.server.socket.close()
    for _tick in range(3):
        daemon.ticker.tick()
    assert daemon.ticker.health.failed == 0


RUNS: dict[str, Callable[[CountedKubelet], None]] = {
    "report": _verb("report"),
    "report --duration": _verb("report", "--duration", "10ms"),
    "top": _top,
    "agent": _agent,
    "explain POD": _verb("explain", POD),
    "explain POD --duration": _verb("explain", POD, "--duration", "10ms"),
    "fit -f": _verb("fit", "-f", "{pod}"),
    "doctor": _verb("doctor"),
    "state show": _verb("state", "show"),
    "state verify": _verb("state", "verify"),
    "state verify FILE": _verb("state", "verify", "{memory}"),
    "state diff FILE": _verb("state", "diff", "{memory}"),
    "state diff FILE FILE": _verb("state", "diff", "{cpu}", "{cpu}"),
    "forecast": _verb("forecast"),
    "headroom": _verb("headroom"),
    "nrt": _verb("nrt"),
    "capture": _verb("capture", "--duration", "0", "{new}"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_verb_reads_each_source_of_the_kubelet_once(name: str, kubelet: CountedKubelet) -> None:
    RUNS[name](kubelet)
    assert {"/metrics", "kubelet.log", "kubelet.yaml", "memory_manager_state"} <= kubelet.reads.keys()
    assert set(kubelet.reads.values()) == {1}, kubelet.reads


def test_a_checkpoint_that_changes_is_read_once_a_tick(
    kubelet: CountedKubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Observer.of(options.host(None))
    file = kubelet.file("memory_manager_state")
    body = file.read_bytes()
    kubelet.reads.clear()
    for tick in range(3):
        file.unlink()
        file.write_bytes(body + b" " * tick)
        observer.observe()
    # Three by this test, which writes it.
    assert kubelet.reads["memory_manager_state"] == 3 + 3


def test_a_command_is_refused_beside_a_kubelet_by_one_reading_of_its_settings(kubelet: CountedKubelet) -> None:
    assert call(["run", "--memory", "1Mi", "--", "true"]) == EXIT_NOT_BEGUN
    assert kubelet.reads == {"kubelet.yaml": 1}
