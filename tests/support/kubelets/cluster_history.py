"""What a cluster's node went through: every pod that came to it, in order, and what its kubelet v1.36.2 made of it.

Four kubelets ran one after the other; before the last one the node was rebooted and its state files were deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from fixture_trees import FIXTURES
from kubelets.recorded import LoggedAdmission, events_in
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.predicates import Capacity
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.memorymanager.admission import NodeState, admit, reconcile, remove
from numaudit.memorymanager.kubelet import Kubelet, read_allocatable, read_kubelet
from numaudit.memorymanager.manager import fresh_state, restart
from numaudit.topology.machine import Machine

HISTORY = FIXTURES / "kubelet-cluster"
TREE = FIXTURES / "kubernetes-cluster"
_KUBELETS = (1, 2, 3, 4)
_AFTER_REBOOT = 4
_NOT_CAPTURED = "numaudit/numaudit-hdsn4"
_AFTER_REBOOT_MEMORY = {1: 1253236736, 3: 1280016384}
"""Bytes of the nodes that came back with more or less, as the refusing kubelet named them."""
_ENDED_BEFORE = {
    "work/x-guaranteed-and-limits-only": ("work/i-fraction", "work/j-burstable", "work/l-sidecar"),
    "work/bulk": ("work/d-two-containers",),
    "work/bulk2": ("work/a-small",),
    "numaudit/numaudit-jjfgn": ("numaudit/numaudit-6627n",),
    "work/after-stale": ("work/m-big",),
    "numaudit/numaudit-rmfz8": ("numaudit/numaudit-jjfgn",),
}
"""Pod -> those that the kubelet did not count any more when it came. No log says when a pod is gone for the kubelet;
its refusals do, by the sum of what it counts: `used: 7400` until t-huge-third, `used: 6500` at y-mixed."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A pod that came to the node for the first time."""

    kubelet: Kubelet
    state: NodeState
    """Before it came; the checkpoint may have entries of pods that are gone."""
    pod: Pod
    denied: tuple[str, str] | None
    """The kubelet's reason and message; None = it admitted the pod."""


def configuration() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((HISTORY / "configz.json").read_text())["kubeletconfig"]
    return loaded


def pods() -> list[dict[str, Any]]:
    """All that were captured, the oldest first."""
    loaded: list[dict[str, Any]] = json.loads((HISTORY / "pods.json").read_text())["items"]
    return loaded


def pod_of(name: str) -> dict[str, Any]:
    """The newest captured pod of this name."""
    return next(one for one in reversed(pods()) if one["metadata"]["name"] == name)


def attempts() -> Iterator[Attempt]:
    """All attempts but those of a pod that was not captured, each with the node as the library has it by then."""
    to_come: dict[str, list[Pod]] = {}
    for one in pods():
        pod = read_pod(one, defaults=False)
        to_come.setdefault(_name(pod), []).append(pod)
    machine = read_machine(Host.under(TREE))
    state: NodeState | None = None
    for number in _KUBELETS:
        if number == _AFTER_REBOOT:
            machine = _rebooted(machine)
        kubelet, _ = read_kubelet(configuration(), machine, kubernetes_version="1.36")
        here = _started(kubelet, None if number == _AFTER_REBOOT else state, state)
        here = replace(here, capacity=Capacity(read_allocatable(configuration(), machine, devices={})))
        for logged in _admissions(number):
            again = next((uid for uid, pod in here.pods.items() if _name(pod) == logged.pod), None)
            if again is not None:  # by a kubelet that was started again
                here = here if logged.denied is None else remove(here, again)
                continue
            if logged.pod == _NOT_CAPTURED:
                continue
            here = reconcile(_without(here, _ENDED_BEFORE.get(logged.pod, ())))
            pod = to_come[logged.pod].pop(0)
            yield Attempt(kubelet, here, pod, logged.denied)
            after = admit(kubelet, here, pod).state
            here = after if logged.denied is None else remove(after, pod.uid)
        state = here


def _started(kubelet: Kubelet, files: NodeState | None, before: NodeState | None) -> NodeState:
    """`files` None = the kubelet finds none. The pods that were there before are admitted again."""
    pods_before = () if before is None else tuple(before.pods.values())
    state = fresh_state(kubelet) if files is None else files
    return restart(kubelet, reconcile(state), pods_before)[0]


def _admissions(number: int) -> list[LoggedAdmission]:
    events = events_in((HISTORY / f"kubelet.k{number}.log").read_text())
    return [one for one in events if isinstance(one, LoggedAdmission)]


def _without(state: NodeState, names: tuple[str, ...]) -> NodeState:
    for uid in [uid for uid, pod in state.pods.items() if _name(pod) in names]:
        state = remove(state, uid)
    return state


def _rebooted(machine: Machine) -> Machine:
    nodes = tuple(replace(one, memory=_AFTER_REBOOT_MEMORY.get(one.id, one.memory)) for one in machine.nodes)
    return replace(machine, nodes=nodes)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
