"""Does the kubelet answer, and would it start with its checkpoints? By what was read when it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numaudit.checkpoints.start.findings import CHECKPOINT_ABSENT, KEEPS_FROM_STARTING
from numaudit.doctor.outcome import failed
from numaudit.intent.kubelet import StartOutlook
from numaudit.kernel.host import Host, may_exist
from numaudit.kubelet.questions.examination import examine, examine_absent
from numaudit.kubelet.questions.kubelet_here import kubelet_here
from numaudit.kubelet.sources.client import NoToken, NotPermitted
from numaudit.kubelet.sources.readings import KubeletReadings, Question
from numaudit.snapshot import Check
from numaudit.topology.quantity import plural

PODRESOURCES = "podresources"
_RIGHTS = (
    "give its service account `get` on nodes/pods, nodes/configz and nodes/metrics (deploy/components/api-server); "
    "kubelets before 1.33 ask for nodes/proxy instead, which also allows commands in every container"
)
_NO_TOKEN = "without it the names of refused pods and the kubelet's counters are missing; verdicts do not need it"  # noqa: S105 (a hint)


def checkpoint_checks(host: Host, readings: KubeletReadings) -> Iterator[Check]:
    """Judged by what was read of this host's kubelet. A missing file has a check only where one should be."""
    kubelet, folder = kubelet_here(readings).starting.kubelet, readings.folder
    for kind, file in readings.checkpoints.items():
        if file.problem == "unreadable":
            yield Check(kind, "missing", file.detail or "cannot be read", reason="not-readable")
        elif not file.is_absent:
            yield _check(kind, examine(file, readings.machine, kubelet, folder))
        elif may_exist(host.at(folder)):
            found = examine_absent(kind, file.shown, kubelet)
            if any(one.name == CHECKPOINT_ABSENT for one in found.findings):
                yield _check(kind, found)


def _check(name: str, found: StartOutlook) -> Check:
    """With the gravest finding: one that stops the kubelet, else an error, else a warning."""
    detail = f"would the kubelet start with it? now: {found.starts_now}; after a reboot: {found.starts_after_reboot}"
    errors = [one for one in found.findings if one.severity == "error"]
    warnings = [one for one in found.findings if one.severity == "warning"]
    stopping = [one for one in found.findings if one.stops in KEEPS_FROM_STARTING]
    gravest = next(iter([*stopping, *errors, *warnings]), None)
    if gravest is None and found.starts_now == "unknown":
        return Check(
            name,
            "reduced",
            detail,
            "make the nodes, their memory and the CPUs readable, so that they can be compared with it",
        )
    if gravest is None:
        return Check(name, "ok", detail)
    detail = f"{detail}; {gravest.name}: {gravest.message}"
    return Check(name, "missing" if stopping or errors else "reduced", detail, gravest.remedy, gravest.name)


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
    return f"v1, {plural(len(readings.resources or ()), 'pod')}"


_CHECKS: dict[str, tuple[Question, Callable[[KubeletReadings], str]]] = {
    "kubelet /pods": ("/pods", _pods),
    "kubelet /configz": ("/configz", _configz),
    "kubelet /metrics": ("/metrics", _metrics),
    PODRESOURCES: ("podresources", _podresources),
}
NAMES = tuple(_CHECKS)
