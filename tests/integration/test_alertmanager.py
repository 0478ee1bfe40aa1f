"""A real Alertmanager with the example of deploy/rules: what reaches people, and how often."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from databases import Database, alertmanager_program, free_port, server, when_ready
from kubelets.http import replies, serving
from monitoring import alert_cases
from processes.agent_process import PATIENCE, eventually
from required import tool

EXAMPLE = alert_cases.RULES.with_name("alertmanager.yaml")
Notified = dict[str, list[list[Mapping[str, str]]]]
"""Receiver -> what it got: a list of alerts' labels for each notification."""
SEVERITIES = {rule["alert"]: rule["labels"]["severity"] for _, rule in alert_cases.alerts()}


@pytest.fixture
def receivers() -> Iterator[tuple[str, Notified]]:
    """A URL, and what was sent below it."""
    got: Notified = {}

    def notify(request: BaseHTTPRequestHandler) -> None:
        alerts = json.loads(request.rfile.read(int(request.headers["Content-Length"])))["alerts"]
        got.setdefault(request.path.strip("/"), []).append([one["labels"] for one in alerts])
        replies(b"")(request)

    with serving(notify) as url:
        yield url, got


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
        yield when_ready(Database(url), "/-/ready").url


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


def test_five_hundred_drifted_containers_are_one_notification(receivers: tuple[str, Notified], tmp_path: Path) -> None:
    url, sent = receivers
    drifted = [
        _alert("NumauditContainerDrifted", instance=f"node-{number % 50}", container=f"db-{number}")
        for number in range(500)
    ]
    with alertmanager(tmp_path, url) as at:
        _post(at, drifted)
        assert eventually(lambda: "team" in sent)
        _post(at, [_alert("NumauditContainerOomRisk", instance="node-1")])
        assert eventually(lambda: "pager" in sent)
    assert [len(notified) for notified in sent["team"]] == [500]
    assert sent.keys() == {"team", "pager"}


def test_a_cause_silences_what_follows_from_it_on_that_host_only(
    receivers: tuple[str, Notified], tmp_path: Path
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
        assert eventually(lambda: len(sent.get("team", ())) >= 4 and "pager" in sent)
    got = {(one["alertname"], one.get("instance", "")) for lists in sent.values() for some in lists for one in some}
    assert got == {
        ("NumauditAgentDown", "node-1"),
        ("NumauditStateRestartUnsafe", "node-2"),
        ("NumauditWorkloadRefused", ""),
        ("NumauditContainerDrifted", "node-2"),
        ("NumauditStateInvalid", "node-3"),
    }
