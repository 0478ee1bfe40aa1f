"""Does the kubelet answer? Each of its pages, and PodResources, is asked here and now, as the agent would ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic

from numaudit.doctor.failed import failed
from numaudit.errors import NumauditError, Unavailable
from numaudit.kernel.host import Host, may_be_there
from numaudit.kubelet import config as kubelet_config
from numaudit.kubelet import metrics as kubelet_metrics
from numaudit.kubelet import podresources
from numaudit.kubelet import process as kubelet_process
from numaudit.kubelet.client import Answers, LiveKubelet, NotPermitted, RecordedKubelet, endpoint_of
from numaudit.kubelet.pods import PodReader
from numaudit.snapshot import Check

PODRESOURCES = "podresources"
WITHIN = 10.0
"""Seconds for all of them together."""
_RIGHTS = (
    "give its service account `get` on nodes/pods, nodes/configz and nodes/metrics (deploy/components/api-server); "
    "kubelets before 1.33 ask for nodes/proxy instead, which also allows commands in every container"
)
_NO_TOKEN = "without it: no names of refused pods, no counters; verdicts do not need it"  # noqa: S105 (a hint)


def answer_checks(host: Host) -> Iterator[Check]:
    """One check for each source of the kubelet that is asked; none where there is no kubelet."""
    host = kubelet_process.with_its_folder(host)
    pid = kubelet_process.find(host) if host.is_live else None
    is_there = pid is not None or host.connection.url is not None
    if not is_there and not may_be_there(host.kubelet) and not may_be_there(host.answers):
        return
    if not host.is_live:
        yield from (_try(name, ask, RecordedKubelet(host.answers)) for name, ask in CHECKS.items())
        return
    live = LiveKubelet.of(host, _settings(host, pid))
    live.until = monotonic() + WITHIN
    with closing(live):
        try:
            endpoint_of(live)
        except Unavailable as reason:
            pages = {name for name in CHECKS if name != PODRESOURCES}
            yield from (Check(name, "reduced", str(reason), _NO_TOKEN, "no-token") for name in CHECKS if name in pages)
            yield _try(PODRESOURCES, CHECKS[PODRESOURCES], live)
            return
        yield from (_try(name, ask, live) for name, ask in CHECKS.items())


def _settings(host: Host, pid: int | None) -> dict[str, object] | None:
    try:
        return dict(kubelet_process.read_settings(host, pid).config.document or {})
    except Unavailable:
        return None


def _try(name: str, ask: Callable[[Answers], str], kubelet: Answers) -> Check:
    try:
        return Check(name, "ok", ask(kubelet))
    except NotPermitted as error:
        return Check(name, "missing", str(error), _RIGHTS, "no-permission")
    except (NumauditError, OSError, ValueError) as error:
        return failed(name, error)


def _pods(kubelet: Answers) -> str:
    found = PodReader().read(kubelet.pods())
    refused = sum(one.rejection is not None for one in found.pods.values())
    said = f"{len(found.pods)} pods, {refused} of them refused"
    return f"{said}; {len(found.problems)} are not understood" if found.problems else said


def _configz(kubelet: Answers) -> str:
    config = kubelet_config.settle(kubelet_config.parse_configz(kubelet.configz()), {}, "configz")
    return f"Memory Manager {config.memory_manager_policy}, Topology Manager {config.topology_manager_policy}"


def _metrics(kubelet: Answers) -> str:
    found = kubelet_metrics.parse(kubelet.metrics())
    return f"kubelet {found.version or 'of an unknown version'}, {len(found.counters)} counters of admissions"


def _podresources(kubelet: Answers) -> str:
    answer = kubelet.podresources()
    return f"{answer.version}, {len(podresources.decode(answer))} pods"


CHECKS: dict[str, Callable[[Answers], str]] = {
    "kubelet /pods": _pods,
    "kubelet /configz": _configz,
    "kubelet /metrics": _metrics,
    PODRESOURCES: _podresources,
}
