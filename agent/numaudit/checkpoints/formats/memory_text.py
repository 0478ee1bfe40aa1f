"""The text that go-spew makes of the Memory Manager's checkpoint, over which its checksum is taken.

Source: pkg/kubelet/cm/memorymanager/state/checkpoint.go; `go.spew` has the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from numaudit.containermanager.memory.state import Block, Entries, MachineState, MemoryTable
from numaudit.encoding.checksum import NIL, render_list, render_map
from numaudit.encoding.go_json import NIL_LIST, NIL_MAP

PodEntries = Mapping[str, tuple[Block, ...] | None]
"""Pod UID -> blocks of the whole pod; None = `memoryBlocks` is missing, as Go writes an empty list."""


def render(
    policy_name: str,
    machine: MachineState | None,
    entries: Entries | None,
    pod_entries: PodEntries | None,
    *,
    type_name: str,
    with_pods: bool,
) -> str:
    """The struct with its checksum 0. None = Go's nil map; `with_pods` False leaves the field out."""
    nodes = None if machine is None else _render_nodes(machine)
    held = None if entries is None else _render_containers(entries)
    pods = ""
    if with_pods:
        of_pods = None if pod_entries is None else _render_pods(pod_entries)
        pods = f" PodEntries:(state.PodMemoryAssignments){render_map(of_pods)}"
    return (
        f"(*state.{type_name}){{PolicyName:(string){policy_name}"
        f" MachineState:(state.NUMANodeMap){render_map(nodes)}"
        f" Entries:(state.ContainerMemoryAssignments){render_map(held)}{pods}"
        " Checksum:(checksum.Checksum)0}"
    )


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
