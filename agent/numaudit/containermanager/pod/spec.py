"""The part of a pod that the resource managers use: containers, their requests, QoS; and its name.

Source: k8s.io/api/core/v1/types.go, pkg/apis/core/v1/helper/qos/qos.go,
k8s.io/component-helpers/resource/helpers.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, Self

from msgspec import Struct, field

from numaudit.containermanager.versions import LATEST_FEATURES, KubeletFeatures
from numaudit.encoding.value import Value
from numaudit.errors import InputError
from numaudit.topology.quantity import Quantities

QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]
QOS_CLASSES: tuple[QosClass, ...] = ("Guaranteed", "Burstable", "BestEffort")

CPU = "cpu"
MEMORY = "memory"
HUGEPAGES_PREFIX = "hugepages-"


class Resources(Struct, frozen=True):
    """Requests and limits of a container or, since 1.32, of a whole pod."""

    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


class Container(Struct, frozen=True):
    """An app or init container."""

    name: str
    resources: Resources = field(default_factory=Resources)
    restarts_always: bool = False
    """`restartPolicy: Always` of an init container: a sidecar ("restartable init container")."""
    allocated: Quantities | None = None
    """`allocatedResources` of the container's status; None = the pod has no status of this container, or it is an init
    container that ends, which nobody resizes."""


class Pod(Struct, frozen=True, dict=True):
    """A pod as the kubelet gets it."""

    name: str
    namespace: str
    uid: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    resources: Resources | None = None
    """`spec.resources`, the pod-level resources."""
    allocated: Quantities | None = None
    """`status.allocatedResources`, those of the pod as a whole (KEP-5419)."""
    status_qos: QosClass | None = None
    """`status.qosClass`, which wins over the computed class since 1.32."""
    overhead: Quantities = field(default_factory=dict)
    """`spec.overhead`, what its runtime class takes beside its containers."""
    is_critical: bool = False
    """A kubelet that lacks room for it evicts other pods."""
    not_checked: tuple[str, ...] = ()
    """Fields of its spec that may keep it from a node and that no resource manager reads, such as nodeSelector."""

    @cached_property
    def known(self) -> _Known:
        """Facts for each step of an admission, computed once: a pod may have a thousand containers, and each asks."""
        return _Known.of(self)

    @property
    def full_name(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers first: the order in which the kubelet admits them."""
        return self.init_containers + self.containers

    @property
    def has_pod_level_resources(self) -> bool:
        """Does `spec.resources` name a resource that Kubernetes supports at pod level?"""
        if self.resources is None:
            return False
        named = {*self.resources.requests, *self.resources.limits}
        return any(name == CPU or is_memory(name) for name in named)

    def container(self, name: str) -> Container:
        """The init or app container of this name. Raises InputError."""
        found = self.known.containers.get(name)
        if found is not None:
            return found
        known = ", ".join(one.name for one in self.all_containers)
        raise InputError(f"pod {self.namespace}/{self.name} has no container {name!r}; it has {known}")


class _Known(Struct, frozen=True):
    """Of one pod."""

    containers: Mapping[str, Container]
    """By name."""
    init: frozenset[str]
    """Names of the init containers."""
    sidecars: frozenset[str]
    qos: dict[bool, QosClass] = field(default_factory=dict)
    """The computed class, by whether pod-level resources count."""

    @classmethod
    def of(cls, pod: Pod) -> Self:
        return cls(
            {one.name: one for one in reversed(pod.all_containers)},
            frozenset(one.name for one in pod.init_containers),
            frozenset(one.name for one in pod.init_containers if one.restarts_always),
        )


def is_memory(resource: str) -> bool:
    """Is this a resource of the Memory Manager: memory or huge pages of some size?"""
    return resource == MEMORY or resource.startswith(HUGEPAGES_PREFIX)


def is_sidecar(pod: Pod, name: str, features: KubeletFeatures) -> bool:
    """Is this init container restartable, for a kubelet that treats it apart from an ordinary one?"""
    return features.knows_sidecars and name in pod.known.sidecars


def is_ordinary_init(pod: Pod, name: str, features: KubeletFeatures) -> bool:
    """Does this container end before the app containers start?"""
    return name in pod.known.init and not is_sidecar(pod, name, features)


def qos(pod: Pod, features: KubeletFeatures = LATEST_FEATURES) -> QosClass:
    """The pod's quality of service class: as its status says (since 1.32), else computed from cpu and memory.

    Where pod-level resources count, those of the containers do not.
    """
    if pod.status_qos is not None and features.version >= (1, 32):
        return pod.status_qos
    computed = pod.known.qos
    if features.counts_pod_level not in computed:
        computed[features.counts_pod_level] = _compute_qos(pod, features.counts_pod_level)
    return computed[features.counts_pod_level]


def _compute_qos(pod: Pod, counts_pod_level: bool) -> QosClass:
    if counts_pod_level and pod.resources is not None:
        parts = [pod.resources]
    else:
        parts = [one.resources for one in pod.all_containers]
    requests = _sums(one.requests for one in parts)
    limits = _sums(one.limits for one in parts)
    if not requests and not limits:
        return "BestEffort"
    all_limited = all(_is_positive(one.limits, CPU) and _is_positive(one.limits, MEMORY) for one in parts)
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def is_unsupported(pod: Pod, features: KubeletFeatures) -> bool:
    """Are these pod-level resources that the static policies of this kubelet leave alone?"""
    return pod.has_pod_level_resources and not features.manages_pod_level


def is_managed_at_pod_level(pod: Pod, features: KubeletFeatures) -> bool:
    return pod.has_pod_level_resources and features.manages_pod_level


def requests_of(container: Container, features: KubeletFeatures) -> Quantities:
    """The requests that count: of the spec, or in old kubelets with in-place resize those in `containerStatuses`."""
    of_status = features.in_place_pod_vertical_scaling and not container.restarts_always
    if of_status and container.allocated is not None:
        return container.allocated
    return container.resources.requests


def is_eligible(pod: Pod, container: Container, features: KubeletFeatures) -> bool:
    """May the container have exclusive resources of its own?

    In a pod that is managed at pod level only containers that would be Guaranteed by themselves may.
    """
    if not is_managed_at_pod_level(pod, features):
        return True
    requests, limits = container.resources.requests, container.resources.limits
    return all(
        _is_positive(requests, name) and name in limits and requests[name].nano == limits[name].nano
        for name in (CPU, MEMORY)
    )


def _sums(lists: Iterable[Quantities]) -> dict[str, int]:
    """The sums of the positive amounts of cpu and memory, in billionths."""
    sums: dict[str, int] = {}
    for one in lists:
        for name, quantity in one.items():
            if name in (CPU, MEMORY) and quantity.nano > 0:
                sums[name] = sums.get(name, 0) + quantity.nano
    return sums


def _is_positive(quantities: Quantities, name: str) -> bool:
    return name in quantities and quantities[name].nano > 0


def why_not_guaranteed(pod: Pod) -> str | None:
    """The first container and field that keep a pod from being Guaranteed, in words; None = none does, or the pod has
    resources as a whole. The API server fills in a request where only a limit is given.
    """
    if pod.has_pod_level_resources:
        return None
    for one in pod.all_containers:
        requests, limits = one.resources.requests, one.resources.limits
        for name in (MEMORY, CPU):
            if not _is_positive(limits, name):
                return f"its container {one.name} has no {name} limit"
            if name in requests and requests[name].nano != limits[name].nano:
                return f"its container {one.name} requests {requests[name]} of {name}, and its limit is {limits[name]}"
    return None


_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LONGEST = 253


def can_be_typed(name: str) -> bool:
    """Is it a name that the API server gives, and no option or text of a shell?

    Source: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go (IsDNS1123Subdomain).
    """
    return len(name) <= _LONGEST and _DNS_SUBDOMAIN.fullmatch(name) is not None


class PodName(Value, frozen=True):
    """One pod that a checkpoint has an entry of. None = not known."""

    namespace: str | None
    pod: str | None
    stale: bool | None
    """Is the pod gone, or has it ended? None = neither a list of pods nor the cgroups say."""

    @property
    def full_name(self) -> str | None:
        return f"{self.namespace}/{self.pod}" if self.namespace and self.pod else None


def full_name(namespace: str | None, pod: str | None, pod_uid: str | None, container: str | None) -> str:
    """namespace/pod/container as far as known; the pod's UID stands for a pod of no known name."""
    named = f"{namespace}/{pod}" if namespace and pod else f"pod {pod_uid}" if pod_uid else None
    return "/".join(part for part in (named, container) if part)


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text with names in place of the UIDs that have one; `names`: UID -> name."""
    known = [re.escape(uid) for uid in names if uid and uid in text]
    return re.sub(rf"(?<![\w-])(?:{'|'.join(known)})(?![\w-])", lambda found: names[found[0]], text) if known else text
