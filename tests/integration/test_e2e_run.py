"""`make e2e` against an API server in this process; the test plays the kubelet. No real cluster is asked."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clusters.api_server import ApiServer, Cluster, Json, Page, Ran, serving, until
from numaudit.cli.main import call
from required import tool

TOP = Path(__file__).resolve().parents[2]
CAPTURED = str(TOP / "tests/fixtures/kubernetes-cluster.tar.xz")
AGENT = "numaudit-agent"
METRICS = b"""\
numaudit_container_verdict{verdict="aligned"} 1
numaudit_memory_manager_bytes{numa_node="0"} 1
numaudit_collector_success{collector="kubelet"} 1
"""


@dataclass
class Lab:
    """A node that admits pods of up to one CPU and 1Gi on NUMA node 0, and an agent that knows it."""

    cluster: Cluster = field(default_factory=Cluster)
    wrong_about: str = ""
    """A pod that the agent believes to be refused."""
    moved: str | None = None
    """The container that was moved by hand."""
    never_ready: bool = False

    def __post_init__(self) -> None:
        self.cluster.add_node("worker-1")
        self.cluster.nodes[0]["status"] = {"allocatable": {"cpu": "3500m"}}
        self.cluster.execute = self.execute
        self.cluster.decide = self.decide
        self.cluster.objects.when_created = self.created
        self.cluster.objects.when_gone = self.gone
        self.cluster.pages[AGENT] = lambda: Page(METRICS)

    def created(self, made: Json) -> None:
        if made["kind"] == "DaemonSet":
            ready = 0 if self.never_ready else 1
            made["status"] = {"desiredNumberScheduled": 1, "numberReady": ready}
            pod = self.cluster.add_pod(AGENT, made["metadata"]["namespace"], "worker-1")
            pod["metadata"]["labels"] = {"app.kubernetes.io/name": "numaudit"}

    def gone(self, resource: str, name: str) -> None:
        if resource == "namespaces":
            self.cluster.pods[:] = [one for one in self.cluster.pods if one["metadata"]["namespace"] != name]

    def decide(self, pod: Json) -> Json:
        """The kubelet."""
        if pod["metadata"]["name"] == "e2e-drift":
            _, _, _, folder, nodes = pod["spec"]["containers"][0]["command"]
            self.moved = folder if nodes == "1" else None
            return {"phase": "Succeeded"}
        if reason := _refusal(pod):
            return {"phase": "Failed", "reason": reason}
        return {"phase": "Running", "containerStatuses": [{"name": "app", "state": {"running": {}}}]}

    def execute(self, pod: str, words: list[str], stdin: bytes) -> Ran:
        """The agent."""
        assert (pod, words[0], words[-1]) == (AGENT, "numaudit", "--output=json")
        answer: Any = {"headroom": self.headroom, "fit": lambda: self.fit(json.loads(stdin)), "report": self.report}
        return Ran(json.dumps(answer[words[1]]()).encode())

    @staticmethod
    def headroom() -> Json:
        free = {"memory": [1 << 30, 1 << 29], "hugepages-2Mi": [0, 0]}
        rows = [
            {"numaNode": node, "type": kind, "freeBytes": size} for kind in free for node, size in enumerate(free[kind])
        ]
        return {"tables": rows}

    def fit(self, pod: Json) -> Json:
        reason = _refusal(pod)
        if pod["metadata"]["name"] == self.wrong_about:
            reason = "UnexpectedAdmissionError"
        promised = {} if reason else {"app": {"hint": {"nodes": [0]}, "blocks": [{"type": "memory"}]}}
        return {"admitted": not reason, "reason": reason, "doubt": None, "containers": promised}

    def report(self) -> Json:
        own = [one for one in self.cluster.pods if one["metadata"]["name"].startswith("e2e-")]
        containers = [
            {
                "kind": "container",
                "namespace": one["metadata"]["namespace"],
                "pod": one["metadata"]["name"],
                "container": "app",
                "path": f"/{one['metadata']['name']}",
                "intended": {"memoryNodes": [0], "bytes": {"memory": 1}},
                "verdict": {"name": "drifted", "reason": "moved"}
                if self.moved == f"/{one['metadata']['name']}"
                else {"name": "aligned", "reason": ""},
            }
            for one in own
            if one["status"]["phase"] == "Running"
        ]
        return {"containers": containers, "nodes": [{"numaNode": 0}, {"numaNode": 1}], "memoryManager": "Static"}


def _refusal(pod: Json) -> str:
    limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
    cpu = limits.get("cpu", "0")
    if not cpu.endswith("m") and int(cpu) > 1:
        return "OutOfcpu"
    return "TopologyAffinityError" if int(limits.get("memory", "0Mi").removesuffix("Mi")) > 1024 else ""


@pytest.fixture
def lab() -> Iterator[tuple[Lab, ApiServer]]:
    own = Lab()
    with serving(own.cluster) as server:
        yield own, server


_PLUGIN = """#!/bin/sh
for word; do case $word in --namespace=*) namespace=$word ;; --node=*) node=${word#--node=} ;; esac; done
pods='jsonpath={range .items[*]}{.metadata.name} {.status.phase}{"\\n"}{end}'
running=$(KUBECTL get pods "$namespace" -o "$pods" | grep -c '^e2e-.* Running$')
echo '{"verdicts": {"aligned": '$running'}, "nodes": [{"node": "'$node'", "state": "ok"}]}'
"""
"""It finds the containers that run, as the real one does."""


def _command(server: ApiServer, folder: Path, *options: str) -> tuple[list[str], dict[str, str]]:
    plugin = folder / "plugin"
    plugin.write_text(_PLUGIN.replace("KUBECTL", str(tool("kubectl"))))
    plugin.chmod(0o755)
    words = [sys.executable, str(TOP / "tests/e2e/e2e.py"), "--image", "registry.example/numaudit:1"]
    words += ["--kubectl", str(tool("kubectl")), "--plugin", str(plugin), *options]
    return words, {**os.environ, "KUBECONFIG": str(server.kubeconfig(folder)), "PYTHONUNBUFFERED": "1"}


def _run(server: ApiServer, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words, environment = _command(server, folder, *options)
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def _is_clean(own: Lab) -> bool:
    return not own.cluster.objects.stored and not own.cluster.pods


def test_every_forecast_is_compared_the_checks_pass_and_nothing_is_left(
    lab: tuple[Lab, ApiServer], tmp_path: Path
) -> None:
    own, server = lab
    done = _run(server, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = re.findall(r"forecasts right: (\d+) of (\d+)$", done.stdout, re.MULTILINE)
    assert line[0] == line[1]
    assert int(line[1]) >= 18
    assert re.search(r"wider-than-a-node +TopologyAffinityError +TopologyAffinityError +right", done.stdout)
    assert re.search(r"small +admitted on 0 +admitted on 0 +right", done.stdout)
    assert "series of the alerts: right: 3 lines" in done.stdout
    assert "kubectl numaudit: right" in done.stdout
    assert "a container moved by hand: right: e2e-01-small/app was promised [0] and moved to node 1" in done.stdout
    assert _is_clean(own)


def test_a_wrong_forecast_is_named_and_fails(lab: tuple[Lab, ApiServer], tmp_path: Path) -> None:
    own, server = lab
    own.wrong_about = "e2e-02-part-of-a-cpu"
    done = _run(server, tmp_path, "--no-drift")
    assert done.returncode == 1
    assert re.search(r"part-of-a-cpu +UnexpectedAdmissionError +admitted on 0 +WRONG", done.stdout)
    assert _is_clean(own)


def test_missing_rights_are_named_before_anything_is_made(lab: tuple[Lab, ApiServer], tmp_path: Path) -> None:
    own, server = lab
    own.cluster.objects.forbidden = {("create", "pods/exec"), ("delete", "namespaces")}
    done = _run(server, tmp_path)
    assert done.returncode == 3
    assert "these rights are missing, for all namespaces: delete namespaces, create pods/exec" in done.stderr
    assert _is_clean(own)


def test_an_interrupted_run_deletes_all_that_it_made(lab: tuple[Lab, ApiServer], tmp_path: Path) -> None:
    own, server = lab
    own.never_ready = True
    words, environment = _command(server, tmp_path)
    with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        assert until(lambda: any(one.get("status") for one in own.cluster.objects.stored.values()))
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate(timeout=120)[1]
    assert run.returncode == 130, said
    assert "interrupted; everything of this run is deleted" in said
    assert _is_clean(own)


def test_the_verbs_answer_with_the_fields_that_the_run_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": [{"name": "app"}]}}
    (tmp_path / "pod.json").write_text(json.dumps(pod))

    def answer(*words: str) -> Any:  # noqa: ANN401 (JSON)
        assert call([*words, "--root", CAPTURED, "--output=json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert {"admitted", "reason", "doubt", "containers"} <= answer("fit", f"--file={tmp_path}/pod.json").keys()
    assert {"numaNode", "type", "freeBytes"} <= answer("headroom")["tables"][0].keys()
    report = answer("report")
    assert {"containers", "nodes", "memoryManager"} <= report.keys()
    promised = next(one for one in report["containers"] if one["intended"])
    assert {"namespace", "pod", "container", "path", "kind", "verdict"} <= promised.keys()
    assert {"memoryNodes", "bytes"} <= promised["intended"].keys()
