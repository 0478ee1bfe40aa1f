"""Would the kubelet start with its checkpoints? Asked while it still runs, so that nobody has to find out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from numaudit.errors import InputError, Unavailable
from numaudit.intent import KubeletConfig, StartOutlook
from numaudit.kernel.host import Host
from numaudit.kernel.node import online_cpus, online_nodes, read_counters, read_machine
from numaudit.kubelet.checkpoints import WatchedCheckpoint
from numaudit.memorymanager.checkpoint.file import DEVICES, Kind
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.restart.findings import StateFinding
from numaudit.memorymanager.restart.outlook import StartingKubelet, examine, outlook
from numaudit.memorymanager.versions import DRIFT_GATE, LATEST, parse_version
from numaudit.topology.machine import Machine

MACHINE_EVERY = 60.0
"""Seconds between two looks at the machine's totals: huge pages, memory and CPUs may come and go while it runs."""

_GATE = "PodLevelResourceManagers"
_Inputs = tuple[object, ...]


@dataclass(slots=True)
class RestartSafety:
    """Examines a file again only when it, the machine's totals or the kubelet's settings changed."""

    host: Host
    _machine: Machine | None = None
    _totals: _Inputs | None = None
    _totals_until: float = 0.0
    _known: dict[Kind, tuple[_Inputs, StartOutlook]] = field(default_factory=dict)

    def outlook(self, file: WatchedCheckpoint, config: KubeletConfig) -> StartOutlook:
        """The outlook of a file as it was last looked at."""
        machine = self._machine_now()
        settings = (config.version, config.memory_manager_policy, config.cpu_manager_policy, config.document)
        inputs = (file.newest, file.health.problem, file.health.detail, machine, *settings)
        known = self._known.get(file.kind)
        if known is None or known[0] != inputs:
            known = self._known[file.kind] = inputs, examine_file(file, machine, config)
        return known[1]

    def _machine_now(self) -> Machine | None:
        """None = it cannot be read whole, so there is nothing to compare with."""
        clock = monotonic()
        if clock >= self._totals_until:
            self._totals_until = clock + MACHINE_EVERY
            before, self._totals = self._totals, _totals(self.host)
            if before != self._totals:
                self._machine = machine_of(self.host)
        return self._machine


def machine_of(host: Host) -> Machine | None:
    """The machine as it is now; None when it, or the memory of one of its nodes, cannot be read."""
    try:
        machine = read_machine(host)
    except Unavailable:
        return None
    return None if any(node.memory is None for node in machine.nodes) else machine


def _totals(host: Host) -> _Inputs:
    """All that the kubelet compares, in far fewer files than the whole machine."""
    nodes = [
        (one.node, (one.meminfo or {}).get("MemTotal"), [(page.page_size, page.total) for page in one.huge_pages])
        for one in read_counters(host, online_nodes(host))
    ]
    return nodes, online_cpus(host)


def examine_file(file: WatchedCheckpoint, machine: Machine | None, config: KubeletConfig) -> StartOutlook:
    """What `memorymanager.restart.outlook` says about a watched file, with this configuration."""
    problem = file.health.problem
    if problem == "absent":
        return StartOutlook(None, "yes", "yes")
    if problem == "not understood":
        finding = StateFinding("devices-lost" if file.kind == DEVICES else "unreadable", file.health.detail or "")
        return StartOutlook(False, *outlook((finding,), machine_known=True), (finding,))
    if file.newest is None and problem == "newer format":
        finding = StateFinding("format-unknown", file.health.detail or "")
        return StartOutlook(False, *outlook((finding,), machine_known=True), (finding,))
    if file.newest is None:
        return StartOutlook()
    found = examine(*file.newest, machine, starting_kubelet(config, machine))
    return StartOutlook(found.is_valid, found.starts_now, found.starts_after_reboot, found.findings)


def starting_kubelet(config: KubeletConfig, machine: Machine | None) -> StartingKubelet:
    """A kubelet with these settings; what they do not tell is taken to be as in the files."""
    version, is_known = LATEST, False
    if config.version is not None:
        with suppress(InputError):  # a build may name its version in another way
            version, is_known = parse_version(config.version), True
    gates = config.feature_gates
    reserved, problem = None, None
    if config.document is not None and machine is not None:
        try:
            named = f"{version[0]}.{version[1]}"
            reserved = read_kubelet(config.document, machine, kubernetes_version=named)[0].reserved_memory
        except InputError as error:
            problem = str(error)
    return StartingKubelet(
        version=version,
        version_is_known=is_known,
        pod_level=None if gates is None else gates.get(_GATE, gates.get("AllAlpha", False)),
        tolerates_drift=(gates or {}).get(DRIFT_GATE, False),
        memory_policy=_configured(config, "memory_manager_policy", config.memory_manager_policy),
        cpu_policy=_configured(config, "cpu_manager_policy", config.cpu_manager_policy),
        reserved_memory=reserved,
        reservation_problem=problem,
    )


def _configured(config: KubeletConfig, name: str, value: str | None) -> str | None:
    """What only the checkpoint itself tells is no configuration."""
    origins: Mapping[str, str] = config.origins
    return None if origins.get(name) == "checkpoint" else value
