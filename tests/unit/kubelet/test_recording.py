"""A capture of what the kubelet answers reads back as the kubelet itself, and holds no secrets."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from kubelets.steps import RUNS, Step
from numaudit.capture.tree import capture
from numaudit.engine.collectors.containers.intent import IntentCollector
from numaudit.errors import ParseError
from numaudit.intent.node import Intent
from numaudit.kernel.host import Host
from numaudit.kubelet.parsers import log as kubelet_log
from numaudit.kubelet.sources import recording
from numaudit.kubelet.sources.client import Endpoint, KubeletAnswers, LiveKubelet, RecordedKubelet
from numaudit.kubelet.sources.log_follow import FileLog
from numaudit.kubelet.sources.podresources import Client
from numaudit.kubelet.sources.poller import KubeletPoller

STEP = Step("standalone-single-numa-node/2-rejected")
LOG = RUNS / "standalone-single-numa-node/kubelet.k1.log"


def _configz() -> bytes:
    config = {"memoryManagerPolicy": "Static", "staticPodURLHeader": {"Authorization": ["hush"]}}
    return json.dumps({"kubeletconfig": config}).encode()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answers = {"/pods": STEP.read("pods.json"), "/configz": _configz()}
        body = answers.get(self.path)
        self.send_response(200 if body is not None else 403)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def _read(host: Host, answers: KubeletAnswers, log: Path) -> Intent:
    return IntentCollector.by(KubeletPoller(host, answers, FileLog(log, "log"))).ask(STEP.containers()).intent


def test_what_is_asked_of_a_kubelet_reads_back_the_same(tmp_path: Path) -> None:
    host = STEP.tree(tmp_path / "tree")
    shutil.rmtree(host.answers)
    log = tmp_path / "kubelet.log"
    log.write_text("Nov 20 secret line that says nothing\n" + LOG.read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}")
    live = LiveKubelet(host, Client(tmp_path / "none.sock"), endpoint=endpoint)
    asked = dict(recording.ask(live, FileLog(log, "log")))
    intent = _read(host, live, log)
    server.shutdown()
    server.server_close()
    live.close()

    # No socket, and a service account that may not get the metrics.
    assert [name for name, content in asked.items() if content is None] == [
        "kubelet-metrics.txt",
        "podresources-list.pb",
        "podresources-allocatable.pb",
    ]
    folder = tmp_path / "numaudit"
    folder.mkdir()
    for name, content in asked.items():
        if content is not None:
            assert b"hush" not in content
            assert b"memhog" not in content
            assert b"secret" not in content
            (folder / name).write_bytes(content)
    recorded = _read(host, RecordedKubelet(folder), folder / "kubelet.log")
    assert recorded.containers == intent.containers
    assert recorded.pods == intent.pods
    assert recorded.rejections == intent.rejections
    assert recorded.config.memory_manager_policy == "Static"
    assert len(recorded.hints) == 15


def test_a_capture_of_a_captured_tree_has_the_kubelets_answers_and_settings(fixtures: Path, tmp_path: Path) -> None:
    tree = fixtures / "kubernetes-four-nodes"
    capture(Host.under(tree), tmp_path / "copy")
    copied = Host.under(tmp_path / "copy")
    for file in sorted((tree / "numaudit").iterdir()):
        assert (copied.answers / file.name).read_bytes() == file.read_bytes()
    assert (copied.root / "etc/kubernetes/kubelet.yaml").exists()
    first, second = (IntentCollector(one).ask(()).intent for one in (Host.under(tree), copied))
    assert second.containers == first.containers
    assert second.config == first.config


def test_a_capture_holds_only_those_flags_of_the_kubelet_that_are_read(tmp_path: Path) -> None:
    host = STEP.tree(tmp_path / "tree")
    for folder in ("sys/fs/cgroup", "sys/devices/system/node", "proc/55"):
        (host.root / folder).mkdir(parents=True)
    (host.proc / "mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (host.root / "cgroup-inodes.txt").write_text("1 /sys/fs/cgroup\n")
    (host.proc / "55/comm").write_text("kubelet\n")
    (host.proc / "55/cmdline").write_bytes(b"kubelet\0--config=/etc/kubernetes/kubelet.yaml\0--secret=hush\0")
    capture(host, tmp_path / "copy")
    assert (tmp_path / "copy/proc/55/cmdline").read_bytes() == b"kubelet\0--config=/etc/kubernetes/kubelet.yaml\0"
    assert (tmp_path / "copy/etc/kubernetes/kubelet.yaml").exists()


@pytest.mark.parametrize("name", ["kubelet.k1.log", "kubelet.k2.log"])
def test_recorded_lines_say_the_same_as_the_log_they_come_from(name: str) -> None:
    log = FileLog(RUNS / "standalone-single-numa-node" / name, name)
    text = recording._lines(log).decode()
    until = datetime.now(UTC)
    again = [kubelet_log.parse(line, until=until) for line in text.splitlines()]
    assert None not in again
    expected = 0
    for line in (RUNS / "standalone-single-numa-node" / name).read_text().splitlines():
        try:
            expected += kubelet_log.parse(line, until=until) is not None
        except ParseError:
            continue
    assert len(again) == expected > 100
