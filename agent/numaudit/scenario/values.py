"""A scenario: a kubelet on a machine, what it remembers at the beginning, and what happens to it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from numaudit.containermanager.cpu.hints import free_and_all
from numaudit.containermanager.memory.headroom import HugePageRoom
from numaudit.containermanager.memory.reserved import read_reserved_memory, total_reserved
from numaudit.containermanager.plain import Document, given
from numaudit.containermanager.pod.spec import CPU, Pod, PodName
from numaudit.containermanager.predicates import Amounts, unrequested
from numaudit.memorymanager.admission import Admission, NodeState, reconcile
from numaudit.memorymanager.kubelet import Kubelet, read_allocatable, read_kubelet
from numaudit.scenario.machine import Devices
from numaudit.topology.machine import Machine

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
            on_nodes = total_reserved(read_reserved_memory(given(self.configuration, "reservedMemory", [])))
            configuration["kubeReserved"] = {name: str(quantity) for name, quantity in on_nodes.items()}
            configuration["evictionHard"] = {}
        return configuration


class PodsHere(Struct, frozen=True):
    """Pods of a node, as far as they are known."""

    names: Mapping[str, PodName] = field(default_factory=dict)
    """UID -> who the pods in the checkpoints are; those of which anything is known."""
    active: tuple[Pod, ...] = ()
    """The pods that have not ended, the oldest first."""
    problem: str | None = "the kubelet was not asked for its pods"
    """Reason why `active` are not all, or are not known; None = they are all."""

    def is_doubtful(self, uid: str) -> bool:
        """May this pod of a checkpoint be gone for all that is known? The kubelet drops it then."""
        return self.problem is not None and (uid not in self.names or self.names[uid].stale is None)


class Node(Struct, frozen=True, dict=True):
    """A node as an admission needs it: its kubelet, what that remembers, and how much of it is known."""

    setup: Setup
    state: NodeState
    pods: PodsHere
    notices: tuple[str, ...] = ()
    unplaced: frozenset[str] = frozenset()
    """Resources of which it is not known on which nodes some of their devices are."""
    elsewhere: frozenset[str] = frozenset()
    """Of these, those whose plugin names nodes that the machine lacks."""
    huge_pages: Mapping[str, HugePageRoom] | None = None
    """By resource: what the kernel has; None = not known, or nobody asked for any."""

    @property
    def kubelet(self) -> Kubelet:
        return self.setup.kubelet

    @property
    def doubtful(self) -> tuple[str, ...]:
        """UIDs of the pods in the checkpoints of which nobody here knows whether they live."""
        return tuple(uid for uid in self.state.pods if self.pods.is_doubtful(uid))

    @cached_property
    def cpus(self) -> Mapping[int, tuple[int, int]] | None:
        """NUMA node -> free CPUs, and all but the reserved; None = no static CPU Manager."""
        cpu = reconcile(self.state, version=self.kubelet.features.version).cpu
        return None if self.kubelet.cpu is None or cpu is None else free_and_all(self.kubelet.cpu, cpu)

    @cached_property
    def unrequested_cpus(self) -> float | None:
        """Allocatable CPUs less what the pods request; None = not all pods are known."""
        if self.state.capacity is None:
            return None
        return unrequested(self.state.pods.values(), self.state.capacity, self.kubelet.features).get(CPU, 0) / 1000


class Fate(StrEnum):
    """The fate of a pod when its kubelet restarts."""

    KEPT = "kept"
    """It is admitted, with what it had."""
    ELSEWHERE = "elsewhere"
    """It is admitted, but with other nodes, CPUs or devices than it runs on."""
    REFUSED = "refused"
    """It is not admitted; none of its containers had started."""
    EVICTED = "evicted"
    """It is not admitted, so its containers are killed."""
    UNKNOWN = "unknown"
    """It is not known what this kubelet does with it: see `Admission.problem`."""


class Readmission(Struct, frozen=True):
    """One pod's admission after a restart."""

    admission: Admission
    fate: Fate

    @property
    def admitted(self) -> bool | None:
        """None = that is not known."""
        return None if self.fate == Fate.UNKNOWN else self.admission.admitted


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
