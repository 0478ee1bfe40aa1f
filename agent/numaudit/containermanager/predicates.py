"""Does the node as a whole have enough of everything for a pod? The last question of an admission.

The kubelet asks it after the Topology Manager has let the pod in, so a pod that is refused here has been given
memory and CPUs, which stay with it until the next admission (seen with 1.36).

Source: pkg/kubelet/lifecycle/predicate.go, pkg/scheduler/framework/plugins/noderesources/fit.go,
k8s.io/component-helpers/resource/helpers.go (PodRequests).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Self

from msgspec import Struct, field

from numaudit.containermanager.pod.spec import CPU, HUGEPAGES_PREFIX, MEMORY, Pod, is_memory, is_sidecar
from numaudit.containermanager.versions import LATEST_FEATURES, KubeletFeatures
from numaudit.encoding.value import Value
from numaudit.topology.quantity import NANO, ZERO, Quantities, Quantity

PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)

Amounts = Mapping[str, int]
"""Resource -> thousandths of a CPU, bytes of memory, huge pages and storage, a number of all others."""


class Capacity(Struct, frozen=True):
    """A node's capacity for all its pods together."""

    allocatable: Amounts
    """A resource that is not in it is not counted; of huge pages the node has none then."""
    asked: Mapping[str, Amounts] = field(default_factory=dict)
    """Pod UID -> what it asks for, worked out once; of other pods it is worked out when it is needed."""

    @classmethod
    def of(cls, allocatable: Amounts, pods: Mapping[str, Pod], features: KubeletFeatures = LATEST_FEATURES) -> Self:
        """`pods`: those that are there, by UID."""
        return cls(allocatable, {uid: amounts(node_requests(pod, features)) for uid, pod in pods.items()})

    def of_pod(self, pod: Pod, features: KubeletFeatures) -> Amounts:
        known = self.asked.get(pod.uid)
        return amounts(node_requests(pod, features)) if known is None else known


class NodeShortage(Value, frozen=True):
    """A resource of which the node as a whole has too little left: thousandths of a CPU, bytes, or a number."""

    resource: str
    """Name of the resource."""
    requested: int
    """By the pod that is to come."""
    used: int | None
    """Requested by the pods that are there; null = not known, and the pod is too large for the node alone."""
    capacity: int
    """The node's allocatable amount for pods."""

    @property
    def reason(self) -> str:
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, "
            f"requested: {self.requested}, used: {'unknown' if self.used is None else self.used}, "
            f"capacity: {self.capacity}"
        )


def node_requests(pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> dict[str, Quantity]:
    """All that a pod asks of its node: the most it needs at one time, and its runtime class's overhead.

    Amounts for the whole pod (`spec.resources`) take the place of the sums over its containers.
    """
    running = _sum(one.resources.requests for one in pod.containers)
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in pod.init_containers:
        if is_sidecar(pod, container.name, features):
            sidecars = _sum((sidecars, container.resources.requests))
            together = sidecars
        else:
            together = _sum((sidecars, container.resources.requests))
        starting = _most(starting, together)
    asked = _most(_sum((running, sidecars)), starting)
    if features.counts_pod_level and pod.resources is not None:
        whole = pod.resources.requests
        asked |= {name: amount for name, amount in whole.items() if name == CPU or is_memory(name)}
    return _sum((asked, pod.overhead))


def amounts(quantities: Quantities) -> dict[str, int]:
    """Quantities as the scheduler counts them: each rounded up to its unit."""
    return {name: one.milli_value if name == CPU else one.value for name, one in quantities.items()}


def in_unit(resource: str, amount: int) -> Quantity:
    """The quantity of an amount that the scheduler counts."""
    if resource == CPU:
        return Quantity(amount * (NANO // 1000))
    return Quantity.of(amount, "BinarySI" if is_memory(resource) or resource == EPHEMERAL_STORAGE else "DecimalSI")


def shortage(
    pod: Pod, others: Collection[Pod], capacity: Capacity, features: KubeletFeatures = LATEST_FEATURES
) -> NodeShortage | None:
    """The first resource of which the node has too little, or None."""
    allocatable = capacity.allocatable
    used = _used(others, capacity, features)
    if PODS in allocatable and len(others) + 1 > allocatable[PODS]:
        return NodeShortage(PODS, 1, len(others), allocatable[PODS])
    asked = amounts(node_requests(pod, features))
    for name in _in_order(asked):
        is_counted = name in allocatable or name.startswith(HUGEPAGES_PREFIX)
        has, held = allocatable.get(name, 0), used.get(name, 0)
        if is_counted and asked[name] > 0 and asked[name] > has - held:
            return NodeShortage(name, asked[name], held, has)
    return None


def unrequested(
    pods: Collection[Pod], capacity: Capacity, features: KubeletFeatures = LATEST_FEATURES
) -> dict[str, int]:
    """Each allocatable amount less the requests of these pods; negative where they ask for more.

    `shortage` answers the same about it with no pods as about the capacity with these.
    """
    used = {**_used(pods, capacity, features), PODS: len(pods)}
    return {name: amount - used.get(name, 0) for name, amount in capacity.allocatable.items()}


def _used(pods: Collection[Pod], capacity: Capacity, features: KubeletFeatures) -> dict[str, int]:
    used: dict[str, int] = {}
    for pod in pods:
        for name, amount in capacity.of_pod(pod, features).items():
            used[name] = used.get(name, 0) + amount
    return used


def _in_order(asked: Amounts) -> Iterator[str]:
    """Of the others the kubelet takes the first in no order."""
    yield from (name for name in _NATIVE if name in asked)
    yield from sorted(name for name in asked if name not in _NATIVE)


def _sum(parts: Iterable[Quantities]) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, ZERO) + amount
    return found


def _most(one: Quantities, other: Quantities) -> dict[str, Quantity]:
    """The larger amount of each resource."""
    found = dict(one)
    for name, amount in other.items():
        if name not in found or found[name].nano < amount.nano:
            found[name] = amount
    return found
