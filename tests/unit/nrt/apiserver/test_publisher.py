"""The service that publishes, by a clock of the test's: what it writes, when, and how it counts and logs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.api_server import ApiServer as Server
from clusters.api_server import Fault, until
from clusters.topologies import NFD, discover, whole
from numaudit.errors import Unavailable
from numaudit.net.target import LONGEST_WAIT
from numaudit.nrt.apiserver import PublishCounts
from numaudit.nrt.apiserver.client import ApiServer, find_config
from numaudit.nrt.apiserver.publisher import LEAST, LONGEST, NrtPublisher, Pace
from numaudit.nrt.apiserver.publishing import Wanted

INTERVAL = 60.0


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Node:
    """An agent's publisher on one node, and what it knows."""

    server: Server
    kubeconfig: Path
    clock: Clock = field(default_factory=Clock)
    wanted: dict[str, str] = field(default_factory=lambda: {"numaudit.io/kubelet": "1"})
    whole: Mapping[str, object] | None = None
    is_known: bool = True
    timeout: float = 20.0
    wall: float = 5_000_000.0
    publisher: NrtPublisher = field(init=False)

    def __post_init__(self) -> None:
        counts = PublishCounts(clock=lambda: self.wall)
        pace = Pace(INTERVAL, chance=lambda least, most: (least + most) / 2)
        self.publisher = NrtPublisher(self._connect, lambda: "node1", self._describe, counts, pace, self.clock)

    def _connect(self) -> ApiServer:
        return ApiServer(find_config(self.kubeconfig), self.timeout)

    def _describe(self, _: Mapping[str, str]) -> Wanted:
        if not self.is_known:
            raise Unavailable("there is no current tick")
        return Wanted(dict(self.wanted), self.whole)

    @property
    def counts(self) -> PublishCounts:
        return self.publisher.counts

    def requests(self, seconds: float) -> int:
        """Tick every second for this long; requests that came of it."""
        used = self.server.cluster.used
        before = len(used)
        for _ in range(int(seconds)):
            self.clock.now += 1
            self.wall += 1
            self.publisher.step()
        return len(used) - before

    def shown(self) -> dict[str, str]:
        annotations = self.server.cluster.topologies.stored["node1"].value["metadata"].get("annotations", {})
        assert isinstance(annotations, dict)
        return annotations


@pytest.fixture
def node(server: Server, kubeconfig: Path) -> Node:
    discover(server.cluster.topologies)
    return Node(server, kubeconfig)


def test_an_object_that_stays_as_it_is_is_looked_at_once_an_interval_and_never_written_again(node: Node) -> None:
    assert node.requests(1) == 2
    assert node.requests(600) == pytest.approx(10, abs=1)
    assert (node.counts.writes, node.server.cluster.topologies.writes) == (1, 2)
    assert node.counts.failures.total() == 0
    assert node.counts.last_success is not None


def test_a_change_is_written_at_once_but_not_more_often_than_every_ten_seconds(node: Node) -> None:
    node.requests(15)
    node.wanted = {"numaudit.io/kubelet": "2"}
    assert node.requests(1) == 2
    assert node.shown() == node.wanted
    writes = node.counts.writes
    for number in range(60):
        node.wanted = {"numaudit.io/kubelet": f"changed {number}"}
        node.requests(1)
    assert node.counts.writes - writes == pytest.approx(60 / LEAST, abs=1)


def test_an_hour_without_an_api_server_costs_few_requests_and_is_over_soon(node: Node) -> None:
    node.requests(1)
    node.wanted = {"numaudit.io/kubelet": "later"}
    server, node.server.cluster.faults = node.server.cluster, [Fault.of(503, "ServiceUnavailable", "gone")] * 1000
    node.requests(3600)
    tried = node.counts.failures["server"]
    assert 6 <= tried <= 20
    assert node.counts.failing == "server"
    assert "now failing: server" in node.counts.sentence()
    server.faults.clear()
    node.requests(LONGEST)
    assert node.shown() == node.wanted
    assert node.counts.failing is None


@pytest.mark.parametrize("what", ["no-resource", "no-object"])
def test_what_is_missing_is_awaited_and_then_published(node: Node, what: str, caplog: pytest.LogCaptureFixture) -> None:
    topologies = node.server.cluster.topologies
    kept = topologies.stored.pop("node1")
    topologies.is_installed = what == "no-object"
    with caplog.at_level(logging.INFO):
        node.requests(1800)
        assert node.counts.failing == what
        assert node.counts.failures.keys() == {what}
        topologies.is_installed = True
        topologies.stored["node1"] = kept
        node.requests(LONGEST)
    assert node.shown() == node.wanted
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"], "each state is logged once"


def test_an_owner_makes_the_object_again_that_somebody_deletes(node: Node) -> None:
    node.server.cluster.rights["agent"] = None
    topologies = node.server.cluster.topologies
    topologies.delete("node1")
    node.whole = whole()
    node.requests(1)
    topologies.delete("node1")
    node.requests(2 * INTERVAL)
    assert node.shown() == node.wanted
    assert topologies.stored["node1"].value["zones"] == whole()["zones"]


def test_an_owner_that_is_not_alone_publishes_its_annotations_and_counts_the_refusal(node: Node) -> None:
    node.whole = whole("1")
    node.requests(1)
    assert node.counts.failures == {"owned": 1}
    node.wanted = {"numaudit.io/kubelet": "2"}
    node.requests(15)
    assert node.shown() == node.wanted
    assert node.counts.last_success is None
    node.server.cluster.topologies.stored["node1"].managers = [
        one for one in node.server.cluster.topologies.stored["node1"].managers if one.name != NFD
    ]
    assert node.counts.failing == "owned"


def test_a_server_that_asks_to_wait_is_not_asked_before(node: Node) -> None:
    node.server.cluster.faults.append(Fault.of(429, "TooManyRequests", "slow down", Retry_After="240"))
    node.requests(1)
    assert node.requests(230) == 0
    node.requests(300)
    assert node.shown() == node.wanted


def test_two_agents_that_disagree_write_less_and_less(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    other = Node(node.server, node.kubeconfig, node.clock, {"numaudit.io/kubelet": "of the other"})
    with caplog.at_level(logging.WARNING):
        for _ in range(3600):
            node.requests(1)
            other.publisher.step()
    assert node.counts.writes + other.counts.writes < 30
    assert node.counts.failures.total() == 0
    assert sum("second agent" in record.message for record in caplog.records) <= 2


def test_two_agents_that_agree_write_once(node: Node) -> None:
    other = Node(node.server, node.kubeconfig, node.clock)
    for _ in range(300):
        node.requests(1)
        other.publisher.step()
    assert node.counts.writes + other.counts.writes == 1


@pytest.mark.parametrize("step", [-86_400.0, 86_400.0])
def test_a_step_of_the_clock_changes_no_round(node: Node, step: float) -> None:
    node.requests(1)
    node.wall += step
    assert node.requests(300) == pytest.approx(5, abs=1)
    assert "-" not in node.counts.sentence()


def test_a_kubeconfig_that_is_not_there_yet_is_awaited(node: Node) -> None:
    text = node.kubeconfig.read_text()
    node.kubeconfig.unlink()
    node.requests(30)
    assert node.counts.failing == "credentials"
    node.kubeconfig.write_text(text)
    node.requests(LONGEST)
    assert node.shown() == node.wanted


def test_without_a_known_state_nothing_is_written_and_what_is_there_stays(node: Node) -> None:
    node.requests(1)
    node.is_known = False
    node.requests(2 * INTERVAL)
    assert node.counts.failing == "no-state"
    assert node.shown() == node.wanted


def test_an_internal_error_is_counted_and_logged_and_ends_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node.publisher, "node", lambda: 1 / 0)
    node.requests(1)
    assert node.counts.failures == {"internal": 1}
    assert any(record.exc_info for record in caplog.records)
    monkeypatch.setattr(node.publisher, "node", lambda: "node1")
    node.requests(INTERVAL)
    assert node.shown() == node.wanted


def test_its_thread_publishes_after_a_tick_and_ends_within_its_time(node: Node) -> None:
    publisher = node.publisher
    publisher.start()
    assert not node.counts.writes
    publisher.there_is_a_tick()
    assert until(lambda: node.counts.last_success is not None)
    publisher.stop(10.0)
    assert not publisher.has_died()
    assert not any(thread.name == "nrt" for thread in threading.enumerate())


def test_the_end_does_not_wait_for_a_silent_server(node: Node) -> None:
    node.timeout = 600.0
    node.server.cluster.faults.append(Fault(is_silent=True))
    node.publisher.start()
    node.publisher.there_is_a_tick()
    assert until(lambda: not node.server.cluster.faults)
    begun = time.monotonic()
    node.publisher.stop(0.1)
    assert time.monotonic() - begun < 60
    assert not node.publisher.has_died()


def test_a_thread_that_was_never_started_can_be_stopped(node: Node) -> None:
    node.publisher.stop(0.0)
    assert not node.publisher.has_died()


@given(
    st.lists(st.one_of(st.none(), st.floats(0, LONGEST_WAIT)), min_size=1, max_size=15),
    st.floats(0, 1),
    st.floats(5, 3600),
)
def test_any_pace_waits_longer_after_failures_and_never_for_ever(
    waits: list[float | None], chance: float, interval: float
) -> None:
    pace, now = Pace(interval, chance=lambda least, most: least + chance * (most - least)), 0.0
    before = 0.0
    for wait in waits:
        pace.failure(now, wait)
        delay = pace.due - now
        assert pace.earliest == pace.due
        assert delay >= (wait or 0.0) - 1e-6
        assert 0 < delay <= max(LONGEST, interval, 1.1 * LONGEST_WAIT) + 1e-6
        if wait is None and waits[0] is None and all(one is None for one in waits):
            assert delay >= before - 1e-6
            before = delay
        now = pace.due
    pace.succeeded(now)
    assert 0.9 * interval - 1e-6 <= pace.due - now <= 1.1 * interval + 1e-6
    assert pace.earliest - now <= LEAST + 1e-6
    assert pace.earliest <= pace.due


@pytest.mark.parametrize("wait", [30.0, None])
def test_nodes_of_a_cluster_do_not_come_together(wait: float | None) -> None:
    dues = []
    for _ in range(50):
        pace = Pace(INTERVAL)
        pace.failure(0.0, wait)
        dues.append(pace.due)
    assert max(dues) - min(dues) > 1
    assert min(dues) >= (wait or 0)
