"""Promise of each container, by the checkpoints, else by PodResources. Pure.

The checkpoints come first: they know pod UIDs, and their checksums vouch for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct

from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import NO_NODE, DeviceCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.memory.state import Block
from numaudit.intent.node import Promise, PromisedDevices, devices_by_nodes
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import exact

ContainerKey = tuple[str, str]
"""Pod UID, container name."""

Value = TypeVar("Value")

_NOTHING = Promise()


class Checkpoints(Struct, frozen=True):
    """The three checkpoints by container. None = never read well.

    One that is not current is of an earlier time: what it has still counts, but what it lacks is not
    known to be nothing.
    """

    memory: Mapping[ContainerKey, tuple[Block, ...]] | None = None
    memory_is_current: bool = False
    cpus: Mapping[ContainerKey, CpuSet] | None = None
    cpus_are_current: bool = False
    devices: Mapping[ContainerKey, tuple[PromisedDevices, ...]] | None = None
    devices_are_current: bool = False
    memory_policy: str | None = None

    @property
    def keys(self) -> set[ContainerKey]:
        """All containers that some checkpoint has."""
        return {*(self.memory or ()), *(self.cpus or ()), *(self.devices or ())}


def by_container(
    memory: MemoryCheckpoint | None,
    cpu: CpuCheckpoint | None,
    devices: DeviceCheckpoint | None,
    *,
    current: tuple[bool, bool, bool],
) -> Checkpoints:
    """Sort the checkpoints' content by container. `current` is of memory, CPUs, devices."""
    return Checkpoints(
        memory=None if memory is None else _memory(memory),
        memory_is_current=current[0],
        cpus=None if cpu is None else _cpus(cpu),
        cpus_are_current=current[1],
        devices=None if devices is None else _devices(devices),
        devices_are_current=current[2],
        memory_policy=None if memory is None else memory.policy_name,
    )


class OtherSources(Struct, frozen=True):
    """Facts about one container from other sources than the checkpoints."""

    resources: Promise | None = None
    """Its entry in PodResources; None = it has none."""
    logged: NodeSet = NodeSet()
    """The nodes of its memory by the kubelet's log; empty = the log does not say."""


def promise(key: ContainerKey, checkpoints: Checkpoints, others: OtherSources) -> Promise:
    """Promise of one container. The checkpoints come first; an entry that they lack may be known elsewhere."""
    resources = others.resources or _NOTHING
    memory = _known(checkpoints.memory, checkpoints.memory_is_current, key, (), resources.memory)
    if not memory and _is_logged(checkpoints, others):
        memory = None
    return Promise(
        memory,
        _known(checkpoints.cpus, checkpoints.cpus_are_current, key, CpuSet(), resources.cpus),
        _known(checkpoints.devices, checkpoints.devices_are_current, key, (), resources.devices),
    )


def conflict(
    who: tuple[str | None, ...], key: ContainerKey, checkpoints: Checkpoints, others: OtherSources
) -> str | None:
    """Describe the contradiction between two sources about this container; a source without a value contradicts too."""
    resources = others.resources or _NOTHING
    memory = _held(checkpoints.memory, checkpoints.memory_is_current, key, ())
    if memory is not None and resources.memory is not None and _differ(memory, resources.memory):
        ours, theirs = (_in_words(blocks) for blocks in (memory, resources.memory))
        return f"{_path(who)}: memory is {ours} by the checkpoint, {theirs} by PodResources"
    if not memory and not resources.memory and _is_logged(checkpoints, others):
        return f"{_path(who)}: memory is nothing by the checkpoint, on {others.logged.in_words} by the kubelet's log"
    cpus, given = _held(checkpoints.cpus, checkpoints.cpus_are_current, key, CpuSet()), resources.cpus
    if cpus is not None and given is not None and cpus != given:
        return f"{_path(who)}: CPUs are {cpus or 'none'} by the checkpoint, {given or 'none'} by PodResources"
    return None


def _path(who: tuple[str | None, ...]) -> str:
    return "/".join(map(str, who))


def _differ(blocks: tuple[Block, ...], others: tuple[Block, ...]) -> bool:
    """In whatever order."""
    ours, theirs = ({(one.type, one.size, one.nodes) for one in listed} for listed in (blocks, others))
    return blocks != others and ours != theirs


def _is_logged(checkpoints: Checkpoints, others: OtherSources) -> bool:
    """Does the log show a promise beside a checkpoint that is current and static?"""
    return bool(others.logged) and checkpoints.memory_is_current and checkpoints.memory_policy == "Static"


def _held(found: Mapping[ContainerKey, Value] | None, current: bool, key: ContainerKey, nothing: Value) -> Value | None:
    """By the checkpoint alone. None = not known, `nothing` = it is known to have no entry."""
    if found is None:
        return None
    return found.get(key, nothing if current else None)


def _known(
    found: Mapping[ContainerKey, Value] | None,
    current: bool,
    key: ContainerKey,
    nothing: Value,
    elsewhere: Value | None,
) -> Value | None:
    held = _held(found, current, key, nothing)
    return held if held or (held is not None and not elsewhere) else elsewhere


def _memory(checkpoint: MemoryCheckpoint) -> dict[ContainerKey, tuple[Block, ...]]:
    entries = checkpoint.state.entries
    return {(uid, name): tuple(blocks) for uid, held in entries.items() for name, blocks in held.items()}


def _cpus(checkpoint: CpuCheckpoint) -> dict[ContainerKey, CpuSet]:
    return {(uid, name): cpus for uid, held in checkpoint.state.entries.items() for name, cpus in held.items()}


def _devices(checkpoint: DeviceCheckpoint) -> dict[ContainerKey, tuple[PromisedDevices, ...]]:
    found: dict[ContainerKey, tuple[PromisedDevices, ...]] = {}
    for entry in checkpoint.entries or ():
        nodes: dict[str, NodeSet | None] = {}
        for node, listed in (entry.device_ids or {}).items():
            for id_ in listed or ():
                nodes[id_] = nodes.get(id_) if node == NO_NODE else (nodes.get(id_) or NodeSet()) | NodeSet.of(node)
        key = (entry.pod_uid, entry.container_name)
        found[key] = (*found.get(key, ()), *devices_by_nodes(entry.resource_name, nodes))
    return found


def _in_words(blocks: tuple[Block, ...]) -> str:
    return " + ".join(f"{exact(one.size)} of {one.type} on {one.nodes.in_words}" for one in blocks) or "nothing"
