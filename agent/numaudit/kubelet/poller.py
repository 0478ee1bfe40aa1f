"""What did the kubelet promise to each container?

Every source is optional: what one cannot tell another may, and each says how it fared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic, time

from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.intent import Intent, KubeletConfig, SourceName, SourceState
from numaudit.kernel.host import Host
from numaudit.kubelet import config as kubelet_config
from numaudit.kubelet import join, podresources, state_files
from numaudit.kubelet import log as kubelet_log
from numaudit.kubelet import metrics as kubelet_metrics
from numaudit.kubelet import process as kubelet_process
from numaudit.kubelet.admissions import Admissions
from numaudit.kubelet.checkpoints import WatchedCheckpoint
from numaudit.kubelet.client import Access, Answers, Live, Recorded
from numaudit.kubelet.join import Joined
from numaudit.kubelet.log_follow import FileLog, JournalLog, LogSource
from numaudit.kubelet.metrics import KubeletMetrics
from numaudit.kubelet.podresources import PodResources
from numaudit.kubelet.pods import PodList, PodReader
from numaudit.kubelet.polled import Polled
from numaudit.kubelet.process import Settings
from numaudit.kubelet.promises import Checkpoints, by_container
from numaudit.kubelet.restart_safety import RestartSafety
from numaudit.memorymanager.checkpoint.cpu import CpuCheckpoint
from numaudit.memorymanager.checkpoint.device import DeviceCheckpoint
from numaudit.memorymanager.checkpoint.file import CPU, DEVICES, MEMORY, Kind
from numaudit.memorymanager.checkpoint.memory import MemoryCheckpoint
from numaudit.memorymanager.memory.headroom import Headroom, headroom_of
from numaudit.snapshot import Container

SELDOM = 60.0
"""Seconds between two questions to the kubelet while no container and no checkpoint changes."""


SETTLED_AFTER = 60.0
"""Seconds from the writing of a checkpoint until all pods in it have their cgroups for sure."""

_AFTER_PODS = timedelta(days=180)
"""A captured log goes on for less than this after its newest pod came, and began less than that before."""

_Good = tuple[MemoryCheckpoint | None, CpuCheckpoint | None, DeviceCheckpoint | None]


@dataclass(frozen=True, slots=True)
class Collected:
    """The intent, and the containers with the names that the pods' status gives them."""

    intent: Intent
    containers: tuple[Container, ...]


@dataclass(slots=True)
class KubeletIntent:
    """Asks the kubelet of one host, or a captured tree. It remembers what it read between two looks."""

    host: Host
    answers: Answers
    log: LogSource
    _files: dict[Kind, WatchedCheckpoint] = field(init=False)
    _settings: Polled[Settings] = field(default_factory=lambda: Polled("kubelet configuration", every=SELDOM))
    _pods: Polled[PodList] = field(default_factory=lambda: Polled("pods", every=SELDOM))
    _resources: Polled[tuple[PodResources, ...]] = field(default_factory=lambda: Polled("podresources", every=SELDOM))
    _metrics: Polled[KubeletMetrics] = field(default_factory=lambda: Polled("kubelet metrics", every=SELDOM))
    _lines: Polled[Admissions] = field(default_factory=lambda: Polled("kubelet log"))
    _admissions: Admissions = field(default_factory=Admissions)
    _safety: RestartSafety = field(init=False)
    _pod_reader: PodReader = field(default_factory=PodReader)
    _pid: int | None = None
    _next_search: float = 0.0
    _misread: int = 0
    _by_container: tuple[_Good, tuple[bool, bool, bool], Checkpoints] | None = None
    _headroom: tuple[MemoryCheckpoint, str | None, Headroom | None] | None = None
    _seen: tuple[object, ...] = ()
    _joined: tuple[tuple[object, ...], tuple[Container, ...], Joined] | None = None

    def __post_init__(self) -> None:
        self._watch()

    @classmethod
    def of(cls, host: Host, access: Access = Access()) -> KubeletIntent:  # noqa: B008 -- an immutable value
        """The running kubelet of this host, or what a captured tree has of one."""
        if not host.is_live:
            return cls(host, Recorded(host.answers), FileLog(host.answers / "kubelet.log", "numaudit/kubelet.log"))
        live = Live(host, podresources.Client(podresources.socket(host)), endpoint=access.endpoint(host))
        log = JournalLog() if access.log_file is None else FileLog(access.log_file, str(access.log_file))
        return cls(host, live, log)

    def close(self) -> None:
        """Close connections and files."""
        for one in (self.answers, self.log):
            if isinstance(one, Live | FileLog):
                one.close()

    def collect(self, containers: Sequence[Container]) -> Collected:
        """Look at every source once. Raises Unavailable where there is no kubelet at all."""
        self._find_kubelet()
        if self._pid is None and not self.host.kubelet.is_dir() and not self.host.answers.is_dir():
            raise Unavailable(
                f"no kubelet: no process of that name is visible, and there is no {self.host.kubelet_root}"
            )
        self._settings.ask(self._read_settings)
        # Checkpoints before pods: a pod that is in the older of the two and not in the newer one is gone.
        now = time()
        for file in self._files.values():
            file.look(now)
        checkpoints = self._checkpoints()
        if self._is_news(containers, checkpoints):
            self._resources.hurry()
            self._pods.hurry()
        self._resources.ask(lambda: (podresources.decode(self.answers.podresources()), None))
        self._pods.ask(self._read_pods)
        self._metrics.ask(lambda: (kubelet_metrics.parse(self.answers.metrics().decode("utf-8", "replace")), None))
        self._lines.ask(self._read_log)
        named, joined = self._join(tuple(containers), checkpoints)
        return Collected(self._intent(joined, checkpoints), named)

    def _is_news(self, containers: Sequence[Container], checkpoints: Checkpoints) -> bool:
        """Did a container come or go, or a checkpoint change? Or does a container still wait for its name?"""
        before, self._seen = self._seen, (checkpoints, {one.id for one in containers})
        nameless = any(one.kind == "container" and one.pod_uid is not None and one.name is None for one in containers)
        return nameless or not before or before[0] is not checkpoints or before[1] != self._seen[1]

    def _join(
        self, containers: tuple[Container, ...], checkpoints: Checkpoints
    ) -> tuple[tuple[Container, ...], Joined]:
        """Join again only when something changed."""
        pods = None if self._pods.value is None else self._pods.value.pods
        resources = self._resources.value if self._resources.is_current else None
        settled = self._cgroups_are_settled()
        inputs = (checkpoints, pods, self._pods.is_current, resources, self._admissions.changes, settled)
        if self._joined is not None:
            before, named, joined = self._joined
            same = all(
                old is new or (type(new) is int and old == new) for old, new in zip(before[1:], inputs, strict=True)
            )
            if same and before[0] == containers:
                return named, joined
        named = join.complete(containers, pods)
        joined = join.join(
            named,
            checkpoints,
            pods=pods,
            pods_are_current=self._pods.is_current,
            resources=resources,
            records=self._admissions.records,
            cgroups_are_settled=settled,
        )
        self._joined = (containers, *inputs), named, joined
        return named, joined

    def _cgroups_are_settled(self) -> bool:
        """A capture takes its time; on a running node a pod's cgroup follows its entry within seconds."""
        written = [file.health.written_at for file in self._files.values() if file.health.written_at is not None]
        return not self.host.is_live or (bool(written) and time() - max(written) > SETTLED_AFTER)

    def _intent(self, joined: Joined, checkpoints: Checkpoints) -> Intent:
        pods = None if self._pods.value is None else self._pods.value.pods
        memory, cpu, _ = self._good()
        config = self._config(memory, cpu)
        return Intent(
            containers=joined.containers,
            pods=pods,
            pod_promises=checkpoints.pods,
            machine=None if memory is None else memory.machine,
            headroom=self._headroom_of(memory, config.topology_manager_policy),
            shared_cpus=None if cpu is None else cpu.state.default_cpus or None,
            hints=joined.hints,
            rejections=join.rejections(pods, self._admissions.rejections),
            config=config,
            checkpoints=tuple(
                replace(file.health, outlook=self._safety.outlook(file, config)) for file in self._files.values()
            ),
            counters=None if self._metrics.value is None else self._metrics.value.counters,
            denials=self._denials(),
            start_error=self._admissions.start_error,
            conflicts=joined.conflicts,
            sources=self._sources(),
        )

    def _headroom_of(self, memory: MemoryCheckpoint | None, policy: str | None) -> Headroom | None:
        """Computed again only when the checkpoint or the policy changed: eight nodes have 255 sets to try."""
        if memory is None or not memory.machine:
            return None
        if self._headroom is None or self._headroom[0] is not memory or self._headroom[1] != policy:
            try:
                headroom = headroom_of(memory.machine, policy)
            except InputError:  # a node without any memory; `state verify` tells of it
                headroom = None
            self._headroom = memory, policy, headroom
        return self._headroom[2]

    def _denials(self) -> Mapping[str, int] | None:
        """What the log tells since the kubelet's start, if its counters, read before, are of the same run."""
        log, read_at = self._admissions, self._metrics.state.read_at
        if log.topology is None or log.topology.at is None or read_at is None or read_at <= log.topology.at:
            return None
        return None if log.denials is None else dict(log.denials)

    def _find_kubelet(self) -> None:
        """Notice a kubelet that started, ended or was started again."""
        if self._pid is not None and kubelet_process.is_kubelet(self.host, self._pid):
            return
        if self._pid is None and monotonic() < self._next_search:
            return
        before, self._pid = self._pid, kubelet_process.find(self.host)
        self._next_search = monotonic() + SELDOM
        if self._pid != before:
            for source in (self._settings, self._pods, self._resources, self._metrics, self._lines):
                source.again()

    def _read_settings(self) -> tuple[Settings, str | None]:
        """What the kubelet says is in force, else what it was started with."""
        settings, problem = None, ""
        try:
            settings = kubelet_process.read_settings(self.host, self._pid)
            self._use(settings)
        except Unavailable as error:
            problem = str(error)
        try:
            in_force = kubelet_config.parse_configz(self.answers.configz())
        except (Unavailable, ParseError) as error:
            if settings is None:
                raise Unavailable(f"{problem}; {error}") from None
            return settings, settings.reason
        return Settings(
            kubelet_config.settle(in_force, {}, "configz"), None if settings is None else settings.root_dir
        ), None

    def _use(self, settings: Settings) -> None:
        if isinstance(self.answers, Live):
            self.answers.config = settings.config.document
        if settings.root_dir is not None and settings.root_dir != self.host.kubelet_root:
            self.host = replace(self.host, kubelet_root=settings.root_dir)
            self._watch()
            if isinstance(self.answers, Live):
                self.answers.resources = podresources.Client(podresources.socket(self.host))

    def _watch(self) -> None:
        self._safety = RestartSafety(self.host)
        self._files = {
            kind: WatchedCheckpoint(kind, path, self.host.name_of(path))
            for kind, path in state_files.paths(self.host).items()
        }
        self._by_container = None

    def _read_pods(self) -> tuple[PodList, str | None]:
        found = self._pod_reader.read(self.answers.pods())
        return found, "; ".join(found.problems[:3]) or None

    def _read_log(self) -> tuple[Admissions, str | None]:
        until = self._log_until()
        for line in self.log.read():
            try:
                event = kubelet_log.parse(line.text, until=until, at=line.at)
            except ParseError:
                self._misread += 1
                continue
            if event is not None:
                self._admissions.add(event)
        reason = f"{self._misread} lines of a known kind were not understood" if self._misread else None
        return self._admissions, reason

    def _log_until(self) -> datetime:
        """klog's text has no year: a live log is of now, a captured one of the time of the captured pods."""
        if self.host.is_live:
            return datetime.now().astimezone()
        pods = {} if self._pods.value is None else self._pods.value.pods
        newest = max((pod.created_at for pod in pods.values() if pod.created_at is not None), default=None)
        return datetime.now(UTC) if newest is None else datetime.fromtimestamp(newest, UTC) + _AFTER_PODS

    def _good(self) -> _Good:
        memory, cpu, devices = (self._files[kind].good for kind in (MEMORY, CPU, DEVICES))
        return (
            memory if isinstance(memory, MemoryCheckpoint) else None,
            cpu if isinstance(cpu, CpuCheckpoint) else None,
            devices if isinstance(devices, DeviceCheckpoint) else None,
        )

    def _checkpoints(self) -> Checkpoints:
        """Sorted by container, again only when a file changed."""
        good = self._good()
        memory, cpu, devices = (self._files[kind].is_current for kind in (MEMORY, CPU, DEVICES))
        current = (memory, cpu, devices)
        known = self._by_container
        if known is None or known[1] != current or any(old is not new for old, new in zip(known[0], good, strict=True)):
            known = self._by_container = good, current, by_container(*good, current=current)
        return known[2]

    def _config(self, memory: MemoryCheckpoint | None, cpu: CpuCheckpoint | None) -> KubeletConfig:
        """The settings; what they do not tell, by the checkpoints and the log."""
        config = KubeletConfig() if self._settings.value is None else self._settings.value.config
        log, metrics = self._admissions, self._metrics.value
        others = {
            "version": (("log", log.version), ("metrics", None if metrics is None else metrics.version)),
            "memory_manager_policy": (("checkpoint", None if memory is None else memory.policy_name),),
            "cpu_manager_policy": (("checkpoint", None if cpu is None else cpu.policy_name),),
            "topology_manager_policy": (("log", None if log.topology is None else log.topology.policy),),
            "topology_manager_scope": (("log", None if log.topology is None else log.topology.scope),),
        }
        values: dict[str, str] = {}
        origins = dict(config.origins)
        for name, candidates in others.items():
            for origin, value in candidates:
                if getattr(config, name) is None and value and name not in values:
                    values[name], origins[name] = value, origin
        return replace(config, **values, origins=origins)  # type: ignore[arg-type]

    def _sources(self) -> tuple[SourceState, ...]:
        names: dict[Kind, SourceName] = {
            MEMORY: "memory checkpoint",
            CPU: "cpu checkpoint",
            DEVICES: "device checkpoint",
        }
        files = [_state_of(names[kind], file) for kind, file in self._files.items()]
        if any(file.is_current for file in self._files.values()):
            files = [_without_plugins(one, self._files[DEVICES]) for one in files]
        polled = (self._resources, self._pods, self._settings, self._lines, self._metrics)
        states = [replace(one.state, lost=self.log.lost if one is self._lines else 0) for one in polled]
        return (*files, *states)


def _without_plugins(state: SourceState, devices: WatchedCheckpoint) -> SourceState:
    """The kubelet writes this file with its first device plugin. Where its others are, nothing is missing."""
    if state.name != "device checkpoint" or state.state != "missing" or devices.health.problem != "absent":
        return state
    return SourceState(state.name, "ok", f"{devices.health.detail}: no device plugin has registered")


def _state_of(name: SourceName, file: WatchedCheckpoint) -> SourceState:
    if file.is_current:
        return SourceState(name, "ok", None, file.health.last_good_at)
    return SourceState(name, "missing" if file.good is None else "old", file.health.detail, file.health.last_good_at)
