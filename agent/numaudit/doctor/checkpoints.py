"""Would the kubelet start with its checkpoints now? One check for each file that is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import time

from numaudit.errors import Unavailable
from numaudit.intent import KubeletConfig, StartOutlook
from numaudit.kernel.host import Host
from numaudit.kubelet import process as kubelet_process
from numaudit.kubelet import state_files
from numaudit.kubelet.checkpoints import WatchedCheckpoint
from numaudit.kubelet.examination import examine
from numaudit.kubelet.machine_watch import whole_machine_or_none
from numaudit.kubelet.starting import starting_kubelet
from numaudit.snapshot import Check


def checkpoint_checks(host: Host) -> Iterator[Check]:
    """By the kubelet's own configuration where it can be read. A file that is not there has no check."""
    try:
        settings = kubelet_process.read_settings(host, kubelet_process.find(host))
    except Unavailable:
        config = KubeletConfig()
    else:
        config = settings.config
        host = replace(host, kubelet_root=settings.root_dir or host.kubelet_root)
    machine = whole_machine_or_none(host)
    kubelet = starting_kubelet(config, machine)
    for kind, path in state_files.paths(host).items():
        file = WatchedCheckpoint(kind, path, host.name_of(path)).look(time())
        if file.health.problem == "unreadable":
            yield Check(kind, "missing", file.health.detail or "cannot be read")
        elif file.newest is not None:
            yield _check(kind, examine(file.newest, machine, kubelet).start)


def _check(name: str, found: StartOutlook) -> Check:
    """With the gravest finding: one that stops the kubelet, else an error, else a warning."""
    detail = f"would the kubelet start with it? now: {found.starts_now}; after a reboot: {found.starts_after_reboot}"
    errors = [one for one in found.findings if one.severity == "error"]
    warnings = [one for one in found.findings if one.severity == "warning"]
    stopping = [one for one in found.findings if one.what_it_stops in ("start", "maybe")]
    gravest = next(iter([*stopping, *errors, *warnings]), None)
    if gravest is None and found.starts_now == "unknown":
        return Check(
            name, "reduced", detail, "the nodes, their memory and the CPUs must be readable, to be compared with"
        )
    if gravest is None:
        return Check(name, "ok", detail)
    detail = f"{detail}; {gravest.name}: {gravest.message}"
    return Check(name, "missing" if stopping or errors else "reduced", detail, gravest.remedy)
