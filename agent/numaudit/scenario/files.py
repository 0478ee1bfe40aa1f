"""The state files of a scenario: those it begins with, and those its kubelet would leave behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from numaudit.checkpoints.formats import cpu as cpu_checkpoint
from numaudit.checkpoints.formats import file as checkpoints
from numaudit.checkpoints.formats import memory as memory_checkpoint
from numaudit.checkpoints.formats import seal
from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import NO_NODE, DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.checkpoints.start.findings import StateFinding
from numaudit.checkpoints.start.memory_start import machine_changes, reservation_changes
from numaudit.checkpoints.start.restore import cpu_start_error, memory_start_error
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.device.hints import DeviceState
from numaudit.containermanager.memory.state import default_machine_state
from numaudit.containermanager.memory.static_policy import MemoryPolicy
from numaudit.containermanager.plain import Document
from numaudit.containermanager.pod.spec import CPU, Container, Pod, Resources
from numaudit.containermanager.versions import DRIFT_GATE, DRIFT_OPTION
from numaudit.errors import InputError, ParseError
from numaudit.memorymanager.admission import NodeState
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.manager import StartRefused, fresh_state, restart
from numaudit.scenario.values import Setup
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import Quantity

_MOST_DIFFERENCES = 3
_DRIFT = "memory-total-drift"

STATE = ("memory", "cpu", "devices")
_KINDS = {"memory": checkpoints.MEMORY, "cpu": checkpoints.CPU, "devices": checkpoints.DEVICES}


class Files(Struct, frozen=True):
    """The three state files of a kubelet, as it reads or wrote them. None = there is no such file."""

    memory: bytes | None = None
    cpu: bytes | None = None
    devices: bytes | None = None


def written(kubelet: Kubelet, state: NodeState) -> Files:
    """The files that a kubelet leaves on disk."""
    return Files(
        seal.write(_memory(kubelet, state)),
        seal.write(_cpu(kubelet, state)),
        checkpoints.write(_devices(state.devices)),
    )


def plain(kubelet: Kubelet, state: NodeState) -> dict[str, object]:
    """The same as plain values: {memory, cpu, devices}, as a scenario's `state` takes them."""
    files = written(kubelet, state)
    return {name: json.loads(getattr(files, name)) for name in STATE}


def starting_state(setup: Setup, files: Files) -> NodeState:
    """State of this kubelet when it starts with these files and finds all their pods still there.

    Of a pod that is in the files nothing else is known, so it is taken for one that asks for what it holds.
    Raises InputError in the kubelet's words when it does not start with them, with the setup's notices, which may say
    why, or with what is wrong with a file.
    """
    kubelet = setup.kubelet
    state = fresh_state(kubelet, DeviceState(setup.devices, _held_devices(files.devices)))
    try:
        state = restored(kubelet, state, files)
    except StartRefused as refused:
        if refused.problem is not None:
            raise InputError(f"state: cannot tell whether the kubelet starts with it: {refused.problem}") from None
        reason = f"{refused}{_differing(kubelet, files)}"
        raise InputError("; ".join((f"state: the kubelet does not start with it: {reason}", *setup.notices))) from None
    except ParseError as error:  # what no kubelet writes, so that its words are not known
        raise InputError(f"state: a checkpoint is damaged: {error}") from None
    return replace(state, pods={pod.uid: pod for pod in _pods(state)})


def _differing(kubelet: Kubelet, files: Files) -> str:
    return "".join(f"; {one.message}" for one in _differences(kubelet, files)[:_MOST_DIFFERENCES])


def _differences(kubelet: Kubelet, files: Files) -> Sequence[StateFinding]:
    """The differences between the machine of the file and this one, as in a file of another host."""
    if files.memory is None or kubelet.memory_policy == "None":
        return ()
    try:
        in_file = memory_checkpoint.parse(files.memory).state.machine
    except ParseError:
        return ()
    here = default_machine_state(kubelet.machine, kubelet.reserved_memory or {})
    return [*machine_changes(in_file, here), *reservation_changes(in_file, kubelet.reserved_memory or {})]


def _may_tolerate(kubelet: Kubelet, files: Files, refusal: str) -> str | None:
    """The reason why the kubelet may start nevertheless: only amounts of memory differ, and it tolerates some."""
    found = _differences(kubelet, files)
    if kubelet.drift_tolerance is None or not found or any(one.name != _DRIFT for one in found):
        return None
    return (
        f"{refusal}{_differing(kubelet, files)}; with {DRIFT_OPTION} {kubelet.drift_tolerance} (gate {DRIFT_GATE}) it "
        "may accept that, which is not modelled here"
    )


def restored(kubelet: Kubelet, state: NodeState, files: Files) -> NodeState:
    """The state as a starting kubelet reads it from its files; it knows no pods yet. Raises StartRefused."""
    memory_policy, cpu_policy = kubelet.memory_policy, "none" if kubelet.cpu is None else "static"
    version, pod_level = kubelet.features.version, kubelet.features.pod_level_resource_managers
    machine = None if memory_policy == "None" else default_machine_state(kubelet.machine, kubelet.reserved_memory or {})
    memory_error = partial(memory_start_error, files.memory, policy=memory_policy, version=version, pod_level=pod_level)
    unreadable, other = memory_error(), memory_error(machine=machine)
    of_cpus = cpu_start_error(files.cpu, policy=cpu_policy, manager=kubelet.cpu, version=version, pod_level=pod_level)
    if refused := unreadable or other or of_cpus:
        is_certain = unreadable is not None or of_cpus is not None
        raise StartRefused(refused, problem=None if is_certain else _may_tolerate(kubelet, files, refused))
    fresh = fresh_state(kubelet, state.devices)
    memory, cpu = fresh.memory, fresh.cpu
    if files.memory is not None and machine is not None:
        stored = memory_checkpoint.parse(files.memory).as_read_by(version).state
        memory = MemoryPolicy(stored if pod_level else replace(stored, pod_entries={}))
    if files.cpu is not None and cpu is not None:
        kept = cpu_checkpoint.parse(files.cpu).as_read_by(version).state
        cpu = kept if pod_level else CPUState(kept.default_cpus, kept.entries)
    return restart(kubelet, NodeState(memory, cpu, state.devices), ())[0]


def _memory(kubelet: Kubelet, state: NodeState) -> MemoryCheckpoint:
    features = kubelet.features
    return MemoryCheckpoint.of(
        kubelet.memory_policy,
        state.memory.state,
        pod_level=features.pod_level_resource_managers,
        version=features.version,
    )


def _cpu(kubelet: Kubelet, state: NodeState) -> CpuCheckpoint:
    features = kubelet.features
    policy, cpus = ("none", CPUState(CpuSet())) if state.cpu is None else ("static", state.cpu)
    return CpuCheckpoint.of(policy, cpus, pod_level=features.pod_level_resource_managers, version=features.version)


def _devices(state: DeviceState) -> DeviceCheckpoint:
    entries = tuple(
        PodDevices(uid, container, resource, _by_node(state, resource, ids), None)
        for uid, containers in state.entries.items()
        for container, resources in containers.items()
        for resource, ids in resources.items()
    )
    registered = {resource: tuple(sorted(state.healthy(resource))) for resource in state.plugins}
    return DeviceCheckpoint.of(entries or None, registered)


def _by_node(state: DeviceState, resource: str, ids: Iterable[str]) -> dict[int, tuple[str, ...]]:
    by_node: dict[int, list[str]] = {}
    known = state.known(resource)
    for one in sorted(ids):
        nodes = known[one].nodes if one in known else None
        for node in nodes or (NO_NODE,):
            by_node.setdefault(node, []).append(one)
    return {node: tuple(names) for node, names in sorted(by_node.items())}


def read_checkpoint(name: str, place: Document) -> bytes | None:
    """One of STATE. A checkpoint without a checksum gets the one that fits. Raises InputError for what is none."""
    if place.value is None:
        return None
    if not isinstance(place.value, Mapping):
        raise place.error(f"must be a {_KINDS[name]}, or the name of a file that holds one")
    value = dict(place.value)
    has_none = not any(key.casefold() in ("checksum", "datachecksum") for key in map(str, value))
    try:
        data = json.dumps({"checksum": 0, **value} if has_none and name != "devices" else value).encode()
        checkpoint = checkpoints.parse(_KINDS[name], data)
    except (TypeError, ValueError) as error:
        raise place.error(f"not a {_KINDS[name]}: {error}") from None
    if checkpoint.unknown:
        raise place.error(
            f"unknown field {next(iter(checkpoint.unknown))}; remove it, because a kubelet does not know it"
        )
    if has_none:
        return checkpoints.write(_sealed(checkpoint))
    if not checkpoints.verify(checkpoint).is_valid:
        raise place.error(
            f"the checksum does not fit the content (it gives {checkpoints.verify(checkpoint).computed}); "
            "leave the checksum out to take the content as it is"
        )
    return data


def _sealed(checkpoint: checkpoints.Checkpoint) -> checkpoints.Checkpoint:
    if isinstance(checkpoint, MemoryCheckpoint):
        return MemoryCheckpoint.of(checkpoint.policy_name, checkpoint.state, pod_level=bool(checkpoint.pod_entries))
    if isinstance(checkpoint, CpuCheckpoint):
        return CpuCheckpoint.of(checkpoint.policy_name, checkpoint.state, pod_level=bool(checkpoint.pod_entries))
    assert isinstance(checkpoint, DeviceCheckpoint)
    return DeviceCheckpoint.of(checkpoint.entries, checkpoint.registered or {})


def _held_devices(data: bytes | None) -> dict[str, dict[str, dict[str, frozenset[str]]]]:
    held: dict[str, dict[str, dict[str, frozenset[str]]]] = {}
    checkpoint = None if data is None else checkpoints.parse(checkpoints.DEVICES, data)
    for one in (checkpoint.entries if isinstance(checkpoint, DeviceCheckpoint) else None) or ():
        ids = one.device_ids or {}
        found = frozenset(name for names in ids.values() for name in names or ())
        held.setdefault(one.pod_uid, {}).setdefault(one.container_name, {})[one.resource_name] = found
    return held


def _pods(state: NodeState) -> Iterator[Pod]:
    """A Guaranteed pod for each that holds something."""
    cpus = {} if state.cpu is None else state.cpu.entries
    memory, devices = state.memory.state.entries, state.devices.entries
    for uid in dict.fromkeys([*memory, *cpus, *devices]):
        names = dict.fromkeys([*memory.get(uid, {}), *cpus.get(uid, {}), *devices.get(uid, {})])
        namespace, slash, name = uid.partition("/")
        pod = Pod(
            name if slash else uid,
            namespace if slash else "default",
            uid,
            tuple(_container(state, uid, one) for one in names),
            status_qos="Guaranteed" if uid in memory or uid in cpus else None,
        )
        yield pod


def _container(state: NodeState, uid: str, name: str) -> Container:
    blocks = state.memory.state.entries.get(uid, {}).get(name, ())
    cpus = () if state.cpu is None else state.cpu.entries.get(uid, {}).get(name, ())
    amounts = {block.type: Quantity.of(block.size) for block in blocks}
    amounts[CPU] = Quantity.of(len(cpus), "DecimalSI") if cpus else Quantity.parse("500m")
    for resource, ids in state.devices.entries.get(uid, {}).get(name, {}).items():
        amounts[resource] = Quantity.of(len(ids), "DecimalSI")
    return Container(name, Resources(amounts, amounts))
