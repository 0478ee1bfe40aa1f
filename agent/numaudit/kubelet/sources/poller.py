"""Polls the kubelet's sources: asks each when it may have changed, and keeps its last answer.

Every source is optional: one may know what another does not, and each reports its state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic, time

from msgspec import structs

from numaudit.checkpoints.formats.claims import ClaimCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint
from numaudit.checkpoints.formats.file import CLAIMS, DEVICES, CheckpointKind
from numaudit.errors import Absent, ParseError, Unavailable, to_keep
from numaudit.intent.kubelet import KubeletConfig, SourceState
from numaudit.intent.pods import Rejection
from numaudit.kernel.host import Host, explain
from numaudit.kubelet.parsers import config as kubelet_config
from numaudit.kubelet.parsers import klog
from numaudit.kubelet.parsers import log as kubelet_log
from numaudit.kubelet.parsers import metrics as kubelet_metrics
from numaudit.kubelet.parsers import pods as kubelet_pods
from numaudit.kubelet.parsers.admissions import MOST_RECORDS, Admissions
from numaudit.kubelet.parsers.checkpoint_file import CheckpointFile
from numaudit.kubelet.parsers.metrics import KubeletMetrics
from numaudit.kubelet.parsers.pods import PodList
from numaudit.kubelet.sources import checkpoints, podresources, presence
from numaudit.kubelet.sources import process as kubelet_process
from numaudit.kubelet.sources.cdi_files import CdiFiles, CdiSpecs
from numaudit.kubelet.sources.checkpoints import WatchedCheckpoint
from numaudit.kubelet.sources.client import KubeletAnswers, LiveKubelet, RecordedKubelet
from numaudit.kubelet.sources.log_follow import FileLog, LogSource, live_log
from numaudit.kubelet.sources.podresources import NodesOfDevices, PodResources
from numaudit.kubelet.sources.polled import Inputs, MachineWatch, Polled
from numaudit.kubelet.sources.process import StartSettings
from numaudit.kubelet.sources.readings import KubeletReadings, Question
from numaudit.snapshot import Container

SELDOM = 60.0
"""Seconds between two questions to the kubelet while no container and no checkpoint changes."""

SETTLED_AFTER = 60.0
"""Seconds from the writing of a checkpoint until all pods in it have their cgroups for sure."""

REFUSED_FOR = 3600.0
"""Seconds for which a refused pod that was deleted still counts."""

PATIENCE = 20.0
"""Seconds that one poll waits for the running kubelet: enough to ask each source when none answers."""

_SHARE, _LONGEST = 1 / 3, 5.0

_AFTER_PODS = timedelta(days=180)
"""A captured log goes on for less than this after its newest pod came, and began less than that before."""


@dataclass(slots=True)
class KubeletPoller:
    """Follows the kubelet of one host, also when it restarts, or reads a captured tree."""

    host: Host
    answers: KubeletAnswers
    log: LogSource
    patience: float = PATIENCE
    """Seconds that one poll waits for the running kubelet, all its answers together."""
    max_age: float = math.inf
    """Seconds that the last values of a silent source are used."""
    newest: KubeletReadings | None = None
    """Readings of the newest poll; None = no kubelet was there."""
    _files: dict[CheckpointKind, WatchedCheckpoint] = field(init=False)
    _machine: MachineWatch = field(init=False)
    _cdi_files: CdiFiles = field(init=False)
    _refused: dict[str, Rejection] = field(default_factory=dict)
    """By UID, the newest last."""
    _settings: Polled[StartSettings] = field(default_factory=lambda: Polled("kubelet configuration", every=SELDOM))
    _pods: Polled[PodList] = field(default_factory=lambda: Polled("pods", every=SELDOM, reasons_are_gaps=True))
    _resources: Polled[tuple[PodResources, ...]] = field(default_factory=lambda: Polled("podresources", every=SELDOM))
    _metrics: Polled[KubeletMetrics] = field(default_factory=lambda: Polled("kubelet metrics", every=SELDOM))
    _lines: Polled[Admissions] = field(default_factory=lambda: Polled("kubelet log", reasons_are_gaps=True))
    _allocatable: Polled[NodesOfDevices] = field(default_factory=lambda: Polled("allocatable devices", every=SELDOM))
    _cdi: Polled[CdiSpecs] = field(default_factory=lambda: Polled("cdi"))
    _admissions: Admissions = field(default_factory=Admissions)
    _configz_error: Exception | None = None
    _located: StartSettings | Unavailable | None = None
    """Settings that `locate` has read, for the poll after it."""
    _news: Inputs = field(default_factory=Inputs)
    _process: presence.KubeletProcess = field(default_factory=presence.KubeletProcess)
    _usual_root: str = field(init=False)
    """The kubelet's folder unless its process says another."""
    _was_there: bool = False
    _next_search: float = 0.0
    _misread: int = 0
    _strange: int | None = 0
    """Lines so far, all of a format that is not klog's; None = one was klog's."""

    def __post_init__(self) -> None:
        self._usual_root = self.host.kubelet_root
        self._machine = MachineWatch(self.host)
        self._cdi_files = CdiFiles(self.host)
        self._watch_files()

    @classmethod
    def of(cls, host: Host) -> KubeletPoller:
        """The running kubelet of this host, or what a captured tree has of one."""
        if not host.is_live:
            return cls(
                host, RecordedKubelet(host.answers), FileLog(host.answers / "kubelet.log", "numaudit/kubelet.log")
            )
        return cls(host, LiveKubelet.of(host), live_log(host))

    def close(self) -> None:
        """Close connections and files."""
        for one in (self.answers, self.log):
            if isinstance(one, LiveKubelet | FileLog):
                one.close()

    def use(self, interval: float, max_age: float) -> None:
        """Ticks come in this interval (seconds): a third of it, and five seconds at most, are for the kubelet."""
        self.patience = min(_SHARE * interval, _LONGEST)
        if isinstance(self.answers, LiveKubelet):
            self.answers.hurry()
        self.max_age = max_age

    def locate(self) -> Host:
        """The host with the root folder (`--root-dir`) of its kubelet. Only how that was started is read."""
        self._find_kubelet()
        try:
            self._located = self._started_with()
            self._use(self._located)
        except Unavailable as error:
            self._located = to_keep(error)
        return self.host

    def poll(self, containers: Sequence[Container]) -> KubeletReadings:
        """Ask every source that may have changed. Raises Unavailable where there is no kubelet at all."""
        files = self._begin()
        if self._has_news(containers, files.values()):
            self._resources.hurry()
            self._pods.hurry()
            self._allocatable.hurry()
        self._resources.ask(self._read_resources)
        self._pods.ask(self._read_pods)
        return self._end(files)

    def poll_state(self) -> KubeletReadings:
        """Ask what decides about the kubelet's next start, and the pods whose entries the checkpoints have.

        Raises Unavailable where there is no kubelet at all.
        """
        files = self._begin()
        self._pods.ask(self._read_pods)
        return self._end(files)

    def _begin(self) -> dict[CheckpointKind, CheckpointFile]:
        """The settings, then the checkpoints: those before the pods, for an entry whose pod is not listed is stale."""
        if isinstance(self.answers, LiveKubelet):
            self.answers.until = monotonic() + self.patience
        self._find_kubelet()
        if not self._is_there():
            self.newest = None
            error = Unavailable if self._was_there else Absent
            raise error(presence.absence_reason(self.host, self._process))
        self._was_there = True
        self._settings.ask(self._read_settings)
        now = time()
        found = {kind: file.poll(now, self.max_age) for kind, file in self._files.items()}
        if found[CLAIMS].is_absent and found[CLAIMS].good is None:
            del found[CLAIMS]  # a kubelet without DRA has no such file: nothing is missing
        return found

    def _is_there(self) -> bool:
        """A kubelet whose address was given is one to ask, whatever this host shows."""
        given = isinstance(self.answers, LiveKubelet) and self.answers.endpoint is not None
        return given or self._process.pid is not None or presence.has_files(self.host)

    def _end(self, files: dict[CheckpointKind, CheckpointFile]) -> KubeletReadings:
        self._metrics.ask(lambda: (kubelet_metrics.parse(self.answers.metrics()), None))
        self._lines.ask(self._read_log)
        has_devices = _has_devices(files)
        if has_devices:
            self._allocatable.ask(self._read_allocatable)
        if self._has_claims(files):
            self._cdi.ask(self._read_cdi)
        now = time()
        for one in (self._settings, self._pods, self._resources, self._metrics, self._allocatable):
            one.expire(now, self.max_age)
        self._remember_refused(now)
        self.newest = KubeletReadings(
            checkpoints=files,
            last_good_at={kind: one.last_good_at for kind, one in self._files.items()},
            config=KubeletConfig() if self._settings.value is None else self._settings.value.config,
            pods=None if self._pods.value is None else self._pods.value.pods,
            pods_are_current=self._pods.is_current,
            refused=dict(self._refused),
            strange_pods=0 if self._pods.value is None else len(self._pods.value.problems),
            resources=self._resources.value if self._resources.is_current else None,
            allocatable_devices=self._allocatable.value if has_devices else None,
            cdi=self._cdi.value or CdiSpecs(),
            log=self._admissions.facts,
            metrics=self._metrics.value,
            metrics_read_at=self._metrics.state.read_at,
            machine=self._machine.machine(),
            machine_problem=self._machine.problem,
            folder=self.host.kubelet_root,
            cgroups_are_settled=self._cgroups_are_settled(files.values()),
            polled_at=now,
            is_captured=not self.host.is_live,
            polled=self._states(has_devices),
            unanswered=self._unanswered(),
        )
        return self.newest

    def _remember_refused(self, now: float) -> None:
        """Of the pods listed now; those that were deleted since stay for an hour, as long as a report speaks of."""
        for pod in () if self._pods.value is None else self._pods.value.pods.values():
            if pod.rejection is not None:
                self._refused.pop(pod.uid, None)
                self._refused[pod.uid] = pod.rejection
        for uid, one in [*self._refused.items()]:
            if (one.at is not None and now - one.at > REFUSED_FOR) or len(self._refused) > MOST_RECORDS:
                del self._refused[uid]

    def _has_news(self, containers: Sequence[Container], files: Iterable[CheckpointFile]) -> bool:
        """Did a container come or go, or a checkpoint change? Or does a container still wait for its name?"""
        nameless = any(one.kind == "container" and one.pod_uid is not None and one.name is None for one in containers)
        changed = self._news.changed([(one.good, one.is_current) for one in files], {one.id for one in containers})
        return nameless or changed

    def _cgroups_are_settled(self, files: Iterable[CheckpointFile]) -> bool:
        """A capture takes its time; on a running node a pod's cgroup follows its entry within seconds."""
        written = [file.written_at for file in files if file.written_at is not None]
        return not self.host.is_live or (bool(written) and time() - max(written) > SETTLED_AFTER)

    def _states(self, has_devices: bool) -> tuple[SourceState, ...]:
        polled = (self._resources, self._pods, self._settings, self._lines, self._metrics)
        states = [structs.replace(one.state, lost=self.log.lost if one is self._lines else 0) for one in polled]
        if has_devices:
            states.append(self._allocatable.state)
        if self._cdi.value is not None:
            states.append(self._cdi.state)
        return tuple(states)

    def _has_claims(self, files: Mapping[CheckpointKind, CheckpointFile]) -> bool:
        """Does a container of this node use a resource claim?"""
        of_pods = {} if self._pods.value is None else self._pods.value.pods
        return (
            any(isinstance(one.good, ClaimCheckpoint) and one.good.claims for one in files.values())
            or any(one.claims for one in self._resources.value or ())
            or any(container.claims for pod in of_pods.values() for container in pod.containers)
        )

    def _read_cdi(self) -> tuple[CdiSpecs, str | None]:
        found = self._cdi_files.read()
        return found, "; ".join(found.problems[:3]) or None

    def _unanswered(self) -> Mapping[Question, Exception]:
        errors: dict[Question, Exception | None] = {
            "/pods": self._pods.error,
            "/configz": self._configz_error,
            "/metrics": self._metrics.error,
            "podresources": self._resources.error,
        }
        return {question: error for question, error in errors.items() if error is not None}

    def _find_kubelet(self) -> None:
        """Notice a kubelet that started, ended or was started again."""
        if presence.is_there(self.host, self._process):
            return
        if self._process.pid is None and monotonic() < self._next_search:
            return
        before, self._process = self._process, presence.find(self.host)
        self._next_search = monotonic() + SELDOM
        if self._process != before:
            for source in (self._settings, self._pods, self._resources, self._allocatable, self._metrics, self._lines):
                source.again()

    def _read_settings(self) -> tuple[StartSettings, str | None]:
        """Settings that the kubelet reports, else those of its start."""
        settings, problem = None, ""
        try:
            settings = self._started_with()
            self._use(settings)
        except Unavailable as error:
            problem = str(error)
        try:
            in_force = kubelet_config.parse_configz(self.answers.configz())
            self._configz_error = None
        except (Unavailable, ParseError, OSError) as error:
            self._configz_error = to_keep(error)
            if settings is None:
                raise Unavailable(f"{problem}; {explain(error)}") from None
            return settings, settings.reason
        config = kubelet_config.settle(in_force, {}, "configz")
        if settings is None:
            return StartSettings(config), None
        return StartSettings(structs.replace(config, ignored=settings.config.ignored), settings.root_dir), None

    def _started_with(self) -> StartSettings:
        found, self._located = self._located, None
        if isinstance(found, Unavailable):
            raise found
        return found or kubelet_process.read_settings(self.host, self._process)

    def _use(self, settings: StartSettings) -> None:
        if isinstance(self.answers, LiveKubelet):
            self.answers.config = settings.config.document
        root = settings.root_dir or self._usual_root
        if self._process.pid is not None and root != self.host.kubelet_root:
            self.host = replace(self.host, kubelet_root=root)
            self._watch_files()
            if isinstance(self.answers, LiveKubelet):
                self.answers.move(self.host)

    def _watch_files(self) -> None:
        self._files = {
            kind: WatchedCheckpoint(kind, path, self.host) for kind, path in checkpoints.paths(self.host).items()
        }

    def _read_resources(self) -> tuple[tuple[PodResources, ...], str | None]:
        return podresources.decode(self.answers.podresources()), None

    def _read_allocatable(self) -> tuple[NodesOfDevices, str | None]:
        answer = self.answers.allocatable()
        if answer is None:
            return {}, "the kubelet does not know GetAllocatableResources"
        return podresources.decode_allocatable(answer), None

    def _read_pods(self) -> tuple[PodList, str | None]:
        found = kubelet_pods.parse(self.answers.pods())
        return found, "; ".join(found.problems[:3]) or None

    def _read_log(self) -> tuple[Admissions, str | None]:
        until = self._log_until()
        lost = self.log.lost
        for line in self.log.read():
            if self.log.lost != lost:
                lost = self.log.lost
                self._admissions.miss_hints()
            if self._strange is not None:
                self._strange = None if klog.is_entry(line.text) else self._strange + 1
            try:
                event = kubelet_log.parse(line.text, until=until, at=line.at)
            except ParseError as error:
                self._misread += 1
                if isinstance(error, kubelet_log.UnreadHints):
                    self._admissions.miss_hints()
                continue
            if event is not None:
                self._admissions.add(event)
        return self._admissions, self._misread_reason()

    def _misread_reason(self) -> str | None:
        if self._strange:
            return f"none of its {self._strange} lines has a format that is read: klog's text or JSON"
        return f"{self._misread} lines of a known kind were not understood" if self._misread else None

    def _log_until(self) -> datetime:
        """klog's text has no year: a live log is of now, a captured one of the time of the captured pods."""
        if self.host.is_live:
            return datetime.now().astimezone()
        pods = {} if self._pods.value is None else self._pods.value.pods
        newest = max((pod.created_at for pod in pods.values() if pod.created_at is not None), default=None)
        return datetime.now(UTC) if newest is None else datetime.fromtimestamp(newest, UTC) + _AFTER_PODS


def _has_devices(files: Mapping[CheckpointKind, CheckpointFile]) -> bool:
    """Has a plugin registered some?"""
    found = files[DEVICES].good if DEVICES in files else None
    return isinstance(found, DeviceCheckpoint) and any((found.registered or {}).values())
