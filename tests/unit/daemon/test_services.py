"""The agent's services: started in one order, stopped in the reverse one, and missed when they have died."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosts.node_tree import NodeTree
from numaudit.config.settings import OtlpSettings, Settings
from numaudit.daemon import service
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.service import Services
from numaudit.daemon.ticks.health import HealthMonitor
from numaudit.daemon.web.pages import Request
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.exporters import otlp_push
from numaudit.kernel.host import Host
from processes.agent_process import eventually


@dataclass
class Recorded:
    """A service that notes what is done to it."""

    name: str
    notes: list[str]
    at_start: Callable[[], None] = lambda: None
    at_stop: Callable[[], None] = lambda: None
    given: list[float] = field(default_factory=list)
    dead: bool = False

    def start(self) -> None:
        self.notes.append(f"start {self.name}")
        self.at_start()

    def stop(self, seconds: float) -> None:
        self.notes.append(f"stop {self.name}")
        self.given.append(seconds)
        self.at_stop()

    def has_died(self) -> bool:
        return self.dead


def _fail() -> None:
    raise RuntimeError("can't start new thread")


def test_services_stop_in_the_reverse_order_and_once() -> None:
    notes: list[str] = []
    services = Services()
    for name in ("probes", "web", "otlp"):
        services.start(Recorded(name, notes))
    services.stop(1)
    services.stop(1)
    assert notes == ["start probes", "start web", "start otlp", "stop otlp", "stop web", "stop probes"]


def test_a_service_that_does_not_start_is_named_and_those_before_it_are_stopped() -> None:
    notes: list[str] = []
    services = Services()
    services.start(Recorded("probes", notes))
    with pytest.raises(Unavailable, match=r"service 'web' does not start: can't start new thread"):
        services.start(Recorded("web", notes, at_start=_fail))
    services.stop(1)
    assert notes == ["start probes", "start web", "stop web", "stop probes"]
    assert services.died() == ()


def test_a_service_that_fails_to_stop_keeps_no_other_one_running() -> None:
    notes: list[str] = []
    services = Services()
    for one in (Recorded("probes", notes), Recorded("web", notes, at_stop=_fail)):
        services.start(one)
    with pytest.raises(RuntimeError):
        services.stop(1)
    assert notes[-2:] == ["stop web", "stop probes"]


def test_all_services_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 100.0, 101.5, 102.5))
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    started = [Recorded(name, []) for name in ("probes", "web", "otlp")]
    services = Services()
    for one in started:
        services.start(one)
    services.stop(2.0)
    assert [one.given for one in started] == [[0.0], [0.5], [2.0]]


def test_a_service_that_has_died_is_named_by_health() -> None:
    push = Recorded("otlp", [])
    services = Services()
    services.start(push)
    health = HealthMonitor(15, services.died)
    health.success(time.monotonic())
    assert health.health().good
    push.dead = True
    assert (health.health().good, health.health().text) == (
        False,
        "ended by an internal error: otlp; the log says why",
    )
    assert health.is_current()  # what was measured is as good as before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_agent_whose_push_has_died_serves_its_metrics_and_is_not_healthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = NodeTree(tmp_path / "node")
    settings = Settings(listen=("127.0.0.1", 0), otlp=OtlpSettings(endpoint="http://127.0.0.1:9"))
    agent = Agent.of(settings, Engine(Observer.of(Host.under(tree.root))), RateLimit())
    with agent.server:
        monkeypatch.setattr(otlp_push.OtlpPusher, "push", _end_this_thread)
        (push,) = agent.senders
        agent.loop.services.start(push)
        assert not push.has_died()  # it waits for a tick
        agent.ticker.tick()
        assert eventually(push.has_died)
        answer = agent.site.answer(Request("/-/healthy", {}))
        assert (answer.status, answer.body) == (503, (b"ended by an internal error: otlp; the log says why\n",))
        assert agent.site.answer(Request("/report.json", {})).status == 200
        agent.loop.services.stop(1)
        assert not push.has_died()


def test_a_server_that_accepts_no_more_has_died_unless_it_was_stopped(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    agent = Agent.of(Settings(listen=("127.0.0.1", 0)), Engine(Observer.of(Host.under(tree.root))), RateLimit())
    services = agent.loop.services
    services.start(agent.server)
    assert services.died() == ()
    agent.server.shutdown()  # what an error in its thread would come to
    assert eventually(lambda: services.died() == ("web",))
    services.stop(1)
    assert services.died() == ()


def test_a_server_that_was_never_started_can_be_stopped(tmp_path: Path) -> None:
    """A signal may come that early."""
    tree = NodeTree(tmp_path / "node")
    agent = Agent.of(Settings(listen=("127.0.0.1", 0)), Engine(Observer.of(Host.under(tree.root))), RateLimit())
    agent.server.stop(1)
    assert not agent.server.has_died()


def _end_this_thread(_: object) -> bool:
    """What no `except Exception` catches."""
    raise SystemExit


def test_python_names_a_signals_handler_without_what_the_agent_has_measured(tmp_path: Path) -> None:
    """signal.signal() makes a repr of the handler before, at the agent's end."""
    tree = NodeTree(tmp_path)
    agent = Agent.of(Settings(listen=("127.0.0.1", 0)), Engine(Observer.of(Host.under(tree.root))), RateLimit())
    agent.ticker.tick()
    assert len(repr(agent.loop.wait_until)) < 200
    agent.server.stop(1)


@pytest.mark.parametrize(("interval", "limit"), [(1.0, 10.0), (3.0, 10.0), (4.0, 12.0), (15.0, 45.0)])
def test_a_snapshot_is_too_old_after_three_intervals_and_never_within_ten_seconds(
    interval: float, limit: float
) -> None:
    now = [0.0]
    health = HealthMonitor(interval, now=lambda: now[0])
    health.success(0.0)
    now[0] = limit
    assert health.is_current() and health.health().good
    now[0] = limit + 0.1
    assert not health.is_current() and not health.health().good


def test_three_failed_ticks_in_a_row_are_too_many() -> None:
    health = HealthMonitor(15.0, now=lambda: 0.0)
    health.success(0.0)
    health.failure()
    health.failure()
    assert health.health().good
    health.failure()
    assert not health.health().good
