"""The one answer to: which kubelet runs here, and which would start here? Pure: readings in, values out.

`state verify`, `doctor`, the report and the agent all ask this, so they never disagree. A value is taken
from what runs before what is written, and each names its source.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from numaudit.intent.kubelet import KubeletConfig
from numaudit.kubelet.questions.starting import AskedKubelet, Starting, starting
from numaudit.kubelet.sources.readings import KubeletReadings
from numaudit.topology.machine import Machine

StartForecaster = Callable[[KubeletConfig, Machine | None, AskedKubelet], Starting]

_IN_WORDS = {
    "default": "the kubelet's configuration, which does not name one",
    "file": "the kubelet's configuration file",
    "flag": "the kubelet's command line",
    "configz": "the kubelet's own /configz",
}


class KubeletHere(Struct, frozen=True):
    """The kubelet of one host."""

    config: KubeletConfig
    """The configuration in force, as far as that is known."""
    starting: Starting
    conflicts: tuple[str, ...] = ()
    """Contradictions between what runs and what is written."""


def kubelet_here(
    readings: KubeletReadings,
    asked: AskedKubelet = AskedKubelet(),  # noqa: B008
    start: StartForecaster = starting,
) -> KubeletHere:
    """The kubelet that runs and the one that would start. `start` is `starting`, or remembers its result."""
    written = _with_other_sources(readings)
    running, conflicts = _in_force(written, readings)
    return KubeletHere(running, start(written, readings.machine, asked), conflicts)


def _with_other_sources(readings: KubeletReadings) -> KubeletConfig:
    """The settings; what they do not say comes from the log, the metrics and the checkpoints."""
    config, log, metrics = readings.config, readings.log, readings.metrics
    memory, cpu = readings.memory, readings.cpu
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
    return replace(config, **values, origins=origins)


def _in_force(config: KubeletConfig, readings: KubeletReadings) -> tuple[KubeletConfig, tuple[str, ...]]:
    """A checkpoint is of the kubelet that started last: it starts with no file of another policy.

    So what it says is stronger than a configuration file or a command line, which may have been changed since, or
    not be the kubelet's at all. Only the kubelet's own answer, /configz, is as strong.
    """
    memory_is_current, cpu_is_current, _ = readings.are_current
    memory = readings.memory.policy_name if readings.memory is not None and memory_is_current else None
    cpu = readings.cpu.policy_name if readings.cpu is not None and cpu_is_current else None
    conflicts: list[str] = []
    for name, manager, running in (("memory_manager_policy", "Memory", memory), ("cpu_manager_policy", "CPU", cpu)):
        written: str | None = getattr(config, name)
        origin = config.origins.get(name)
        if not running or written is None or written == running:
            continue
        conflicts.append(
            f"the {manager} Manager's policy is {running} by its checkpoint{_held(name, running, readings)}, "
            f"{written} by {_IN_WORDS.get(origin or '', origin)}"
        )
        if origin != "configz":
            config = replace(config, **{name: running}, origins={**config.origins, name: "checkpoint"})
    return config, tuple(conflicts)


def _held(name: str, running: str, readings: KubeletReadings) -> str:
    """Does PodResources confirm it?"""
    if name != "memory_manager_policy" or running != "Static":
        return ""
    promised = any(one.memory for pod in readings.resources or () for one in pod.containers.values())
    return " and PodResources" if promised else ""
