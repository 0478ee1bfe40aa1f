"""The agent in a namespace of its own, made by the kustomization and deleted at the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import yaml

from kubectl import Kubectl, Refused

Json = dict[str, Any]
Say = Callable[[str], None]
NEEDED = (
    ("create", "namespaces"),
    ("delete", "namespaces"),
    ("get", "nodes"),
    ("create", "pods"),
    ("create", "pods/exec"),
    ("get", "pods/proxy"),
    ("create", "daemonsets.apps"),
    ("create", "configmaps"),
    ("create", "serviceaccounts"),
    ("create", "networkpolicies.networking.k8s.io"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("delete", "clusterroles.rbac.authorization.k8s.io"),
    ("delete", "clusterrolebindings.rbac.authorization.k8s.io"),
)
"""Verb and resource of each right that a run needs, at the cluster scope: its namespace is not there before."""
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding")
_READY_SECONDS = 300.0
_GONE_SECONDS = 180.0


def missing_rights(kubectl: Kubectl) -> list[str]:
    """What to ask an administrator for."""
    return [f"{verb} {resource}" for verb, resource in NEEDED if not kubectl.may(verb, resource)]


def objects(manifests: str, namespace: str, image: str) -> list[Json]:
    """What kustomize built of the base with `api-server`, moved into this namespace.

    Its two cluster-wide objects take the namespace's name, so that an agent that is installed keeps its own. The port
    is open to the API server's proxy, which has no namespace that a policy could name.
    """
    found = [one for one in yaml.safe_load_all(manifests) if one]
    for one in found:
        metadata, kind = one["metadata"], one["kind"]
        if kind in ("Namespace", *CLUSTER_WIDE):
            metadata["name"] = namespace
        else:
            metadata["namespace"] = namespace
        if kind == "ClusterRoleBinding":
            one["roleRef"]["name"] = namespace
            one["subjects"][0]["namespace"] = namespace
        if kind == "DaemonSet":
            (container,) = one["spec"]["template"]["spec"]["containers"]
            container["image"] = image
            container["startupProbe"]["failureThreshold"] = 120
        if kind == "NetworkPolicy" and metadata["name"] == "numaudit":
            one["spec"]["ingress"] = [{"ports": [{"protocol": "TCP", "port": 9746}]}]
    return found


@contextmanager
def installed(kubectl: Kubectl, made: Sequence[Json], say: Say) -> Iterator[list[Json]]:
    """The agents' pods. The namespace goes at the end whatever happens, with all that is in it."""
    namespace = [one for one in made if one["kind"] == "Namespace"]
    try:
        kubectl.create(*namespace)
        kubectl.create(*(one for one in made if one not in namespace))
        say("waiting for the agents")
        yield _ready_agents(kubectl)
    finally:
        say(f"deleting the namespace {kubectl.namespace} and all that is in it")
        _delete(kubectl, "clusterrolebinding,clusterrole", say)
        if _delete(kubectl, "namespace", say):
            _wait_until_gone(kubectl, say)


def _delete(kubectl: Kubectl, kinds: str, say: Say) -> bool:
    words = ("delete", kinds, kubectl.namespace, "--ignore-not-found", "--wait=false")
    try:
        kubectl.run(*words)
    except Refused as why:
        say(f"NOT deleted: {why}; delete it by `kubectl {' '.join(words[:3])}`")
        return False
    return True


def _ready_agents(kubectl: Kubectl) -> list[Json]:
    end = time.monotonic() + _READY_SECONDS
    while True:
        daemonset = kubectl.json("get", "daemonset", "numaudit")
        status = daemonset.get("status", {})
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        if wanted and ready >= wanted:
            listed: list[Json] = kubectl.json("get", "pods", "--selector=app.kubernetes.io/name=numaudit")["items"]
            return listed
        if time.monotonic() > end:
            pods = kubectl.json("get", "pods")["items"]
            raise Refused(f"{ready} of {wanted} agents are ready after {_READY_SECONDS:g} s: {_reasons(pods)}")
        time.sleep(1)


def _reasons(pods: Sequence[Json]) -> str:
    found = set()
    for pod in pods:
        for one in pod.get("status", {}).get("containerStatuses", []):
            waiting = one.get("state", {}).get("waiting", {})
            if waiting:
                found.add(f"{waiting.get('reason')}: {waiting.get('message', '')}"[:200])
    return "; ".join(sorted(found)) or "no pod says why"


def _wait_until_gone(kubectl: Kubectl, say: Say) -> None:
    end = time.monotonic() + _GONE_SECONDS
    while kubectl.call("get", "namespace", kubectl.namespace).returncode == 0:
        if time.monotonic() > end:
            say(f"the namespace {kubectl.namespace} is still terminating after {_GONE_SECONDS:g} s")
            return
        time.sleep(1)


def exec_json(kubectl: Kubectl, agent: str, *words: str, text: str = "") -> Any:  # noqa: ANN401 (a JSON document)
    """A verb of an agent with `-o json`. Raises Refused."""
    done = kubectl.call("exec", "--stdin", agent, "--", "numaudit", *words, "--output=json", text=text)
    try:
        return json.loads(done.stdout)
    except ValueError:
        said = (done.stderr.strip().splitlines() or ["it printed no JSON"])[-1]
        raise Refused(f"`numaudit {' '.join(words)}` in {agent}: {said}") from None
