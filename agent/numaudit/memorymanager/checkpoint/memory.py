"""`memory_manager_state`: the checkpoint of the Memory Manager, bit for bit.

Two formats exist. V1 is written since Kubernetes 1.21; V2 adds `podEntries` and is written by 1.36
with the feature gate PodLevelResourceManagers. Both have the same keys, so only the checksum tells
a V2 file without pod entries from a V1 file.

Source: pkg/kubelet/cm/memorymanager/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from numaudit.memorymanager.go import json as go_json
from numaudit.memorymanager.go.json import INT64, NIL_LIST, NIL_MAP, Walk, field_names
from numaudit.memorymanager.go.spew import NIL, Verification, checksum, identify, render_list, render_map
from numaudit.memorymanager.memory.state import Block, Entries, MachineState, MemoryState, MemoryTable, NUMANodeState
from numaudit.memorymanager.versions import LATEST, KubernetesVersion
from numaudit.topology.nodeset import NodeSet

Form = Literal["V1", "V1 (new type name)", "V2", "no checksum"]
"""`V1 (new type name)`: the checksum of a V1 file taken over the struct's name in 1.36, which its reader
accepts. `no checksum`: the stored one is 0, which 1.36 takes for a V1 file without checksum."""

PodEntries = Mapping[str, tuple[Block, ...] | None]
"""Pod UID -> blocks of the whole pod; None = `memoryBlocks` is missing, as Go writes an empty list."""

_TOP = field_names("policyName", "machineState", "entries", "podEntries", "checksum")
_NODE = field_names("numberOfAssignments", "memoryMap", "cells")
_TABLE = field_names("total", "systemReserved", "allocatable", "reserved", "free")
_BLOCK = field_names("numaAffinity", "type", "size")
_POD = field_names("memoryBlocks")
_LARGEST_NODE = NodeSet.limit - 1


@dataclass(frozen=True, slots=True)
class MemoryCheckpoint:
    """The file's content. None = Go's nil (an explicit null), which has another checksum than empty.

    Deeper inside, nil is go_json's NIL_MAP or NIL_LIST, of nodes without `memoryMap` for example.
    """

    policy_name: str
    machine: MachineState | None
    entries: Entries | None
    pod_entries: PodEntries | None
    checksum: int
    unknown: tuple[str, ...] = ()
    """Paths of keys that are none of the format's; the kubelet passes over them."""

    @classmethod
    def of(cls, policy_name: str, state: MemoryState, *, pod_level: bool = False) -> MemoryCheckpoint:
        """What a kubelet would write for this state, checksum included."""
        unsealed = cls(policy_name, state.machine, state.entries, dict(state.pod_entries) if pod_level else {}, 0)
        return replace(unsealed, checksum=checksum(render(unsealed, "V2" if pod_level else "V1")))

    @property
    def state(self) -> MemoryState:
        """The same as plain values, where nil and empty are one."""
        pods = {uid: blocks or () for uid, blocks in (self.pod_entries or {}).items()}
        return MemoryState(self.machine or {}, self.entries or {}, pods)


def parse(data: bytes) -> MemoryCheckpoint:
    """Read the file. The checksum is not looked at: see `verify`.

    Raises ParseError naming the path of what is wrong: types, numbers below 0 or beyond 64 bits,
    node ids of 1024 and more, a key that occurs twice, null where the kubelet would fall over it.
    """
    walk = Walk()
    top = walk.struct(go_json.load(data), _TOP)
    return MemoryCheckpoint(
        policy_name=walk.text(top, "policyName"),
        machine=_parse_machine(walk, top),
        entries=_parse_entries(walk, top),
        pod_entries=_parse_pod_entries(walk, top),
        checksum=walk.number(top, "checksum"),
        unknown=tuple(walk.unknown),
    )


def write(checkpoint: MemoryCheckpoint) -> bytes:
    """The file as the kubelet writes it, without a newline. The stored checksum is written as it is."""
    document: dict[str, object] = {
        "policyName": checkpoint.policy_name,
        "machineState": go_json.plain_map(checkpoint.machine, _plain_node),
    }
    if checkpoint.entries:
        document["entries"] = go_json.plain_map(
            checkpoint.entries, lambda containers: go_json.plain_map(containers, _plain_blocks)
        )
    if checkpoint.pod_entries:
        document["podEntries"] = go_json.plain_map(
            checkpoint.pod_entries, lambda blocks: {"memoryBlocks": _plain_blocks(blocks)} if blocks else {}
        )
    document["checksum"] = checkpoint.checksum
    return go_json.dump(document)


def verify(checkpoint: MemoryCheckpoint) -> Verification:
    """Which format's checksum is the stored one? See `accepts` for what a given kubelet makes of it."""
    if checkpoint.checksum == 0:
        return Verification("no checksum", 0, checksum(render(checkpoint, "V1")))
    looks_like_v2 = bool(checkpoint.pod_entries)
    forms: tuple[Form, ...] = ("V2", "V1") if looks_like_v2 else ("V1", "V2")
    return identify(checkpoint.checksum, ((form, render(checkpoint, form)) for form in (*forms, "V1 (new type name)")))


def render(checkpoint: MemoryCheckpoint, form: Form) -> str:
    """The text that the checksum of that format is taken over."""
    name = "MemoryManagerCheckpointV1" if form == "V1 (new type name)" else "MemoryManagerCheckpoint"
    machine = None if checkpoint.machine is None else _render_nodes(checkpoint.machine)
    entries = None if checkpoint.entries is None else _render_containers(checkpoint.entries)
    pods = ""
    if form == "V2":
        pod_entries = None if checkpoint.pod_entries is None else _render_pods(checkpoint.pod_entries)
        pods = f" PodEntries:(state.PodMemoryAssignments){render_map(pod_entries)}"
    return (
        f"(*state.{name}){{PolicyName:(string){checkpoint.policy_name}"
        f" MachineState:(state.NUMANodeMap){render_map(machine)}"
        f" Entries:(state.ContainerMemoryAssignments){render_map(entries)}{pods}"
        " Checksum:(checksum.Checksum)0}"
    )


def accepts(form: str | None, *, version: KubernetesVersion = LATEST, pod_level: bool = False) -> bool:
    """Does this kubelet read a file of that format? `pod_level`: gate PodLevelResourceManagers."""
    if form == "V1":
        return True
    if form in ("V1 (new type name)", "no checksum"):
        return version >= (1, 36)
    return form == "V2" and version >= (1, 36) and pod_level


def _parse_machine(walk: Walk, top: Mapping[str, object]) -> MachineState | None:
    value = top.get("machineState", {})
    if value is None:
        return None
    walk.below("machineState")
    machine = {_node_id(walk, key): _parse_node(walk, item) for key, item in walk.items(value)}
    walk.up()
    return dict(sorted(machine.items()))


def _node_id(walk: Walk, key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 4 and str(int(key)) == key and int(key) <= _LARGEST_NODE):
        walk.refuse(f"expected a node id from 0 to {_LARGEST_NODE} as the key")
    return int(key)


def _parse_node(walk: Walk, value: object) -> NUMANodeState:
    node = walk.struct(value, _NODE)
    assignments = walk.number(node, "numberOfAssignments", INT64)
    tables: Mapping[str, MemoryTable] = NIL_MAP
    if node.get("memoryMap") is not None:
        walk.below("memoryMap")
        tables = {resource: _parse_table(walk, item) for resource, item in walk.items(node["memoryMap"])}
        walk.up()
    return NUMANodeState(assignments, tables, walk.numbers(node, "cells", _LARGEST_NODE))


def _parse_table(walk: Walk, value: object) -> MemoryTable:
    table = walk.struct(value, _TABLE)
    return MemoryTable(
        walk.number(table, "total"),
        walk.number(table, "systemReserved"),
        walk.number(table, "allocatable"),
        walk.number(table, "reserved"),
        walk.number(table, "free"),
    )


def _parse_entries(walk: Walk, top: Mapping[str, object]) -> Entries | None:
    value = top.get("entries", {})
    if value is None:
        return None
    walk.below("entries")
    entries = {uid: _parse_containers(walk, containers) for uid, containers in walk.items(value)}
    walk.up()
    return entries


def _parse_containers(walk: Walk, value: object) -> Mapping[str, tuple[Block, ...]]:
    if value is None:
        return NIL_MAP
    return {name: _parse_blocks(walk, blocks) for name, blocks in walk.items(value)}


def _parse_pod_entries(walk: Walk, top: Mapping[str, object]) -> PodEntries | None:
    value = top.get("podEntries", {})
    if value is None:
        return None
    walk.below("podEntries")
    entries = {uid: _parse_pod(walk, pod) for uid, pod in walk.items(value)}
    walk.up()
    return entries


def _parse_pod(walk: Walk, value: object) -> tuple[Block, ...] | None:
    pod = walk.struct(value, _POD)
    if pod.get("memoryBlocks") is None:
        return None
    walk.below("memoryBlocks")
    blocks = _parse_blocks(walk, pod["memoryBlocks"])
    walk.up()
    return blocks


def _parse_blocks(walk: Walk, value: object) -> tuple[Block, ...]:
    if value is None:
        return NIL_LIST
    return tuple([_parse_block(walk, block) for block in walk.elements(value)])


def _parse_block(walk: Walk, value: object) -> Block:
    block = walk.struct(value, _BLOCK)
    affinity = walk.numbers(block, "numaAffinity", _LARGEST_NODE)
    return Block(affinity, walk.text(block, "type"), walk.number(block, "size"))


def _plain_node(node: NUMANodeState) -> dict[str, object]:
    return {
        "numberOfAssignments": node.number_of_assignments,
        "memoryMap": go_json.plain_map(node.memory_map, _plain_table),
        "cells": node.cells,
    }


def _plain_table(table: MemoryTable) -> dict[str, int]:
    return {
        "total": table.total,
        "systemReserved": table.system_reserved,
        "allocatable": table.allocatable,
        "reserved": table.reserved,
        "free": table.free,
    }


def _plain_blocks(blocks: tuple[Block, ...]) -> list[dict[str, object]] | None:
    if blocks is NIL_LIST:
        return None
    return [{"numaAffinity": block.numa_affinity, "type": block.type, "size": block.size} for block in blocks]


def _render_nodes(machine: MachineState) -> Iterator[tuple[int, str]]:
    for node, state in sorted(machine.items()):
        tables = NIL
        if state.memory_map is not NIL_MAP:
            tables = render_map([(name, _render_table(table)) for name, table in sorted(state.memory_map.items())])
        yield (
            node,
            f"<*>{{NumberOfAssignments:(int){state.number_of_assignments}"
            f" MemoryMap:(map[v1.ResourceName]*state.MemoryTable){tables}"
            f" Cells:([]int){render_list(state.cells)}}}",
        )


def _render_table(table: MemoryTable) -> str:
    return (
        f"<*>{{TotalMemSize:(uint64){table.total} SystemReserved:(uint64){table.system_reserved}"
        f" Allocatable:(uint64){table.allocatable} Reserved:(uint64){table.reserved} Free:(uint64){table.free}}}"
    )


def _render_containers(entries: Entries) -> Iterator[tuple[str, str]]:
    for uid, containers in sorted(entries.items()):
        rendered = [(name, _render_blocks(blocks)) for name, blocks in sorted(containers.items())]
        yield uid, render_map(None if containers is NIL_MAP else rendered)


def _render_pods(pod_entries: PodEntries) -> Iterator[tuple[str, str]]:
    for uid, blocks in sorted(pod_entries.items()):
        yield uid, f"{{MemoryBlocks:([]state.Block){_render_blocks(blocks)}}}"


def _render_blocks(blocks: tuple[Block, ...] | None) -> str:
    if blocks is None or blocks is NIL_LIST:
        return NIL
    parts = [
        f"{{NUMAAffinity:([]int){_render_ids(block.numa_affinity)} Type:(v1.ResourceName){block.type}"
        f" Size:(uint64){block.size}}}"
        for block in blocks
    ]
    return f"[{' '.join(parts)}]"


@lru_cache(maxsize=256)
def _render_ids(ids: tuple[int, ...] | None) -> str:
    """Few affinities occur, but each of them often."""
    return render_list(ids)
