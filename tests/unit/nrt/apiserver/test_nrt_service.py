"""Publishing of a tick's NodeResourceTopology: what is written of a real node, and settings that do not fit."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusters.api_server import ApiServer as Server
from clusters.topologies import discover, whole
from numaudit.config.settings import NrtSettings, Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.ticks.health import HealthMonitor
from numaudit.daemon.ticks.nrt_values import described
from numaudit.daemon.ticks.ticker import Newest
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.nrt.apiserver.client import ApiServer
from numaudit.nrt.apiserver.counts import PublishCounts
from numaudit.nrt.apiserver.credentials import find_config
from numaudit.nrt.apiserver.failures import Reason
from numaudit.nrt.apiserver.publishing import publish
from processes.agent_process import eventually, running_agent


def test_a_tick_of_a_node_becomes_annotations_of_its_object(server: Server, fixtures: Path, tmp_path: Path) -> None:
    host = Host.under(fixtures / "kubernetes-four-nodes")
    newest = Newest(cast("Any", SimpleNamespace(ticked=Engine(Observer.of(host)).tick())))
    discover(server.cluster.topologies)
    client = ApiServer(find_config(server.kubeconfig(tmp_path, token="agent")), 20.0)
    describe = partial(described, newest, lambda: True, host, own=False)
    assert publish(client, "node1", describe).written == ("annotations",)
    assert publish(client, "node1", describe).written == ()
    value = server.cluster.topologies.stored["node1"].value
    annotations = value["metadata"]["annotations"]
    assert {"numaudit.io/kubelet", "numaudit.io/memory", "numaudit.io/groups"} <= annotations.keys()
    assert json.loads(annotations["numaudit.io/kubelet"])["version"] == 1
    assert {name: value[name] for name in ("zones", "attributes")} == whole()
    server.cluster.topologies.delete("node1")
    server.cluster.rights["agent"] = None
    describe = partial(described, newest, lambda: True, host, own=True)
    assert publish(client, "node1", describe).written == ("the object", "annotations")
    assert publish(client, "node1", describe).written == ()
    assert len(server.cluster.topologies.stored["node1"].value["zones"]) == 4
    with pytest.raises(Unavailable, match="no current tick"):
        described(newest, lambda: False, host, {}, own=False)


def test_a_host_without_a_kubelet_has_nothing_to_publish(fixtures: Path) -> None:
    host = Host.under(fixtures / "huge-pages")
    newest = Newest(cast("Any", SimpleNamespace(ticked=Engine(Observer.of(host)).tick())))
    with pytest.raises(Unavailable, match="too little is known of the kubelet"):
        described(newest, lambda: True, host, {}, own=False)


def test_a_captured_host_is_not_published(fixtures: Path) -> None:
    settings = Settings(listen=("127.0.0.1", 0), nrt=NrtSettings(publish="annotations"))
    engine = Engine(Observer.of(Host.under(fixtures / "huge-pages")))
    with pytest.raises(InputError, match="a captured host is no node of a cluster"):
        Agent.of(settings, engine, RateLimit())


def test_without_lightkube_the_agent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numaudit.nrt.apiserver.find_spec", lambda _: None)
    settings = Settings(listen=("127.0.0.1", 0), nrt=NrtSettings(publish="annotations"))
    with pytest.raises(InputError, match=r"pip install 'numaudit\[publish\]'"):
        Agent.of(settings, Engine(Observer.of(Host())), RateLimit())


def test_health_says_how_publishing_fares_and_stays_good() -> None:
    counts = PublishCounts(clock=lambda: 1012.0)
    health = HealthMonitor(15, note=counts.sentence, now=lambda: 5.0)
    health.success(5.0)
    assert health.health().text.endswith("; NodeResourceTopology not yet published")
    counts.last_success, counts.failing = 1000.0, "no-object"
    assert health.health().good
    assert health.health().text.endswith("; NodeResourceTopology up to date 12 s ago, now failing: no-object")


def test_an_agent_that_cannot_publish_is_healthy_and_says_why(server: Server, tmp_path: Path) -> None:
    """This host has no kubelet, or none whose state the test's cluster has an object for."""
    arguments = ("--set", "nrt.publish=annotations", "--set", f"nrt.kubeconfig={server.kubeconfig(tmp_path, 'agent')}")
    with running_agent("--set", "probes=none", *arguments, log=tmp_path / "log") as agent:
        assert eventually(lambda: "now failing: no-" in agent.get("/-/healthy")[1])
        assert agent.get("/-/healthy")[0] == 200
        failures = agent.samples()["numaudit_nrt_failures_total"]
        assert sum(failures.values()) > 0
        assert len(failures) == len(Reason)
        assert agent.value("numaudit_nrt_writes_total") == 0
        assert agent.value("numaudit_nrt_last_success_timestamp_seconds") is None
