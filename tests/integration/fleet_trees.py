"""Captured hosts that differ in what their kubelets would admit, and what the library itself says of each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from numaudit.containermanager.pod.spec import Pod, Resources
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import node_on
from numaudit.kubelet.questions.node_here import state_of
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.memorymanager.api import Kubelet, NodeState, admit, fresh_state, read_pod
from numaudit.scenario.files import written
from numaudit.scenario.values import Setup
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import Quantity


@dataclass(frozen=True, slots=True)
class Truth:
    """What a tree's kubelet does with a pod."""

    fits: int
    outcome: str
    memory_nodes: list[int] | None


def copied(source: Path, target: Path, kubelet: Mapping[str, Any], times: int) -> Path:
    """A copy whose kubelet has other settings, no CPU Manager, and has given its pods `times` their memory."""
    shutil.copytree(source, target, symlinks=True)
    file = target / "etc/kubernetes/kubelet.yaml"
    configuration = {**yaml.safe_load(file.read_text()), "cpuManagerPolicy": "none", **kubelet}
    file.write_text(yaml.safe_dump(configuration))
    here = node_on(Host.under(source), AskedKubelet(None, None))
    setup = Setup(here.setup.machine, configuration, here.setup.version)
    state = fresh_state(setup.kubelet)
    for pod in state_of(here.setup, here.files, here.pods).pods.values():
        state = admit(setup.kubelet, state, _larger(pod, times)).state
    files = written(setup.kubelet, state)
    for name, data in (("memory_manager_state", files.memory), ("cpu_manager_state", files.cpu)):
        assert data is not None
        (target / "var/lib/kubelet" / name).write_bytes(data)
    _free_all_huge_pages(target)
    return target


def _free_all_huge_pages(tree: Path) -> None:
    """Its pods have other nodes now than those whose pages they used when it was captured."""
    for pool in tree.glob("sys/devices/system/node/node*/hugepages/hugepages-*"):
        (pool / "free_hugepages").write_text((pool / "nr_hugepages").read_text())


def _larger(pod: Pod, times: int) -> Pod:
    def larger(resources: Resources) -> Resources:
        sizes = {
            name: Quantity.of(quantity.value * times) if name == "memory" else quantity
            for name, quantity in resources.limits.items()
        }
        return Resources(sizes, sizes)

    containers = tuple(replace(one, resources=larger(one.resources)) for one in pod.containers)
    return replace(pod, containers=containers)


def truth(root: Path, manifest: object, most: int = 110) -> Truth:
    """By the files of the tree and the library alone."""
    here = node_on(Host.under(root), AskedKubelet(None, None))
    kubelet: Kubelet = here.setup.kubelet
    state: NodeState = state_of(here.setup, here.files, here.pods)
    pod = read_pod(manifest)
    outcome, nodes = "", NodeSet()
    for number in range(most + 1):
        admission = admit(kubelet, state, replace(pod, uid=f"new-{number}"))
        if number == 0 and admission.rejection is not None:
            outcome = str(admission.rejection.outcome)
        elif number == 0:
            outcome = ", ".join(sorted({str(one.outcome) for one in admission.placements}))
            nodes = NodeSet.from_ids(id_ for one in admission.placements for id_ in one.memory_nodes or ())
        if not admission.admitted or number == most:
            return Truth(number, outcome, list(nodes) if nodes else None)
        state = admission.state
    raise AssertionError
