"""The kubelet's settings that decide about NUMA, and the names of its counters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field


class KubeletConfig(Struct, frozen=True):
    """The kubelet's settings that decide about NUMA. Defaults are filled in only where the configuration was read."""

    version: str | None = None
    """v1.36.2"""
    memory_manager_policy: str | None = None
    cpu_manager_policy: str | None = None
    topology_manager_policy: str | None = None
    topology_manager_scope: str | None = None
    feature_gates: Mapping[str, bool] | None = None
    """Only those that were set."""
    document: Mapping[str, object] | None = None
    """The KubeletConfiguration in force, drop-in files and flags folded in; `memorymanager.kubelet.read_kubelet`
    reads it. It has only the fields that were set somewhere."""
    ignored: tuple[str, ...] = ()
    """Fields of its configuration files that a kubelet does not have and that are near to one it has, in words."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Field of this class -> `flag`, `file`, `configz`, `default`, `log`, `checkpoint` or `metrics`."""

    @property
    def topology_manager_options(self) -> Mapping[str, str] | None:
        """topologyManagerPolicyOptions; None = none are set, or it is not known."""
        return self._options("topologyManagerPolicyOptions")

    @property
    def cpu_manager_options(self) -> Mapping[str, str] | None:
        """cpuManagerPolicyOptions; None = none are set, or it is not known."""
        return self._options("cpuManagerPolicyOptions")

    def _options(self, key: str) -> Mapping[str, str] | None:
        found = (self.document or {}).get(key)
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, Mapping) else None


class KubeletSeries(NamedTuple):
    """One series of the kubelet's own metrics; its labels as names and values, in the kubelet's order."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
