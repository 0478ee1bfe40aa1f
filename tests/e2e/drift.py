"""One container moved by hand: its cpuset.mems is set to a node that it was not promised."""

from __future__ import annotations

import time
from typing import Any

from installation import exec_json
from kubectl import Kubectl, Refused

Json = dict[str, Any]
_WRITE = """
import sys
folder, nodes = sys.argv[1:]
open("/host/cgroup" + folder + "/cpuset.mems", "w").write(nodes)
"""
_SECONDS = 120.0


def drift(kubectl: Kubectl, agent: Json, pods: set[str], image: str) -> tuple[bool, str]:
    """Whether the agent saw it, and what it says. Raises Refused with what stood in the way of moving anything."""
    name, node = agent["metadata"]["name"], agent["spec"]["nodeName"]
    report = exec_json(kubectl, name, "report")
    target = _target(report, pods, kubectl.namespace)
    promised = target["intended"]["memoryNodes"]
    other = next(one["numaNode"] for one in report["nodes"] if one["numaNode"] not in promised)
    kubectl.create(_writer(node, kubectl.namespace, image, target["path"], str(other)))
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        wrote = kubectl.json("get", "pod", "e2e-drift")["status"]
        if wrote.get("phase") == "Failed":
            said = kubectl.call("logs", "e2e-drift").stdout.strip().splitlines() or [wrote.get("reason", "")]
            raise Refused(f"cpuset.mems could not be written: {said[-1]}")
        found = [one for one in exec_json(kubectl, name, "report")["containers"] if one["path"] == target["path"]]
        if found and found[0]["verdict"]["name"] == "drifted":
            moved = f"{target['pod']}/{target['container']} was promised {promised} and moved to node {other}"
            return True, f"{moved}: drifted, {found[0]['verdict']['reason']}"
        time.sleep(2)
    return False, f"{target['pod']} was moved to node {other}, and no report calls it drifted within {_SECONDS:g} s"


def _target(report: Json, pods: set[str], namespace: str) -> Json:
    for one in report["containers"]:
        is_ours = one.get("namespace") == namespace and one.get("pod") in pods
        if is_ours and one["kind"] == "container" and one["verdict"]["name"] == "aligned":
            found: Json = one
            return found
    raise Refused("no container of this run is aligned, so there is nothing to move")


def _writer(node: str, namespace: str, image: str, folder: str, nodes: str) -> Json:
    container = {
        "name": "writer",
        "image": image,
        "command": ["/opt/numaudit/bin/python", "-c", _WRITE, folder, nodes],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [{"name": "cgroup", "mountPath": "/host/cgroup"}],
    }
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e2e-drift", "namespace": namespace}, "spec": spec}
