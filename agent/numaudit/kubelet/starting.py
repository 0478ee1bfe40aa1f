"""Which kubelet would start here? Its version, gates, policies and reservations. Pure."""

from __future__ import annotations

from numaudit.errors import InputError
from numaudit.intent import KubeletConfig
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.restart.outlook import StartingKubelet
from numaudit.memorymanager.versions import LATEST, parse_version
from numaudit.topology.machine import Machine

_GATE = "PodLevelResourceManagers"


def starting_kubelet(config: KubeletConfig, machine: Machine | None) -> StartingKubelet:
    """A kubelet with these settings; what they do not tell is taken to be as in the files."""
    version = LATEST
    if config.version is not None:
        try:
            version = parse_version(config.version)
        except InputError:
            version = LATEST
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
        pod_level=None if gates is None else gates.get(_GATE, gates.get("AllAlpha", False)),
        memory_policy=_configured(config, "memory_manager_policy", config.memory_manager_policy),
        cpu_policy=_configured(config, "cpu_manager_policy", config.cpu_manager_policy),
        reserved_memory=reserved,
        reservation_problem=problem,
    )


def _configured(config: KubeletConfig, name: str, value: str | None) -> str | None:
    """What only the checkpoint itself tells is no configuration."""
    return None if config.origins.get(name) == "checkpoint" else value
