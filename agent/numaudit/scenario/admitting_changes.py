"""Changes that would let a refused pod in, or align one that is not. Each is tried with the library, none is guessed.

Changes are tried from the smallest to the largest: another pod leaves, the pod asks for something else, the kubelet
has another policy, or another version.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.memory.static_policy import remove_stale_state
from numaudit.containermanager.pod.spec import CPU, HUGEPAGES_PREFIX, MEMORY, Container, Pod, Resources, is_memory
from numaudit.containermanager.predicates import NodeShortage, amounts, in_unit, node_requests
from numaudit.containermanager.topologymanager.hints import candidate_masks
from numaudit.containermanager.topologymanager.policy import CONTAINER_SCOPE, POD_SCOPE, POLICIES
from numaudit.containermanager.versions import DESCRIBED
from numaudit.encoding.value import Value
from numaudit.errors import NumauditError
from numaudit.memorymanager.admission import Admission, NodeState, admit, remove
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.scenario import holdings, words
from numaudit.scenario.values import Setup
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import MAX_INT64, Quantity

MOST_TRIES = 80
_MOST_REMOVALS = 40
_MOST_PAIRS = 10
_MOST_CPUS = 16
_MOST_AMOUNTS = 16
_MOST_TIMES = 2
"""A request that is more than twice as large is another pod."""
_MIB = 1 << 20
_NOT_PREFERRED = (AdmissionOutcome.DEGRADED, AdmissionOutcome.EXTENDED)
_NOT_ALIGNED = (*_NOT_PREFERRED, AdmissionOutcome.DEFAULT_HINT)


class AdmittingChange(Value, frozen=True):
    """A change after which a refused pod is admitted, or another one is on preferred nodes; each was tried."""

    kind: str
    """remove-pod, request, policy, option or version."""
    change: str
    """Change as the subject of `... would let it in`."""
    nodes: NodeSet | None
    """Nodes of its memory; null = it has no memory of its own."""


def needs_a_change(admission: Admission) -> bool:
    """Was the pod refused, or is a container of it on nodes that are not preferred?"""
    return not admission.admitted or any(one.outcome in _NOT_PREFERRED for one in admission.placements)


def find_admitting_changes(setup: Setup, state: NodeState, admission: Admission) -> tuple[AdmittingChange, ...]:
    """Every way that works of those that are tried. `state` is that before the admission."""
    return tuple(_Search(setup, state, admission).ways())


class _Search(Struct):
    setup: Setup
    state: NodeState
    refused: Admission
    """Or admitted, but not to preferred nodes."""
    tries: int = 0

    def ways(self) -> Iterator[AdmittingChange]:
        removals = list(self._removals()) or list(self._pairs())
        yield from removals
        others = [*self._requests(), *self._settings(self.state)]
        yield from others
        if not removals and not others:
            yield from self._several()

    def _try(
        self,
        kind: str,
        change: str,
        *,
        setup: Setup | None = None,
        state: NodeState | None = None,
        pod: Pod | None = None,
    ) -> AdmittingChange | None:
        if self.tries >= MOST_TRIES:
            return None
        self.tries += 1
        try:
            kubelet = (setup or self.setup).kubelet
            without_gate = replace(kubelet, features=dataclasses.replace(kubelet.features, verifies_huge_pages=False))
            admission = admit(without_gate, state or self.state, pod or self.refused.pod)
        except NumauditError:
            return None  # a kubelet would not start with that, or crash
        if not admission.is_surely_admitted:
            return None
        if self.refused.admitted and any(one.outcome in _NOT_ALIGNED for one in admission.placements):
            return None
        types = {block.type for one in admission.placements for block in one.memory}
        if kubelet.features.verifies_huge_pages and any(one.startswith(HUGEPAGES_PREFIX) for one in types):
            change += ", where the kernel has its huge pages free,"
        nodes = NodeSet.from_ids(node for one in admission.placements for node in one.memory_nodes or ())
        return AdmittingChange(kind, change, nodes or None)

    def _removals(self) -> Iterator[AdmittingChange]:
        """One pod leaves, the one that holds least first."""
        for uid in self._others()[:_MOST_REMOVALS]:
            found = self._try("remove-pod", f"Deleting pod {self._held(uid)}", state=remove(self.state, uid))
            if found is not None:
                yield found

    def _pairs(self) -> Iterator[AdmittingChange]:
        for one, other in list(combinations(self._others(), 2))[:_MOST_PAIRS]:
            change = f"Deleting pods {self._held(one)} and {self._held(other)}"
            found = self._try("remove-pod", change, state=remove(remove(self.state, one), other))
            if found is not None:
                yield found
                return

    def _several(self) -> Iterator[AdmittingChange]:
        """As many pods as it takes leave; where not even that is enough, the kubelet has another policy as well."""
        empty = self.state
        removed: list[str] = []
        for uid in self._others():
            empty = remove(empty, uid)
            removed.append(uid)
            names = words.listed(f"{self.state.pods[one].namespace}/{self.state.pods[one].name}" for one in removed)
            found = self._try("remove-pod", f"Deleting pods {names}", state=empty)
            if found is not None:
                yield found
                return
        for way in self._settings(empty):
            yield msgspec.structs.replace(
                way, change=f"{way.change} and deleting all other pods that have something here"
            )

    def _others(self) -> list[str]:
        pod = self.refused.pod
        return [uid for uid in holdings.removable_pods(self.setup.kubelet, self.state, pod) if uid != pod.uid]

    def _held(self, uid: str) -> str:
        pod = self.state.pods[uid]
        return f"{pod.namespace}/{pod.name} (frees {holdings.in_words(self.state, uid)})"

    def _requests(self) -> Iterator[AdmittingChange]:
        """The nearest smaller and the nearest larger amount of each resource that is admitted."""
        rejection = self.refused.rejection
        if rejection is not None and rejection.shortage is not None:
            yield from self._less_of(rejection.shortage)
            return
        yield from self._whole_bytes()
        for container in self.refused.pod.all_containers:
            if rejection is not None and rejection.container not in (None, container.name):
                continue
            for resource, quantity in container.resources.requests.items():
                for tried in self._amounts(resource, quantity):
                    found = (self._with_amount(container, resource, amount) for amount in tried)
                    way = next((one for one in found if one is not None), None)
                    if way is not None:
                        yield way

    def _whole_bytes(self) -> Iterator[AdmittingChange]:
        """Each amount of memory that is no whole number of bytes becomes the next larger one of whole MiB."""
        changes, changed = list[str](), list[Container]()
        for container in self.refused.pod.all_containers:
            own = container.resources
            rounded = {
                name: Quantity.of(-(-quantity.value // _MIB) * _MIB)
                for name, quantity in own.requests.items()
                if is_memory(name) and quantity.as_int64 is None and quantity.value <= MAX_INT64
            }
            changes += [
                f"{rounded[name]} of {name} instead of {own.requests[name]} in container {container.name}"
                for name in rounded
            ]
            limits = {name: rounded.get(name, quantity) for name, quantity in own.limits.items()}
            changed.append(replace(container, resources=Resources({**own.requests, **rounded}, limits)))
        if changes:
            found = self._try("request", f"Requesting {words.listed(changes)}", pod=_with(self.refused.pod, changed))
            if found is not None:
                yield found

    def _less_of(self, short: NodeShortage) -> Iterator[AdmittingChange]:
        """A container asks for so much less that the node as a whole has enough."""
        excess = short.requested - (short.capacity - (short.used or 0))
        for container in self.refused.pod.containers:
            own = amounts(container.resources.requests).get(short.resource, 0)
            if own > excess:
                way = self._with_quantity(container, short.resource, in_unit(short.resource, own - excess))
                if way is not None:
                    yield way

    def _amounts(self, resource: str, quantity: Quantity) -> Iterator[list[int]]:
        """Below the request and then above it, the nearest first."""
        asked = quantity.value
        if is_memory(resource):
            machine = remove_stale_state(self.state.memory, self.state.pods).state.machine
            if any(resource not in node.memory_map for node in machine.values()):
                return
            unit = _MIB if resource == MEMORY else Quantity.parse(resource.partition("-")[2]).value
            below, above = set[int](), set[int]()
            rest = self._requested_beside(resource, asked)
            for mask in candidate_masks(NodeSet.from_ids(machine)):
                tables = [machine[node].memory_map[resource] for node in mask]
                free = sum(one.free for one in tables)
                below |= {free // unit * unit, (free - rest) // unit * unit}
                above.add((sum(one.allocatable for one in tables) // unit + 1) * unit)
            yield sorted((one for one in below if 0 < one < asked), reverse=True)[:_MOST_AMOUNTS]
            yield sorted(one for one in above if asked < one <= _MOST_TIMES * asked)[:_MOST_AMOUNTS]
        elif quantity.milli_value == asked * 1000:
            yield list(range(asked - 1, max(0, asked - 1 - _MOST_CPUS), -1))
            yield list(range(asked + 1, asked + 1 + (_MOST_CPUS if resource == CPU else 0)))

    def _requested_beside(self, resource: str, asked: int) -> int:
        """Bytes that the pod's other containers need at the same time as the one that asks for this much."""
        return max(0, amounts(node_requests(self.refused.pod)).get(resource, 0) - asked)

    def _with_amount(self, container: Container, resource: str, amount: int) -> AdmittingChange | None:
        quantity = Quantity.of(amount, "BinarySI" if is_memory(resource) else "DecimalSI")
        return self._with_quantity(container, resource, quantity)

    def _with_quantity(self, container: Container, resource: str, quantity: Quantity) -> AdmittingChange | None:
        own = container.resources
        changed = replace(
            container,
            resources=Resources({**own.requests, resource: quantity}, {**own.limits, resource: quantity}),
        )
        pod = self.refused.pod
        pod = _with(pod, [changed if one is container else one for one in pod.all_containers])
        before = own.requests[resource]
        change = f"Requesting {quantity} of {resource} instead of {before} in container {container.name}"
        return self._try("request", change, pod=pod)

    def _settings(self, state: NodeState) -> Iterator[AdmittingChange]:
        for kind, change, setup in self._other_kubelets():
            found = self._try(kind, change, setup=setup, state=state)
            if found is not None:
                yield found
                if kind == "version":
                    return

    def _other_kubelets(self) -> Iterator[tuple[str, str, Setup]]:
        configuration = self.setup.configuration
        topology = self.setup.kubelet.topology
        for scope in (CONTAINER_SCOPE, POD_SCOPE):
            if topology.scope in (CONTAINER_SCOPE, POD_SCOPE) and scope != topology.scope:
                yield "policy", f"Setting topologyManagerScope to {scope}", self._with({"topologyManagerScope": scope})
        for policy in reversed(POLICIES):
            if policy != topology.policy:
                yield (
                    "policy",
                    f"Setting topologyManagerPolicy to {policy}",
                    self._with({"topologyManagerPolicy": policy}),
                )
        for field in ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions"):
            options = configuration.get(field)
            if not isinstance(options, Mapping):
                continue
            for name in options:
                rest = {one: value for one, value in options.items() if one != name}
                yield "option", f"Removing {name} from {field}", self._with({field: rest})
        for version in DESCRIBED:
            if version > self.setup.kubelet.features.version:
                text = f"{version[0]}.{version[1]}"
                yield (
                    "version",
                    f"Upgrading to Kubernetes {text}",
                    Setup(self.setup.machine, configuration, text, self.setup.devices),
                )

    def _with(self, fields: Mapping[str, object]) -> Setup:
        return Setup(self.setup.machine, {**self.setup.configuration, **fields}, self.setup.version, self.setup.devices)


def _with(pod: Pod, containers: Sequence[Container]) -> Pod:
    """The pod with these containers, init containers first."""
    init = len(pod.init_containers)
    return replace(pod, init_containers=tuple(containers[:init]), containers=tuple(containers[init:]))
