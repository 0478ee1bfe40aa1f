"""The agent and an OTLP receiver that misbehaves, or settings that would send its figures elsewhere."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import uuid
from pathlib import Path

import psutil
import pytest

from hosts.node_tree import NodeTree
from monitoring.otlp_receiver import Answer, OtlpReceiver
from processes.agent_process import NUMAUDIT, PATIENCE, Agent, eventually, running_agent
from processes.certificates import Authority

MIB = 1 << 20
MOST_GROWTH = 32 * MIB


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    found = NodeTree(tmp_path / "node")
    found.fill(8)
    return found


def _set(**settings: str) -> tuple[str, ...]:
    return tuple(part for name, value in settings.items() for part in ("--set", f"otlp.{name}={value}"))


def _failed(agent: Agent) -> float:
    return agent.value("numaudit_otlp_batches_total", outcome="failed") or 0


def _delivered(agent: Agent) -> float:
    return agent.value("numaudit_otlp_batches_total", outcome="delivered") or 0


def test_an_answer_without_end_takes_no_memory_and_is_the_end_of_no_push(tree: NodeTree, tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        receiver.answers = [Answer(endless=True)] * 3
        otlp = _set(endpoint=receiver.url, interval="1s", timeout="60s")
        with running_agent("--root", str(tree.root), *otlp, log=tmp_path / "log") as agent:
            before = psutil.Process(agent.process.pid).memory_info().rss
            assert eventually(lambda: len(receiver.requests) >= 4)
            assert psutil.Process(agent.process.pid).memory_info().rss < before + MOST_GROWTH
            assert eventually(lambda: _delivered(agent) >= 4)


@pytest.mark.parametrize("answer", [Answer(drips=True), Answer(drips_headers=True), Answer(hangs=True)])
def test_a_push_ends_with_its_time_however_the_answer_comes(answer: Answer, tree: NodeTree, tmp_path: Path) -> None:
    with OtlpReceiver() as receiver:
        receiver.answers = [answer]
        otlp = _set(endpoint=receiver.url, interval="1s", timeout="1s")
        with running_agent("--root", str(tree.root), *otlp, log=tmp_path / "log") as agent:
            assert eventually(lambda: _failed(agent) == 1)
            assert eventually(lambda: _delivered(agent) >= 1)
            assert "no complete answer within 1 s" in agent.log()


def test_the_environment_replaces_neither_the_authorities_nor_where_a_push_goes(
    tree: NodeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (tmp_path / name for name in ("ours", "theirs"))
    for folder in (ours, theirs):
        folder.mkdir()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*Authority(theirs).issue("localhost", theirs))
    pinned = Authority(ours)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:9/elsewhere")
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "OTEL_EXPORTER_OTLP_CERTIFICATE"):
        monkeypatch.setenv(variable, str(theirs / "ca.pem"))
    with OtlpReceiver(tls=server) as receiver:
        otlp = _set(endpoint=receiver.url, ca_file=str(pinned.certificate), interval="1s", timeout="1s")
        with running_agent("--root", str(tree.root), *otlp, log=tmp_path / "log") as agent:
            assert eventually(lambda: _failed(agent) >= 1)
            assert "certificate verify failed" in agent.log()
            assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in agent.log()
        assert not receiver.requests
        otlp = _set(endpoint=receiver.url, ca_file=str(theirs / "ca.pem"))
        with running_agent("--root", str(tree.root), *otlp, log=tmp_path / "log") as agent:
            assert eventually(lambda: _delivered(agent) >= 1)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_authorities_that_cannot_be_read_are_said_at_start(content: str | None, tmp_path: Path, tree: NodeTree) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    command = [*NUMAUDIT, "agent", "--listen", "127.0.0.1:0", "--root", str(tree.root)]
    settings = _set(endpoint="https://127.0.0.1:9", ca_file=str(file))
    done = subprocess.run([*command, *settings], capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2
    assert f"otlp.ca_file {file}: " in done.stderr


def test_a_proxy_of_the_environment_is_not_used(
    tree: NodeTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with OtlpReceiver() as receiver:
        otlp = _set(endpoint=receiver.url)
        with running_agent("--root", str(tree.root), *otlp, log=tmp_path / "log") as agent:
            assert eventually(lambda: _delivered(agent) >= 1)
            assert re.search(r"these variables have no effect on it: .*http_proxy$", agent.log(), re.MULTILINE)


def test_an_agent_that_was_restarted_is_the_same_instance_with_counters_that_begin_later(
    tree: NodeTree, tmp_path: Path
) -> None:
    with OtlpReceiver() as receiver:
        for _ in range(2):
            with running_agent("--root", str(tree.root), *_set(endpoint=receiver.url), log=tmp_path / "log") as agent:
                assert eventually(lambda agent=agent: _delivered(agent) >= 1)  # type: ignore[misc]
                pid = agent.process.pid
                os.kill(pid, 9)
        first, second = (request.resource_metrics[0] for request in receiver.requests[:2])
        assert first.resource == second.resource
        (instance,) = (one.value for one in first.resource.attributes if one.key == "service.instance.id")
        assert uuid.UUID(instance.string_value).version == 5  # no time in it
        begun = [
            next(one for one in of.scope_metrics[0].metrics if one.name == "numaudit.ticks").sum.data_points[0]
            for of in (first, second)
        ]
        assert begun[0].time_unix_nano < begun[1].start_time_unix_nano <= begun[1].time_unix_nano
