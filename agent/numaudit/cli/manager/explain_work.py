"""`numaudit explain POD`: one container from its promise to what it costs."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from numaudit.api.placement_document import AdmissionAccount, Placement, PlacementList, account
from numaudit.api.selection import narrow
from numaudit.cli import options, printing
from numaudit.cli.observe.report_work import MAPPINGS_BUDGET, observe_whole
from numaudit.encoding.value import timestamp
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError, Unavailable
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.intent.node import Intent
from numaudit.intent.pods import HintRecord
from numaudit.kernel.host import Host
from numaudit.kubelet.host_files import storage_of
from numaudit.kubelet.questions.node_here import node_here
from numaudit.kubelet.questions.rederived import Rederived, admitted_at, rederive
from numaudit.kubelet.questions.starting import AskedKubelet
from numaudit.report.values import ContainerReport, Report
from numaudit.scenario.values import Node
from numaudit.snapshot import ContainerId, Snapshot


def run(*, which: str, duration: float | None, output: str, root: Path | None) -> None:
    """Print the page. Raises InputError for options that do not fit, and Unavailable."""
    if duration is not None and root is not None:
        raise InputError("--duration measures the running kernel, and --root reads a captured tree: leave out one")
    host = options.host(root)
    found = placements(host, which, duration)
    if output == "json":
        printing.json_of_host("PlacementList", found, host)
        return
    from numaudit.views.terminal import placement_page

    with printing.table_of_host(host) as out:
        placement_page.print_placements(found, out, wide=output == "wide")


def placements(host: Host, which: str, duration: float | None) -> PlacementList:
    """Those of that name, as `numaudit report` takes it. Raises InputError when none is a container of a pod."""
    observer = Observer.of(host)
    if duration is not None:  # a name that is not there is not worth the wait
        _named(Engine(observer).tick().report, which)

    def wanted(report: Report) -> frozenset[ContainerId]:
        return _ids(report, which)

    ticked = observe_whole(observer, MAPPINGS_BUDGET, duration, selected=wanted, with_processes=True)
    containers, refused = _named(ticked.report, which)
    admissions = PromiseAccounts.of(observer, ticked.snapshot)
    items = [admissions.of_container(one) for one in containers]
    items += [admissions.of_refused(one) for one in refused]
    return PlacementList(items, ticked.report.nodes)


def _named(report: Report, which: str) -> tuple[list[ContainerReport], tuple[HintOutcome, ...]]:
    found = narrow(report, which)
    containers = [one for one in found.containers if one.pod_uid is not None and one.container is not None]
    if not containers and not found.rejections:
        raise InputError(f"{which!r} is not a container of a pod; `numaudit report {which}` shows what is known of it")
    return containers, found.rejections


def _ids(report: Report, which: str) -> frozenset[ContainerId]:
    """Those that run. Raises as `_named`."""
    return frozenset(ContainerId(one.id) for one in _named(report, which)[0] if one.id is not None)


def _node(observer: Observer, snapshot: Snapshot) -> Node | str:
    """The host's kubelet; or why it is not known."""
    kubelet = observer.collectors.kubelet
    host = kubelet.poller.host
    pods = frozenset(one.pod_uid for one in snapshot.containers if one.pod_uid is not None)
    try:
        return node_here(
            kubelet.readings,
            AskedKubelet(),
            folder=host.kubelet_root,
            with_cgroup=pods if snapshot.is_whole_host else None,
            storage=storage_of(host),
        )
    except (InputError, Unavailable) as error:
        return str(error)


class PromiseAccounts(Struct, frozen=True):
    """Account of how the kubelet came to its promises."""

    intent: Intent
    node: Node | str

    @classmethod
    def of(cls, observer: Observer, snapshot: Snapshot) -> PromiseAccounts:
        """By what the newest tick, which is that of the snapshot, read of the kubelet."""
        return cls(snapshot.intent or Intent(), _node(observer, snapshot))

    def of_container(self, one: ContainerReport) -> Placement:
        own = (hint for hint in self._records(one.pod_uid) if hint.container in (None, one.container))
        record = next(own, None)
        admission = self._account(record, one.pod_uid, one.container)
        promised_at = None if one.pod_uid is None else admitted_at(self.intent, one.pod_uid)
        pod = (self.intent.pods or {}).get(one.pod_uid or "")
        resize = None if pod is None else pod.resize
        return Placement(one, None, admission, timestamp(promised_at), timestamp(self._started_at(one)), resize)

    def of_refused(self, one: HintOutcome) -> Placement:
        record = next(iter(self._records(one.pod_uid)), None)
        return Placement(None, one, self._account(record, one.pod_uid, None))

    def _account(self, record: HintRecord | None, uid: str | None, container: str | None) -> AdmissionAccount:
        found = account(record, self._derived(uid), container)
        log = next((one for one in self.intent.sources if one.name == "kubelet log"), None)
        is_whole = record is not None and bool(record.providers) and record.best is not None
        return found if is_whole or log is None or log.state != "partial" else replace(found, log_gaps=log.reason)

    def _started_at(self, one: ContainerReport) -> float | None:
        pod = (self.intent.pods or {}).get(one.pod_uid or "")
        parts = () if pod is None else pod.containers
        return next((part.started_at for part in parts if part.name == one.container), None)

    def _records(self, uid: str | None) -> list[HintRecord]:
        return [one for one in reversed(self.intent.hints) if uid is not None and one.pod_uid == uid]

    def _derived(self, uid: str | None) -> Rederived | str:
        if isinstance(self.node, str):
            return self.node
        return "the pod's UID is not known" if uid is None else rederive(self.node, self.intent, uid)
