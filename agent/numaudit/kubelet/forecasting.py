"""What a restart of this node's kubelet would do to its pods, out of what was read from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from numaudit.errors import InputError, ParseError, Unavailable
from numaudit.intent import PodFacts
from numaudit.kubelet.kubelet_here import KubeletHere
from numaudit.kubelet.readings import Readings
from numaudit.kubelet.starting import Asked, changed_document
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.checkpoint.cpu import CpuCheckpoint
from numaudit.memorymanager.checkpoint.memory import MemoryCheckpoint
from numaudit.memorymanager.forecast import Forecast, forecast
from numaudit.memorymanager.kubelet import read_kubelet
from numaudit.memorymanager.memory.state import MemoryState
from numaudit.memorymanager.memory.static_policy import MemoryPolicy
from numaudit.memorymanager.pod.spec import Pod
from numaudit.memorymanager.topologymanager.admission_error import KubeletHangs
from numaudit.memorymanager.versions import KubernetesVersion
from numaudit.topology.machine import Machine


def forecast_here(readings: Readings, here: KubeletHere, asked: Asked, *, reboot: bool) -> Forecast:
    """A restart of the kubelet that runs here, or of another one that somebody asks about.

    Raises Unavailable with what is not known: the pods, the configuration, the machine.
    """
    if readings.pods is None:
        raise Unavailable("the kubelet's pods are not known: `numaudit doctor` says how to read /pods")
    if here.config.document is None:
        raise Unavailable("the kubelet's configuration is not known: `numaudit doctor` says why")
    if readings.machine is None:
        raise Unavailable("this machine cannot be read whole, so nothing can be compared with it")
    document = changed_document(here.config.document, asked)
    version, pods = here.starting.kubelet.version, active_pods(readings.pods)
    return forecast_of(document, readings.machine, readings.memory, readings.cpu, pods, version, reboot=reboot)


def forecast_of(
    document: Mapping[str, object],
    machine: Machine,
    memory: MemoryCheckpoint | None,
    cpu: CpuCheckpoint | None,
    pods: Sequence[Pod],
    version: KubernetesVersion,
    *,
    reboot: bool,
) -> Forecast:
    """The forecast of these values. Raises Unavailable where the kubelet refuses its configuration, or a pod."""
    try:
        kubelet, _ = read_kubelet(document, machine, kubernetes_version=f"{version[0]}.{version[1]}")
        state = NodeState(
            MemoryPolicy(MemoryState({}) if memory is None else memory.as_read_by(version).state),
            None if cpu is None or cpu.policy_name == "none" else cpu.as_read_by(version).state,
        )
        return forecast(kubelet, state, pods, reboot=reboot)
    except (InputError, KubeletHangs, ParseError) as error:
        raise Unavailable(f"the restart cannot be foreseen: {error}") from None


def active_pods(pods: Mapping[str, PodFacts]) -> tuple[Pod, ...]:
    """Those that the kubelet admits when it starts, the oldest first. Without those whose resources are not known."""
    active = [one for one in pods.values() if not one.has_ended and one.rejection is None]
    active.sort(key=lambda one: inf if one.created_at is None else one.created_at)
    return tuple(one.spec for one in active if one.spec is not None)
