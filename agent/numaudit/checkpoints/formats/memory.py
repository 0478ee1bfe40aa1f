"""`memory_manager_state`: the checkpoint of the Memory Manager, bit for bit.

Three formats exist. V1 is written since Kubernetes 1.21; V2 adds `podEntries` and is written by 1.36
with the feature gate PodLevelResourceManagers. Both have the same keys, so only the checksum shows
a V2 file without pod entries from a V1 file. V3, since 1.37, is a V1 file with a `seal` beside it,
which alone counts.

Source: pkg/kubelet/cm/memorymanager/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from numaudit.checkpoints.formats import memory_text, seal
from numaudit.checkpoints.formats.memory_text import PodEntries
from numaudit.checkpoints.formats.seal import SealedCheckpoint
from numaudit.containermanager.memory.state import (
    Block,
    Entries,
    MachineState,
    MemoryState,
    MemoryTable,
    NUMANodeState,
)
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.gojson import json as go_json
from numaudit.gojson.json import INT64, NIL_LIST, NIL_MAP, Walk, field_names
from numaudit.gojson.spew import Verification, checksum, identify
from numaudit.topology.nodeset import NodeSet

ChecksumFormat = Literal["V1", "V1 (new type name)", "V2", "V3", "no checksum"]
"""`V1 (new type name)`: the checksum of a V1 file taken over the struct's name in 1.36, which its reader
accepts. `no checksum`: the stored one is 0, which 1.36 takes for a V1 file without checksum."""

WITH_PODS = ("V2", "V3")
"""The formats whose checksum covers `podEntries`."""

_DATA = field_names("policyName", "machineState", "entries", "podEntries")
_NODE = field_names("numberOfAssignments", "memoryMap", "cells")
_TABLE = field_names("total", "systemReserved", "allocatable", "reserved", "free")
_BLOCK = field_names("numaAffinity", "type", "size")
_POD = field_names("memoryBlocks")
_LARGEST_NODE = NodeSet.limit - 1


@dataclass(frozen=True, slots=True)
class MemoryCheckpoint(SealedCheckpoint):
    """The file's content; of V3 that of its `data`. None = Go's nil (an explicit null), not the same as empty.

    Deeper inside, nil is go_json's NIL_MAP or NIL_LIST, of nodes without `memoryMap` for example.
    """

    policy_name: str
    machine: MachineState | None
    entries: Entries | None
    pod_entries: PodEntries | None

    @classmethod
    def of(
        cls,
        policy_name: str,
        state: MemoryState,
        *,
        pod_level: bool = False,
        version: KubernetesVersion = LATEST,
    ) -> MemoryCheckpoint:
        """The kubelet's file for this state, checksums included; `pod_level`: PodLevelResourceManagers."""
        pods = dict(state.pod_entries) if pod_level else {}
        form: ChecksumFormat = "V2" if pod_level and version < seal.SINCE else "V1"
        whole = cls(policy_name, state.machine, state.entries, pods, checksum=0)
        return seal.with_checksums(whole, replace(whole, pod_entries={}), version, lambda one: render(one, form))

    @property
    def content(self) -> dict[str, object]:
        document: dict[str, object] = {
            "policyName": self.policy_name,
            "machineState": plain_machine(self.machine),
        }
        if self.entries:
            document["entries"] = go_json.plain_map(
                self.entries, lambda containers: go_json.plain_map(containers, _plain_blocks)
            )
        if self.pod_entries:
            document["podEntries"] = go_json.plain_map(
                self.pod_entries, lambda blocks: {"memoryBlocks": _plain_blocks(blocks)} if blocks else {}
            )
        return document

    @property
    def state(self) -> MemoryState:
        """The same as plain values, where nil and empty are one."""
        pods = {uid: blocks or () for uid, blocks in (self.pod_entries or {}).items()}
        return MemoryState(self.machine or {}, self.entries or {}, pods)


def parse(data: bytes) -> MemoryCheckpoint:
    """Read the file. Checksums are not compared: see `verify`. So V3 is read even where `data` is damaged;
    then the content is that outside of it.

    Raises ParseError naming the path of what is wrong: types, numbers below 0 or beyond 64 bits,
    node ids of 1024 and more, a key that occurs twice, null where the kubelet would fall over it.
    """
    return seal.unmarshal(data, _DATA, _content)


def plain_machine(machine: MachineState | None) -> object:
    """A memory map in the words of the file."""
    return go_json.plain_map(machine, _plain_node)


def verify(checkpoint: MemoryCheckpoint) -> Verification:
    """Find the format whose checksum is the stored one. See `accepts` for what a given kubelet makes of it."""
    if checkpoint.seal is not None:
        return seal.verify(checkpoint.seal, "V3")
    if checkpoint.checksum == 0:
        return Verification("no checksum", 0, checksum(render(checkpoint, "V1")))
    looks_like_v2 = bool(checkpoint.pod_entries)
    forms: tuple[ChecksumFormat, ...] = ("V2", "V1") if looks_like_v2 else ("V1", "V2")
    return identify(checkpoint.checksum, ((form, render(checkpoint, form)) for form in (*forms, "V1 (new type name)")))


def render(checkpoint: MemoryCheckpoint, form: ChecksumFormat) -> str:
    """The text that the checksum of V1 or V2 is taken over."""
    return memory_text.render(
        checkpoint.policy_name,
        checkpoint.machine,
        checkpoint.entries,
        checkpoint.pod_entries if form == "V2" else None,
        type_name="MemoryManagerCheckpointV1" if form == "V1 (new type name)" else "MemoryManagerCheckpoint",
        with_pods=form == "V2",
    )


def accepts(form: str | None, *, version: KubernetesVersion = LATEST, pod_level: bool = False) -> bool:
    """Does this kubelet read a file of that format? `pod_level`: gate PodLevelResourceManagers."""
    if form == "V1":
        return True
    if form in ("V1 (new type name)", "no checksum"):
        return version >= (1, 36)
    if form == "V2":
        return version >= seal.SINCE or (version >= (1, 36) and pod_level)
    return form == "V3" and version >= seal.SINCE


def _content(walk: Walk, top: Mapping[str, object]) -> MemoryCheckpoint:
    return MemoryCheckpoint(
        policy_name=walk.text(top, "policyName"),
        machine=walk.field(top, "machineState", partial(_parse_machine, walk), {}),
        entries=walk.field(top, "entries", partial(_parse_entries, walk), {}),
        pod_entries=walk.field(top, "podEntries", partial(_parse_pod_entries, walk), {}),
        checksum=walk.number(top, "checksum"),
    )


def _parse_machine(walk: Walk, value: object) -> MachineState:
    machine = {_node_id(walk, key): _parse_node(walk, item) for key, item in walk.items(value)}
    return dict(sorted(machine.items()))


def _node_id(walk: Walk, key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) <= 4 and str(int(key)) == key and int(key) <= _LARGEST_NODE):
        walk.refuse(f"expected a node id from 0 to {_LARGEST_NODE} as the key")
    return int(key)


def _parse_node(walk: Walk, value: object) -> NUMANodeState:
    node = walk.struct(value, _NODE)
    assignments = walk.number(node, "numberOfAssignments", INT64)
    tables = walk.field(node, "memoryMap", partial(_parse_tables, walk))
    return NUMANodeState(assignments, NIL_MAP if tables is None else tables, walk.numbers(node, "cells", _LARGEST_NODE))


def _parse_tables(walk: Walk, value: object) -> dict[str, MemoryTable]:
    return {resource: _parse_table(walk, item) for resource, item in walk.items(value)}


def _parse_table(walk: Walk, value: object) -> MemoryTable:
    table = walk.struct(value, _TABLE)
    return MemoryTable(
        walk.number(table, "total"),
        walk.number(table, "systemReserved"),
        walk.number(table, "allocatable"),
        walk.number(table, "reserved"),
        walk.number(table, "free"),
    )


def _parse_entries(walk: Walk, value: object) -> Entries:
    return {uid: _parse_containers(walk, containers) for uid, containers in walk.items(value)}


def _parse_containers(walk: Walk, value: object) -> Mapping[str, tuple[Block, ...]]:
    if value is None:
        return NIL_MAP
    return {name: _parse_blocks(walk, blocks) for name, blocks in walk.items(value)}


def _parse_pod_entries(walk: Walk, value: object) -> PodEntries:
    of_pod = partial(_parse_blocks, walk)
    return {uid: walk.field(walk.struct(pod, _POD), "memoryBlocks", of_pod) for uid, pod in walk.items(value)}


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
