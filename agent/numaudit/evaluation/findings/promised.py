"""Rules about promises: stale ones, those that do not fit each other, and devices that are on other nodes than the
promise, by each source, with their interrupts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from numaudit.evaluation.causes import remedies
from numaudit.evaluation.findings.rule import Rule, RuleResult, TickEvidence, about
from numaudit.intent.node import ContainerIntent, Intent
from numaudit.snapshot import ContainerId
from numaudit.snapshot.processes import ContainerDevice, ContainerDevices
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units, plural

_OF_A_COMMAND = (
    "Set `topologyManagerPolicy` to restricted or single-numa-node in the configuration of `numaudit run`, so that "
    "CPUs and memory are chosen together, and start the command again."
)
"""Remedy where `numaudit run` chose both."""
OF_CLAIMS = (
    "The Topology Manager does not align resource claims. Claim CPUs, memory and devices of one node (by a selector on "
    "resource.kubernetes.io/numaNode), and leave out the request that makes the kubelet promise the same resource."
)


def _stale(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.containers:
        memory, nodes = one.managers.memory, one.managers.memory_nodes
        size = sum(block.size for block in memory or ())
        if memory and (one.is_stale or (one.has_ended and size)):
            who = "its pod is gone" if one.is_stale else "the container has ended"
            yield about(one, f"the kubelet still promises it {in_units(size)} on node {nodes}, but {who}")


def _cpu_memory_disagree(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.alive:
        if one.claims:
            yield from _disagreement_with_claims(evidence, one)
            continue
        memory, cpus = one.promise.memory_nodes, one.promise.cpus
        if not memory or not cpus:
            continue
        cpu_nodes = evidence.snapshot.machine.nodes_of_cpus(cpus)
        if cpu_nodes is not None and not cpu_nodes <= memory:
            are = "is" if len(cpus) == 1 else "are"
            where = f"{are} on {cpu_nodes.in_words}, but its promised memory is on {memory.in_words}"
            text = f"its exclusive {cpus.in_words} {where}"
            yield about(one, text, cpu_nodes - memory, _remedy(evidence.intent))


def _disagreement_with_claims(evidence: TickEvidence, one: ContainerIntent) -> Iterator[RuleResult]:
    """Each source of CPUs and memory with its nodes, as soon as two of them do not fit each other."""
    nodes_of = evidence.snapshot.machine.nodes_of_cpus
    sources = [("the kubelet", one.managers.cpus, one.managers.memory_nodes)]
    sources += [(claim.in_words, claim.cpus, claim.memory_nodes) for claim in one.claims]
    cpus = [(who, held, nodes_of(held)) for who, held, _ in sources if held]
    memory = [(who, nodes) for who, _, nodes in sources if nodes]
    on = NodeSet.from_ids(node for _, nodes in memory for node in nodes)
    outside = NodeSet.from_ids(node for _, _, nodes in cpus for node in nodes or () if on and node not in on)
    of_kubelet = one.managers.memory_nodes
    apart = bool(of_kubelet) and any(nodes != of_kubelet for _, nodes in memory)
    twice = bool(one.managers.cpus) and one.managers.cpus != one.promise.cpus
    if outside or apart or twice:
        where = {nodes: "" if nodes is None else f" on {nodes.in_words}" for _, _, nodes in cpus}
        said = [f"{held.in_words}{where[nodes]} by {who}" for who, held, nodes in cpus]
        said += [f"memory on {nodes.in_words} by {who}" for who, nodes in memory]
        yield about(one, f"its promises do not fit each other: {'; '.join(said)}", outside or on, OF_CLAIMS)


def _remedy(intent: Intent) -> str | None:
    """None = that of the rule."""
    return remedies.remedy_for_split_resources(intent) or (None if intent.promised_by == "kubelet" else _OF_A_COMMAND)


def _claim_unknown(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one in evidence.intent.alive:
        for claim in one.claims:
            if claim.problem is not None:
                yield about(one, f"what {claim.in_words} promises is unknown: {claim.problem}", NodeSet())


_NAMED = 3
_NO_DEVICES = ContainerDevices((), (), {})
_WITH_INTERRUPTS = ("network", "infiniband", "vfio", "gpu")
"""Kinds whose interrupts a user places. The kernel spreads those of disks over all CPUs, each for its own requests."""


class Home(NamedTuple):
    """The place with which a container's devices are compared."""

    words: str
    """The promised memory is, or its exclusive CPUs are."""
    nodes: NodeSet


class PlacedDevice(NamedTuple):
    """A device, or some of one resource, by one source."""

    name: str
    nodes: NodeSet
    sources: tuple[str, ...]
    """device plugin, sysfs, ..."""


def home(one: ContainerIntent, machine: Machine) -> Home | None:
    """The nodes of its promised memory, else of its exclusive CPUs; None = it has neither."""
    if one.promise.memory_nodes:
        return Home("the promised memory is", one.promise.memory_nodes)
    nodes = machine.nodes_of_cpus(one.promise.cpus) if one.promise.cpus else None
    return Home("its exclusive CPUs are", nodes) if nodes else None


def homes(one: ContainerIntent, machine: Machine) -> Iterator[Home]:
    """The same by source where it has resource claims: nobody aligns those with what the kubelet promised."""
    if not one.claims:
        found = home(one, machine)
        yield from () if found is None else (found,)
        return
    sources = [("the kubelet", one.managers.memory_nodes, one.managers.cpus)]
    sources += [(claim.in_words, claim.memory_nodes, claim.cpus) for claim in one.claims]
    for who, memory, cpus in sources:
        if memory:
            yield Home(f"the memory promised by {who} is", memory)
        elif cpus and (nodes := machine.nodes_of_cpus(cpus)) is not None:
            yield Home(f"the CPUs promised by {who} are", nodes)


def _claimed(address: str, one: ContainerIntent) -> str:
    """` of claim NAME` where a device of a claim is named by this PCI address, as `pci-0000-3b-00-0`."""
    written = address.replace(":", "-").replace(".", "-")
    named = (claim for claim in one.claims if any(written in device.replace(".", "-") for device in claim.devices))
    return next((f" of {claim.in_words}" for claim in named), "")


def placed_devices(one: ContainerIntent, held: ContainerDevices) -> Iterator[PlacedDevice]:
    """Devices with known nodes: first those of plugins, then those that only sysfs places."""
    named = {device.address for device in held.promised.values()}
    for devices in one.promise.devices or ():
        known = {held.promised[id_].numa_node for id_ in devices.ids if id_ in held.promised}
        agrees = devices.nodes is not None and known and known <= set(devices.nodes)
        ids = ", ".join(devices.ids[:_NAMED])
        if devices.nodes:
            sources = ("the device plugin", "sysfs") if agrees else ("the device plugin",)
            yield PlacedDevice(f"{devices.resource} ({ids})", devices.nodes, sources)
        if not agrees:
            for id_ in devices.ids:
                node = held.promised[id_].numa_node if id_ in held.promised else None
                if node is not None:
                    yield PlacedDevice(f"{devices.resource} ({id_})", NodeSet.of(node), ("sysfs",))
    for device in held.items:
        if device.numa_node is not None and device.address not in named:
            name = f"its {device.title}{_claimed(device.address, one)}"
            yield PlacedDevice(name, NodeSet.of(device.numa_node), ("sysfs",))


def _with_devices(evidence: TickEvidence) -> Iterator[tuple[ContainerIntent, ContainerDevices]]:
    """Each container that is here and has devices, which few do, with those that its instance holds."""
    found = evidence.snapshot.devices
    if not found and not evidence.intent.promises_devices:
        return
    for one in evidence.intent.alive:
        cgroup = one.cgroups[0] if len(one.cgroups) == 1 else None
        held = _NO_DEVICES if cgroup is None else found.get(ContainerId(cgroup), _NO_DEVICES)
        if held.items or one.promise.devices:
            yield one, held


def _device_remote(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, held in _with_devices(evidence):
        places = tuple(homes(one, evidence.snapshot.machine))
        for device in placed_devices(one, held) if places else ():
            away = [place for place in places if device.nodes.isdisjoint(place.nodes)]
            if away:
                others = " and ".join(f"{place.words} on {place.nodes.in_words}" for place in away)
                text = f"{device.name} is on {device.nodes.in_words} by {' and '.join(device.sources)}, but {others}"
                apart = OF_CLAIMS if one.claims else remedies.remedy_for_split_resources(evidence.intent)
                yield about(one, text, device.nodes, apart)


def _device_node_disagrees(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, held in _with_devices(evidence):
        for devices in one.promise.devices or ():
            for id_ in devices.ids:
                known = held.promised.get(id_)
                if known is None or known.numa_node is None or not devices.nodes:
                    continue
                if known.numa_node not in devices.nodes:
                    by_sysfs = NodeSet.of(known.numa_node)
                    text = (
                        f"{devices.resource} ({id_}) is on {devices.nodes.in_words} by the device plugin, on "
                        f"{by_sysfs.in_words} by sysfs ({known.address})"
                    )
                    yield about(one, text, by_sysfs)


def _interrupts_remote(evidence: TickEvidence) -> Iterator[RuleResult]:
    for one, held in _with_devices(evidence):
        place = home(one, evidence.snapshot.machine)
        for device in held.items if place is not None else ():
            away = {} if place is None else fired_elsewhere(device, place.nodes)
            if place is not None and away:
                fired = sum((device.interrupts.fired_by_node if device.interrupts else {}).values())
                nodes = NodeSet.from_ids(away)
                text = (
                    f"{sum(away.values())} of the {plural(fired, 'interrupt')} of its {device.title} that have fired "
                    f"run on {nodes.in_words}, but {place.words} on {place.nodes.in_words}"
                )
                yield about(one, text, nodes)


def fired_elsewhere(device: ContainerDevice, nodes: NodeSet) -> Mapping[int, int]:
    """Interrupts that have fired on other nodes, by node, where those are more than half; else none."""
    fired = {} if device.interrupts is None else device.interrupts.fired_by_node
    away = {node: count for node, count in fired.items() if node not in nodes}
    matters = device.kind in _WITH_INTERRUPTS and 2 * sum(away.values()) > sum(fired.values())
    return away if matters else {}


RULES = (
    Rule(
        "stale",
        "warning",
        "The memory manager frees it at the next admission of any pod: start one, or restart the kubelet with the "
        "node drained. Until then new pods may be refused although the memory is free.",
        _stale,
    ),
    Rule(
        "cpu-memory-disagree",
        "warning",
        "Use the Topology Manager policy restricted or single-numa-node, so that CPUs and memory are chosen together, "
        "and recreate the pod.",
        _cpu_memory_disagree,
    ),
    Rule(
        "claim-unknown",
        "info",
        "See docs/dra.md for the drivers and formats that are known. Where a CDI file is missing, see that the driver "
        "runs.",
        _claim_unknown,
    ),
    Rule(
        "device-remote",
        "warning",
        "Use the Topology Manager policy restricted or single-numa-node, and recreate the pod.",
        _device_remote,
    ),
    Rule(
        "device-node-disagrees",
        "warning",
        "Update or correct the device plugin: the kubelet places pods by the nodes that it reports. sysfs has those of "
        "the firmware (`cat /sys/bus/pci/devices/ADDRESS/numa_node`).",
        _device_node_disagrees,
    ),
    Rule(
        "interrupts-remote",
        "info",
        "Write CPUs of the promised nodes to /proc/irq/NUMBER/smp_affinity_list (the numbers are in "
        "/sys/bus/pci/devices/ADDRESS/msi_irqs), and keep irqbalance from moving them.",
        _interrupts_remote,
    ),
)
