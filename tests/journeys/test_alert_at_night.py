"""On call: from the text of an alert to the fix, and to its proof, by its runbook."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clusters import api_server
from clusters.api_server import Cluster, Ran
from documentation.journey import Journey, commands, section
from hosts.changed_node import carry_out, changed_node, remedies
from required import tool


@pytest.fixture
def node(journey: Journey, tmp_path: Path) -> Iterator[Path]:
    """The root of node `node-a` of a cluster, whose agent runs the clone's numaudit, and a kubectl that reaches it."""
    kubectl = tool("kubectl")
    root = changed_node(tmp_path)
    cluster = Cluster()
    cluster.add_node("node-a")
    cluster.add_agent("node-a")
    cluster.add_pod("gu-init-numanode", "default", "node-a")

    def execute(_: str, words: list[str], stdin: bytes) -> Ran:
        own = words[words.index("numaudit") + 1 :]
        command = [str(journey.clone / ".venv/bin/numaudit"), *own, "--root", str(root)]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        return Ran(done.stdout, done.stderr, done.returncode)

    cluster.execute = execute
    with api_server.serving(cluster) as server:
        journey.variables |= {
            "HOME": str(tmp_path),
            "KUBECONFIG": str(server.kubeconfig(tmp_path, namespace="elsewhere")),
            "PATH": f"{kubectl.parent}:{journey.variables['PATH']}",
        }
        yield root


def test_an_alert_leads_by_its_runbook_to_the_fix_and_to_its_proof(journey: Journey, node: Path) -> None:
    alert = re.findall(r"<!-- alert: \S+ -->\n```\n(.*?)```", journey.document("docs/incident.md"), re.DOTALL)[0]
    name, place = alert.split()[0], re.search(r"^(\S+)/(\S+)/\S+ on\s+node-a", alert, re.MULTILINE)
    assert place is not None
    groups = yaml.safe_load(journey.document("deploy/rules/numaudit.rules.yaml"))["groups"]
    (rule,) = [one for group in groups for one in group["rules"] if one.get("alert") == name]
    runbook = rule["annotations"]["runbook_url"]
    assert alert.split()[-1] == runbook

    def filled(command: str) -> str:
        return command.replace("POD", place[2]).replace("NAMESPACE", place[1])

    page = journey.document(runbook)
    first = filled(commands(section(page, "Diagnosis"))[0])
    is_fixed = filled(commands(section(page, "Mitigation"))[-1])
    assert all(one.startswith("kubectl numaudit ") for one in (first, is_fixed))
    printed = journey.run(first)
    assert f"{place[1]}/{place[2]}/app: drifted: it may use nodes 0,2, but was promised node 2 only" in printed
    assert "cpuset: its own cpuset.mems says so" in printed
    journey.run(is_fixed, code=1)
    (remedy,) = remedies(printed)
    carry_out(remedy, node, journey.run)
    assert "is aligned" in journey.run(is_fixed).splitlines()[0]
