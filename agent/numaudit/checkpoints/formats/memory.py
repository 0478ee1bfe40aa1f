"""`memory_manager_state`: the checkpoint of the Memory Manager, bit for bit.

Three formats exist. V1 is written since Kubernetes 1.21; V2 adds `podEntries` and is written by 1.36
with the feature gate PodLevelResourceManagers. Both have the same keys, so only the checksum shows
a V2 file without pod entries from a V1 file. V3, since 1.37, is a V1 file with a `seal` beside it,
which alone counts.

Source: pkg/kubelet/cm/memorymanager/state/{checkpoint,state_checkpoint}.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field, structs

from numaudit.checkpoints.formats import seal
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
from numaudit.encoding import go_json
from numaudit.encoding.checksum import NIL, Verification, checksum, identify, render_list, render_map
from numaudit.encoding.go_json import NIL_LIST, NIL_MAP, Reader, Uint64

PodEntries = Mapping[str, tuple[Block, ...] | None]
"""Pod UID -> blocks of the whole pod; None = `memoryBlocks` is missing, as Go writes an empty list."""
ChecksumFormat = Literal["V1", "V1 (new type name)", "V2", "V3", "no checksum"]
"""`V1 (new type name)`: the checksum of a V1 file taken over the struct's name in 1.36, which its reader
accepts. `no checksum`: the stored one is 0, which 1.36 takes for a V1 file without checksum."""

WITH_PODS = ("V2", "V3")
"""The formats whose checksum covers `podEntries`."""


class _Pod(Struct, frozen=True, rename="camel", omit_defaults=True):
    memory_blocks: tuple[Block, ...] | None = None


class _Content(Struct, frozen=True, rename="camel", omit_defaults=True):
    policy_name: str
    machine_state: MachineState | UnsetType | None = UNSET
    entries: Entries | None = field(default_factory=dict)
    pod_entries: Mapping[str, _Pod] | None = field(default_factory=dict)


class _File(_Content, frozen=True, rename="camel", omit_defaults=True):
    checksum: Uint64 | UnsetType = UNSET
    data: str = ""
    data_checksum: Uint64 = 0


_CONTENT, _FILE = Reader(_Content, "data"), Reader(_File)


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
    def content(self) -> _Content:
        pods = {uid: _Pod(blocks or None) for uid, blocks in (self.pod_entries or {}).items()}
        return _Content(
            self.policy_name,
            written_machine(self.machine),
            go_json.go_map(self.entries or {}, lambda containers: go_json.go_map(containers, _written_blocks)),
            go_json.go_map(pods),
        )

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
    return seal.unmarshal(data, _FILE, _CONTENT, _checkpoint)


def written_machine(machine: MachineState | None) -> dict[Any, Any] | None:
    """A memory map as it is written: in the order of the file; None = null."""
    return go_json.go_map(machine, _written_node)


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
    """The text that the checksum of V1 or V2 is taken over: go-spew's of the struct with its checksum 0."""
    nodes = None if checkpoint.machine is None else _render_nodes(checkpoint.machine)
    held = None if checkpoint.entries is None else _render_containers(checkpoint.entries)
    pods = ""
    if form == "V2":
        of_pods = None if checkpoint.pod_entries is None else _render_pods(checkpoint.pod_entries)
        pods = f" PodEntries:(state.PodMemoryAssignments){render_map(of_pods)}"
    type_name = "MemoryManagerCheckpointV1" if form == "V1 (new type name)" else "MemoryManagerCheckpoint"
    return (
        f"(*state.{type_name}){{PolicyName:(string){checkpoint.policy_name}"
        f" MachineState:(state.NUMANodeMap){render_map(nodes)}"
        f" Entries:(state.ContainerMemoryAssignments){render_map(held)}{pods}"
        " Checksum:(checksum.Checksum)0}"
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


def _checkpoint(content: _Content, checksum: int) -> MemoryCheckpoint:
    machine, pods = content.machine_state, content.pod_entries
    return MemoryCheckpoint(
        content.policy_name,
        None if machine is None else dict(sorted((machine or {}).items())),
        content.entries,
        None if pods is None else {uid: pod.memory_blocks for uid, pod in pods.items()},
        checksum=checksum,
    )


def _written_node(node: NUMANodeState) -> NUMANodeState:
    return structs.replace(node, memory_map=go_json.go_map(node.memory_map))


def _written_blocks(blocks: tuple[Block, ...]) -> tuple[Block, ...] | None:
    return None if blocks is NIL_LIST else blocks


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
