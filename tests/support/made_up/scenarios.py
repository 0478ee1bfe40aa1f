"""Scenarios for tests, as plain values and as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numaudit.containermanager.plain import Document
from numaudit.scenario.reading import read_scenario
from numaudit.scenario.simulation import ScenarioRun, simulate

Plain = dict[str, Any]


def no_file(name: str, what: str) -> list[Document]:
    raise AssertionError(f"{what} is not to be read from {name}")


def machine(*memory: str, cpus: int = 4) -> Plain:
    """Nodes of these sizes, each with so many CPUs."""
    return {
        "nodes": [
            {"id": number, "cpus": f"{number * cpus}-{number * cpus + cpus - 1}", "memory": size}
            for number, size in enumerate(memory)
        ]
    }


def pod(name: str, memory: str = "1Gi", cpu: str = "1", **more: str) -> Plain:
    """A Guaranteed pod of one container `app`; further resources are written `vendor__nic`, or as they are."""
    limits = {"cpu": cpu, "memory": memory, **more}
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]}}


def scenario(
    machine: Plain, steps: Sequence[Mapping[str, Any]], kubelet: Plain | None = None, state: Plain | None = None
) -> Plain:
    """1 GiB is reserved on node 0 and the policy is best-effort, unless `kubelet` says otherwise."""
    own = {
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "best-effort",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
        **(kubelet or {}),
    }
    head = {"apiVersion": "numaudit/v1", "kind": "Scenario"}
    return {**head, "machine": machine, "kubelet": own, "state": state, "steps": list(steps)}


def play(given: Plain) -> ScenarioRun:
    return simulate(read_scenario(Document("scenario.yaml", given), no_file))
