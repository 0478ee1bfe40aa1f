"""A tick's NodeResourceTopology by the agent and by `numaudit nrt --apply`: what is written, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clusters.api_server import ApiServer as Server
from clusters.api_server import Fault, closed_port
from clusters.topologies import NFD, discover, whole
from fixture_trees import FIXTURES
from hosts.tree_copies import lent
from numaudit.cli.main import call
from numaudit.cli.observe import nrt_work
from numaudit.config.settings import NrtSettings, Settings
from numaudit.daemon.agent import Agent
from numaudit.daemon.logs import RateLimit
from numaudit.daemon.senders import described
from numaudit.daemon.ticks.health import HealthMonitor
from numaudit.daemon.ticks.publisher import Newest
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable
from numaudit.kernel.host import Host
from numaudit.nrt.apiserver import PublishCounts
from numaudit.nrt.apiserver.client import ApiServer, find_config
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


Capture = pytest.CaptureFixture[str]
Apply = Callable[..., tuple[int, str, str]]
NODE = "misaligned-node"


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with lent(FIXTURES / NODE) as root:
        yield root


@pytest.fixture
def apply(tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, kubeconfig: Path, tmp_path: Path) -> Apply:
    """Run it, as if this host were the captured one; exit code, standard output and standard error."""
    captured, look = Host.under(tree), nrt_work.topology_of_host
    engine = Engine(Observer.of(captured))
    monkeypatch.setattr(nrt_work, "topology_of_host", lambda _engine, _host, name: look(engine, captured, name))
    monkeypatch.setenv("K8S_NODE_NAME", "node1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    def run(*options: str) -> tuple[int, str, str]:
        code = call(["nrt", "--apply", *options])
        return code, *capsys.readouterr()

    return run


def test_it_writes_annotations_once(server: Server, apply: Apply) -> None:
    discover(server.cluster.topologies)
    assert apply() == (0, "noderesourcetopology/node1: wrote annotations\n", "")
    assert apply() == (0, "noderesourcetopology/node1: unchanged\n", "")
    value = server.cluster.topologies.stored["node1"].value
    assert "numaudit.io/groups" in value["metadata"]["annotations"]
    assert {name: value[name] for name in ("zones", "attributes")} == whole()


def test_it_makes_the_object_that_it_is_to_own(server: Server, apply: Apply) -> None:
    server.cluster.rights["agent"] = None
    assert apply("--own") == (0, "noderesourcetopology/node1: wrote the object and annotations\n", "")
    assert apply("--own") == (0, "noderesourcetopology/node1: unchanged\n", "")
    zones = server.cluster.topologies.stored["node1"].value["zones"]
    assert [zone["name"] for zone in zones] == ["node-0", "node-1", "node-2", "node-3"]


def test_an_object_of_another_writer_is_refused_by_its_name(server: Server, apply: Apply) -> None:
    discover(server.cluster.topologies)
    code, out, err = apply("--own")
    assert (code, out) == (3, "noderesourcetopology/node1: wrote annotations\n")
    assert err.startswith(f"numaudit: {NFD} owns zones or attributes of NodeResourceTopology node1, so they were not")
    assert server.cluster.topologies.stored["node1"].value["zones"] == whole()["zones"]


def test_without_the_object_it_says_what_makes_one(server: Server, apply: Apply) -> None:
    code, out, err = apply()
    assert (code, out) == (3, "")
    assert "the cluster has no NodeResourceTopology (topology.node.k8s.io/v1alpha2) node1; Node Feature" in err
    assert not server.cluster.topologies.stored


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.of(401, "Unauthorized", "Unauthorized"), "the token or certificate has expired"),
        (Fault.of(403, "Forbidden", "no"), "allow get and patch on noderesourcetopologies.topology.node.k8s.io"),
        (Fault(404, b"404 page not found", {}), "install the CustomResourceDefinition"),
        (Fault(503, b"", {}), "the API server answered 503"),
        (Fault(200, b"<html>", {}), "is it an API server?"),
    ],
)
def test_a_refusal_is_one_sentence(server: Server, apply: Apply, fault: Fault, words: str) -> None:
    server.cluster.faults.append(fault)
    code, out, err = apply()
    assert (code, out) == (3, "")
    assert words in err
    assert err.startswith("numaudit: GET https://")
    assert err.count("\n") == 1


def test_no_kubeconfig_and_a_wrong_one_are_told_apart(
    server: Server, apply: Apply, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig.write_text("{clusters: [], contexts: []}")
    code, _, err = apply()
    assert (code, err.count("\n")) == (2, 1)
    assert "it has no current-context" in err
    monkeypatch.delenv("KUBECONFIG")
    code, _, err = apply()
    assert code == 3
    assert "there are no credentials for the API server" in err


def test_a_server_that_is_not_there_is_named(apply: Apply, kubeconfig: Path, server: Server) -> None:
    url = f"https://127.0.0.1:{closed_port()}"
    kubeconfig.write_text(kubeconfig.read_text().replace(server.url, url))
    code, _, err = apply()
    assert code == 3
    path = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/node1"
    assert err == f"numaudit: GET {url}{path}: Connection refused\n"


def test_a_node_cannot_have_a_name_with_a_path(apply: Apply, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setenv("K8S_NODE_NAME", "../../../api/v1/namespaces")
    code, _, err = apply()
    assert code == 3
    assert "no node can be called '../../../api/v1/namespaces'; set K8S_NODE_NAME" in err
    assert not server.cluster.used


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--apply", "--root", str(FIXTURES / NODE)], "a capture is no node"),
        (["--own"], "--own is about what --apply writes"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], words: str, apply: Apply, capsys: Capture) -> None:
    assert call(["nrt", *options]) == 2
    assert words in capsys.readouterr().err


def test_without_its_library_it_says_what_to_install(apply: Apply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numaudit.nrt.apiserver.find_spec", lambda _: None)
    code, _, err = apply()
    assert code == 2
    assert "--apply needs the Python package lightkube: pip install 'numaudit[publish]'" in err
