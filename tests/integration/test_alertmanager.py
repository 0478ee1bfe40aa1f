"""A real Alertmanager with the example of deploy/rules: what reaches people, and how often."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from databases import alertmanager_program, free_port, server
from monitoring import alert_cases
from processes.agent_process import PATIENCE, eventually
from required import tool

EXAMPLE = alert_cases.RULES.with_name("alertmanager.yaml")
SEVERITIES = {rule["alert"]: rule["labels"]["severity"] for _, rule in alert_cases.alerts()}


@dataclass
class Receivers:
    """Who got which alerts: a list for each notification."""

    got: dict[str, list[list[Mapping[str, str]]]] = field(default_factory=dict)

    def add(self, who: str, body: bytes) -> None:
        self.got.setdefault(who, []).append([one["labels"] for one in json.loads(body)["alerts"]])


@pytest.fixture
def receivers() -> Iterator[tuple[str, Receivers]]:
    """A URL, and what was sent below it."""
    receivers = Receivers()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receivers.add(self.path.strip("/"), self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_address[1]}", receivers
        http.shutdown()


@contextmanager
def alertmanager(folder: Path, receivers: str) -> Iterator[str]:
    """With the example's routes, its minutes as seconds, and these receivers; its URL."""
    text = re.sub(r"http://(\w+)\.example\.net/", rf"{receivers}/\1", EXAMPLE.read_text(encoding="utf-8"))
    hurried = re.sub(r"group_(wait|interval): \d+[ms]", r"group_\1: 2s", text)
    file = folder / "alertmanager.yaml"
    file.write_text(hurried, encoding="utf-8")
    url = f"http://127.0.0.1:{free_port()}"
    command = alertmanager_program()
    command += [f"--config.file={file}", f"--storage.path={folder}/data"]
    command += [f"--web.listen-address={url.removeprefix('http://')}", "--cluster.listen-address="]
    with server(command, folder / "alertmanager.log"):
        assert eventually(lambda: _answers(f"{url}/-/ready")), (folder / "alertmanager.log").read_text()
        yield url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _alert(name: str, **labels: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, "severity": SEVERITIES[name], "cluster": "one", **labels}}


def _post(url: str, alerts: list[dict[str, Any]]) -> None:
    request = urllib.request.Request(
        f"{url}/api/v2/alerts", json.dumps(alerts).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 200


def test_amtool_accepts_the_example_and_routes_by_severity() -> None:
    amtool = tool("alertmanager").with_name("amtool")
    subprocess.run([amtool, "check-config", EXAMPLE], check=True, capture_output=True)
    for severity, receiver in (("critical", "pager"), ("warning", "team"), ("info", "quiet")):
        labels = ["alertname=NumauditContainerDrifted", f"severity={severity}"]
        command = [str(amtool), "config", "routes", "test", f"--config.file={EXAMPLE}", *labels]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == receiver


def test_the_example_names_alerts_that_there_are() -> None:
    rules = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["inhibit_rules"]
    named = set(re.findall(r"Numaudit\w{2,}", json.dumps(rules)))
    assert named <= set(SEVERITIES)


def test_five_hundred_drifted_containers_are_one_notification(receivers: tuple[str, Receivers], tmp_path: Path) -> None:
    url, sent = receivers
    drifted = [
        _alert("NumauditContainerDrifted", instance=f"node-{number % 50}", container=f"db-{number}")
        for number in range(500)
    ]
    with alertmanager(tmp_path, url) as at:
        _post(at, drifted)
        assert eventually(lambda: "team" in sent.got)
        _post(at, [_alert("NumauditContainerOomRisk", instance="node-1")])
        assert eventually(lambda: "pager" in sent.got)
    assert [len(notified) for notified in sent.got["team"]] == [500]
    assert sent.got.keys() == {"team", "pager"}


def test_a_cause_silences_what_follows_from_it_on_that_host_only(
    receivers: tuple[str, Receivers], tmp_path: Path
) -> None:
    url, sent = receivers
    with alertmanager(tmp_path, url) as at:
        _post(
            at,
            [
                _alert("NumauditAgentDown", instance="node-1"),
                _alert("NumauditStateRestartUnsafe", instance="node-2"),
                _alert("NumauditWorkloadRefused", namespace="shop", workload="db"),
            ],
        )
        _post(
            at,
            [
                _alert("NumauditContainerDrifted", instance="node-1", container="lost"),
                _alert("NumauditContainerDrifted", instance="node-2", container="seen"),
                _alert("NumauditStateInvalid", instance="node-2"),
                _alert("NumauditStateInvalid", instance="node-3"),
                _alert("NumauditAdmissionRefused", instance="node-3"),
            ],
        )
        assert eventually(lambda: len(sent.got.get("team", ())) >= 4 and "pager" in sent.got)
    got = {(one["alertname"], one.get("instance", "")) for lists in sent.got.values() for some in lists for one in some}
    assert got == {
        ("NumauditAgentDown", "node-1"),
        ("NumauditStateRestartUnsafe", "node-2"),
        ("NumauditWorkloadRefused", ""),
        ("NumauditContainerDrifted", "node-2"),
        ("NumauditStateInvalid", "node-3"),
    }
