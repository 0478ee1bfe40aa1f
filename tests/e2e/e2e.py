"""numaudit against a real cluster, that of KUBECONFIG: `make e2e IMAGE=registry.example.net/numaudit:0.1.0`.

It makes a namespace of its own with agents, creates some twenty pods on one node, compares what `numaudit fit` foretold
with what the kubelet did, moves one container by hand, reads `kubectl numaudit` and the series of the alerts, and
deletes all that it made, also after ^C. README.md beside this file lists the rights that it needs.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from compare import Happened, Row, forecast_of, happened_of, plugin_is_right, policy_of, table
from drift import drift
from installation import exec_json, installed, missing_rights, objects
from kubectl import Kubectl, Refused
from shapes import NodeRoom, pods

Json = dict[str, Any]
TOP = Path(__file__).resolve().parents[2]
_DECISION_SECONDS = 120.0
_PLUGIN_SECONDS = 60.0
_SERIES = ("numaudit_container_verdict", "numaudit_memory_manager_bytes", "numaudit_collector_success")
"""One of each kind that alerts are made of: verdicts, promises, health."""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    kubectl = Kubectl(f"numaudit-e2e-{int(time.time()) % 1_000_000}", options.kubectl.split())
    try:
        if missing := missing_rights(kubectl):
            _fail(3, f"these rights are missing, for all namespaces: {', '.join(missing)}")
        manifests = kubectl.run("kustomize", str(TOP / "tests/e2e/agent"), "--load-restrictor=LoadRestrictionsNone")
        with installed(kubectl, objects(manifests, kubectl.namespace, options.image), _say) as agents:
            return _try(kubectl, _agent_on(agents, options.node), options)
    except Refused as why:
        _fail(3, str(why))
    except KeyboardInterrupt:
        _fail(130, "interrupted; everything of this run is deleted")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make e2e", description=__doc__)
    parser.add_argument("--image", required=True, help="image of the agent that the nodes can pull, or have")
    parser.add_argument("--node", default="", help="the node to fill; default: the first with an agent")
    parser.add_argument("--kubectl", default="kubectl", help="the command, with options such as --context=lab")
    parser.add_argument("--plugin", default=str(TOP / ".venv/bin/kubectl-numaudit"), help="the kubectl plugin")
    parser.add_argument("--no-drift", action="store_true", help="move no container by hand (needs a privileged pod)")
    return parser.parse_args(arguments)


def _try(kubectl: Kubectl, agent: Json, options: argparse.Namespace) -> int:
    name, node = agent["metadata"]["name"], agent["spec"]["nodeName"]
    _say(f"node {node}, agent {name}, memory manager {policy_of(exec_json(kubectl, name, 'report'))}")
    rows = [_row(kubectl, name, pod) for pod in pods(_room(kubectl, name, node), kubectl.namespace, options.image)]
    print(table(rows))
    wrong = sum(row.is_right is False for row in rows)
    checks = [_series(kubectl, name), _plugin(kubectl, agent, options)]
    if not options.no_drift:
        checks.append(_drifted(kubectl, agent, {row.pod for row in rows}, options.image))
    for what, is_right, said in checks:
        print(f"{what}: {'right' if is_right else 'not checked' if is_right is None else 'WRONG'}: {said}")
        wrong += is_right is False
    return 1 if wrong or not any(row.is_right for row in rows) else 0


def _agent_on(agents: Sequence[Json], node: str) -> Json:
    found = [one for one in agents if node in ("", one["spec"]["nodeName"])]
    if not found:
        raise Refused(f"no agent runs on node {node!r}; there are {sorted(one['spec']['nodeName'] for one in agents)}")
    return min(found, key=lambda one: str(one["spec"]["nodeName"]))


def _room(kubectl: Kubectl, agent: str, node: str) -> NodeRoom:
    tables = exec_json(kubectl, agent, "headroom")["tables"]
    allocatable = kubectl.json("get", "node", node)["status"]["allocatable"]
    if not tables:
        raise Refused(f"the kubelet of {node} has no Memory Manager with the policy Static, so it promises nothing")

    def free(kind: str) -> list[int]:
        return [one["freeBytes"] for one in tables if one["type"] == kind]

    cpu = allocatable["cpu"]
    whole = int(cpu[:-1]) // 1000 if cpu.endswith("m") else int(cpu)
    return NodeRoom(node, free("memory"), free("hugepages-2Mi"), whole)


def _row(kubectl: Kubectl, agent: str, pod: Json) -> Row:
    name = pod["metadata"]["name"]
    forecast = forecast_of(exec_json(kubectl, agent, "fit", "--file=-", text=json.dumps(pod)))
    kubectl.create(pod)
    end = time.monotonic() + _DECISION_SECONDS
    while True:
        happened = happened_of(found := kubectl.json("get", "pod", name), None)
        if happened.admitted is not None:
            break
        if time.monotonic() > end:
            return Row(
                name, forecast, Happened(None, f"{found['status'].get('phase')} for {_DECISION_SECONDS:g} s", {})
            )
        time.sleep(0.5)
    while happened.admitted:
        happened = happened_of(found, exec_json(kubectl, agent, "report"))
        if happened.nodes or not forecast.nodes or time.monotonic() > end:
            break
    row = Row(name, forecast, happened)
    _say(f"{name}: {'right' if row.is_right else 'WRONG' if row.is_right is False else 'not compared'}")
    return row


def _series(kubectl: Kubectl, agent: str) -> tuple[str, bool | None, str]:
    """What Prometheus would read, through the API server."""
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/{agent}:9746/proxy/metrics"
    try:
        text = kubectl.run("get", "--raw", path)
    except Refused as why:
        return "series of the alerts", None, str(why)
    missing = [one for one in _SERIES if not re.search(rf"^{one}(_total)?\{{", text, re.MULTILINE)]
    return (
        "series of the alerts",
        not missing,
        f"no {', '.join(missing)}" if missing else f"{len(text.splitlines())} lines",
    )


def _plugin(kubectl: Kubectl, agent: Json, options: argparse.Namespace) -> tuple[str, bool | None, str]:
    """What it says of this namespace on the agent's node; the agent's newest report may be of the tick before."""
    what, name, node = "kubectl numaudit", agent["metadata"]["name"], agent["spec"]["nodeName"]
    command = [options.plugin, "report", *kubectl.program[1:], f"--namespace={kubectl.namespace}", f"--node={node}"]
    command += [f"--agent-namespace={kubectl.namespace}", "--output=json"]
    end = time.monotonic() + _PLUGIN_SECONDS
    while True:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            merged = json.loads(done.stdout)
        except (OSError, subprocess.TimeoutExpired) as error:
            return what, None, str(error)
        except ValueError:
            return what, False, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        is_right, said = plugin_is_right(kubectl.namespace, exec_json(kubectl, name, "report"), merged)
        if is_right or time.monotonic() > end:
            return what, is_right, said
        time.sleep(2)


def _drifted(kubectl: Kubectl, agent: Json, created: set[str], image: str) -> tuple[str, bool | None, str]:
    try:
        return "a container moved by hand", *drift(kubectl, agent, created, image)
    except Refused as why:
        return "a container moved by hand", None, str(why)


def _say(text: str) -> None:
    print(f"e2e: {text}", file=sys.stderr, flush=True)


def _fail(status: int, why: str) -> NoReturn:
    _say(why)
    raise SystemExit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
