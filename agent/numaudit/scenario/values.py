"""A scenario: a kubelet on a machine, what it remembers at the beginning, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containermanager.memory.reserved import read_reserved_memory
from numaudit.containermanager.plain import given
from numaudit.containermanager.pod.spec import CPU, Pod
from numaudit.containermanager.predicates import Amounts
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.kubelet import Kubelet, read_allocatable, read_kubelet
from numaudit.scenario.document import Document
from numaudit.scenario.machine import Devices
from numaudit.topology.machine import Machine
from numaudit.topology.quantity import ZERO, Quantity

_RESERVATIONS = ("systemReserved", "kubeReserved", "evictionHard")


class Setup(Struct, frozen=True, dict=True):
    """A kubelet that is to start, and its machine."""

    machine: Machine
    configuration: Mapping[str, object]
    """Fields of a KubeletConfiguration, feature gates included."""
    version: str
    devices: Devices = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Of the configuration, from where it was read."""

    @cached_property
    def started(self) -> tuple[Kubelet, tuple[str, ...]]:
        """The kubelet, with notices. Raises InputError where it would refuse this configuration.

        A configuration that says nothing of what the system takes as a whole takes what is reserved on the nodes.
        """
        kubelet, notices = read_kubelet(self._completed(), self.machine, kubernetes_version=self.version)
        known = {name: amount for name, amount in self.allocatable(None).items() if name != CPU or self.machine.cpus}
        return replace(kubelet, allocatable=known), (*self.notices, *notices)

    @property
    def kubelet(self) -> Kubelet:
        return self.started[0]

    def allocatable(self, storage: int | None) -> Amounts:
        """Capacity of the node for pods; `storage`: bytes of the kubelet's file system, None = not known."""
        healthy = {resource: len(listed) for resource, listed in self.devices.items()}
        return read_allocatable(self._completed(), self.machine, devices=healthy, storage=storage)

    def _completed(self) -> dict[str, object]:
        configuration = dict(self.configuration)
        if not any(name in configuration for name in _RESERVATIONS):
            configuration["kubeReserved"] = self._reserved_on_nodes()
            configuration["evictionHard"] = {}
        return configuration

    def _reserved_on_nodes(self) -> dict[str, str]:
        sums: dict[str, Quantity] = {}
        for one in read_reserved_memory(given(self.configuration, "reservedMemory", [])):
            for name, quantity in one.limits.items():
                sums[name] = quantity + sums.get(name, ZERO)
        return {name: str(quantity) for name, quantity in sums.items()}


class Admit(Struct, frozen=True):
    """A pod comes to the node."""

    pod: Pod


class Start(Struct, frozen=True):
    """A container of a pod starts."""

    pod: str
    """namespace/name"""
    container: str


class Remove(Struct, frozen=True):
    """A pod ends, or one of its containers (None = the pod)."""

    pod: str
    """namespace/name"""
    container: str | None = None


class Restart(Struct, frozen=True):
    """The kubelet restarts, maybe as another one or on another machine."""

    setup: Setup


Step = Admit | Start | Remove | Restart


class Scenario(Struct, frozen=True):
    """All that is needed to play it."""

    setup: Setup
    state: NodeState
    """At the beginning."""
    steps: tuple[Step, ...]
    places: tuple[Document, ...] = ()
    """Each step in its file, for messages: a line is looked up only where one is wrong."""
