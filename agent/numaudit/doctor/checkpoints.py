"""Would the kubelet start with its checkpoints now? One check for each file that is there."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.checkpoints.start.findings import CHECKPOINT_ABSENT, KEEPS_FROM_STARTING
from numaudit.intent.sources import StartOutlook
from numaudit.kernel.host import Host, may_exist
from numaudit.kubelet.questions.examination import examine, examine_absent
from numaudit.kubelet.questions.kubelet_here import kubelet_here
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.snapshot import Check


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
