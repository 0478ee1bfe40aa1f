"""Does the kubelet answer? What came of each of its pages, and of PodResources, when they were asked. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numaudit.doctor.failed import failed
from numaudit.kubelet.sources.client import NoToken, NotPermitted
from numaudit.kubelet.sources.readings import KubeletReadings, Question
from numaudit.snapshot import Check
from numaudit.topology.sizes import plural

PODRESOURCES = "podresources"
_RIGHTS = (
    "give its service account `get` on nodes/pods, nodes/configz and nodes/metrics (deploy/components/api-server); "
    "kubelets before 1.33 ask for nodes/proxy instead, which also allows commands in every container"
)
_NO_TOKEN = "without it the names of refused pods and the kubelet's counters are missing; verdicts do not need it"  # noqa: S105 (a hint)


def answer_checks(readings: KubeletReadings) -> Iterator[Check]:
    """One check for each source of the kubelet that was asked."""
    for name, (question, said) in _CHECKS.items():
        error = readings.unanswered.get(question)
        match error:
            case None:
                yield Check(name, "ok", said(readings))
            case NoToken():
                yield Check(name, "reduced", str(error), _NO_TOKEN, "no-token")
            case NotPermitted():
                yield Check(name, "missing", str(error), _RIGHTS, "no-permission")
            case _:
                yield failed(name, error)


def _pods(readings: KubeletReadings) -> str:
    pods = readings.pods or {}
    refused = sum(one.rejection is not None for one in pods.values())
    said = f"{plural(len(pods), 'pod')}, {refused} of them refused"
    return f"{said}; {readings.strange_pods} are not understood" if readings.strange_pods else said


def _configz(readings: KubeletReadings) -> str:
    config = readings.config
    return f"Memory Manager {config.memory_manager_policy}, Topology Manager {config.topology_manager_policy}"


def _metrics(readings: KubeletReadings) -> str:
    found = readings.metrics
    assert found is not None
    counters = plural(len(found.counters), "counter")
    return f"kubelet {found.version or 'of an unknown version'}, {counters} of admissions"


def _podresources(readings: KubeletReadings) -> str:
    return f"{readings.resources_version}, {plural(len(readings.resources or ()), 'pod')}"


_CHECKS: dict[str, tuple[Question, Callable[[KubeletReadings], str]]] = {
    "kubelet /pods": ("/pods", _pods),
    "kubelet /configz": ("/configz", _configz),
    "kubelet /metrics": ("/metrics", _metrics),
    PODRESOURCES: ("podresources", _podresources),
}
NAMES = tuple(_CHECKS)
