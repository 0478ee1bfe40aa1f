"""Obstacles to the Memory Manager's start with a given `memory_manager_state`.

Two questions: does the file agree with itself, and does it agree with the machine? The kubelet asks
both at once and answers with one sentence; here each cause has a name.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (validateState), KEP-1769.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from numaudit.checkpoints.formats.memory import WITH_PODS, MemoryCheckpoint
from numaudit.checkpoints.start.findings import StateFinding, Stops
from numaudit.containermanager.memory.replay import GROUP_SUMS_SINCE, Refusal, check_start, without_assignments
from numaudit.containermanager.memory.state import (
    Block,
    MachineState,
    MemoryState,
    MemoryTable,
    SystemReserved,
    default_machine_state,
)
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, MEMORY
from numaudit.containermanager.versions import KubernetesVersion
from numaudit.encoding.checksum import Verification
from numaudit.encoding.go_json import UINT64
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import exact, plural

_BEFORE_GROUP_SUMS: KubernetesVersion = (GROUP_SUMS_SINCE[0], GROUP_SUMS_SINCE[1] - 1)
_MOST_OVERLAPS = 1000
"""1024 nodes can disagree a million times."""
_LARGEST_DRIFT = 128 << 20
"""Bytes. A node's total that changed by no more drifted; by more, memory came or went. The bound of KEP-6232: the span
of the kernel's image, here 64 MiB, as the largest seen has 47.4 MiB, and 64 MiB for what else a boot sets aside."""


def memory_findings(
    checkpoint: MemoryCheckpoint,
    verification: Verification,
    machine: Machine | None,
    *,
    version: KubernetesVersion,
    pod_level: bool,
    reserved: SystemReserved | None = None,
) -> Iterator[StateFinding]:
    """All findings of a file whose checksum fits. `machine` None = the file stands alone.

    `pod_level`: gate PodLevelResourceManagers; without it pod-level blocks do not count. `reserved`: what the kubelet's
    configuration keeps from pods; None = as in the file.
    """
    if checkpoint.policy_name not in ("None", "Static"):
        yield StateFinding.of("policy-unknown", f"policyName is {checkpoint.policy_name!r}", "policyName")
        return
    state, has_pods = checkpoint.state, verification.form in WITH_PODS
    pod_level = pod_level and has_pods
    yield from _pod_level_findings(state, has_pods)
    if checkpoint.policy_name == "None":
        return
    if not state.machine:
        if state.entries:
            message = f"{plural(len(state.entries), 'pod')} with promises, but machineState is empty"
            yield StateFinding.of("machine-state-missing", message, "machineState")
        return
    found = [*_table_findings(state.machine), *islice(_group_findings(state.machine), _MOST_OVERLAPS)]
    found += _own_findings(state, version=version, pod_level=pod_level)
    if machine is not None:
        found += machine_changes(state.machine, default_state(state, machine))
        if reserved is not None:
            found += reservation_changes(state.machine, reserved)
        refused = replayed(checkpoint, machine, version=version, pod_level=pod_level, reserved=reserved)
        if refused is not None and not any(one.stops in ("start", "now") for one in found):
            found.append(StateFinding.of("state-differs", f"{refused.message}: {refused.difference}", "machineState"))
        totals = ", ".join(
            f"node {id_} {exact(_total(node.memory_map))}" for id_, node in sorted(state.machine.items())
        )
        found.append(StateFinding.of("reboot-may-change-totals", f"memory in the file: {totals}", "machineState"))
    yield from found


def replayed(
    checkpoint: MemoryCheckpoint,
    machine: Machine | None,
    *,
    version: KubernetesVersion,
    pod_level: bool,
    reserved: SystemReserved | None = None,
) -> Refusal | None:
    """The kubelet's objection to the replay on this machine; None = nothing, it starts.

    Without a machine the file's own totals stand in for it. `pod_level`: pod-level blocks count. `reserved`: as in
    `memory_findings`.
    """
    state = checkpoint.state
    return check_start(state, default_state(state, machine, reserved), version=version, pod_level=pod_level)


def default_state(state: MemoryState, machine: Machine | None, reserved: SystemReserved | None = None) -> MachineState:
    """The memory map without pods: of the machine, reserved as configured or in the file; or of the file itself."""
    if machine is None:
        return without_assignments(state.machine)
    return default_machine_state(machine, reserved_in(state.machine) if reserved is None else reserved)


def reserved_in(machine: MachineState) -> dict[int, dict[str, int]]:
    """Memory reserved for the system by the configuration at the file's last write: node -> resource -> bytes."""
    return {
        id_: {resource: table.system_reserved for resource, table in node.memory_map.items()}
        for id_, node in machine.items()
    }


def reservation_changes(in_file: MachineState, configured: SystemReserved) -> Iterator[StateFinding]:
    """Findings for nodes of the file on which the configuration reserves other amounts than the file has, on the nodes
    of the file."""
    for id_, node in in_file.items():
        for resource, table in node.memory_map.items():
            wanted = configured.get(id_, {}).get(resource, 0)
            if table.system_reserved != wanted:
                where = f"machineState.{id_}.memoryMap.{resource}.systemReserved"
                message = (
                    f"node {id_}: {exact(table.system_reserved)} of {resource} are reserved in the file, "
                    f"{exact(wanted)} by the kubelet's configuration"
                )
                yield StateFinding.of("reservation-changed", message, where)


def machine_changes(in_file: MachineState, default: MachineState) -> Iterator[StateFinding]:
    """Findings for differences between the machine and the one on which the file was written. `default`: the machine's
    map without pods."""
    if in_file.keys() != default.keys():
        message = f"the file has nodes {_ids(in_file)}, the machine has {_ids(default)}"
        yield StateFinding.of("nodes-changed", message, "machineState")
    common = sorted(in_file.keys() & default.keys())
    for id_ in common:
        have, live = in_file[id_].memory_map, default[id_].memory_map
        where = f"machineState.{id_}.memoryMap"
        if have.keys() != live.keys():
            message = f"node {id_}: the file has {_names(have)}, the machine has {_names(live)}"
            yield StateFinding.of("huge-page-sizes-changed", message, where)
        for resource in sorted(have.keys() & live.keys()):
            if resource.startswith(HUGEPAGES_PREFIX) and have[resource].total != live[resource].total:
                message = _change(id_, resource, have[resource].total, live[resource].total)
                yield StateFinding.of("huge-pages-changed", message, f"{where}.{resource}.total")
    yield from _memory_changes(in_file, default, common)


def _memory_changes(in_file: MachineState, default: MachineState, common: list[int]) -> Iterator[StateFinding]:
    before = {id_: _total(in_file[id_].memory_map) for id_ in common}
    now = {id_: _total(default[id_].memory_map) for id_ in common}
    moved = sum(now.values()) - sum(before.values())
    is_drift = all(abs(now[id_] - before[id_]) <= _LARGEST_DRIFT for id_ in common)
    for id_ in common:
        if before[id_] != now[id_]:
            sum_of_all = "the sum over all nodes is the same" if moved == 0 else f"the sum over all nodes {moved:+d}"
            yield StateFinding.of(
                "memory-total-drift" if is_drift else "memory-size-changed",
                f"{_change(id_, MEMORY, before[id_], now[id_])}; {sum_of_all}",
                f"machineState.{id_}.memoryMap.{MEMORY}.total",
            )


def _pod_level_findings(state: MemoryState, has_pods: bool) -> Iterator[StateFinding]:
    if state.pod_entries and not has_pods:
        pods = ", ".join(state.pod_entries)
        yield StateFinding.of("stale-pod-entries", f"the checksum leaves out podEntries of {pods}", "podEntries")
        return
    for uid, blocks in state.pod_entries.items():
        containers = state.entries.get(uid, {})
        if not blocks:
            yield StateFinding.of("pod-level-incomplete", f"pod {uid} has no blocks of its own", f"podEntries.{uid}")
        elif not any(containers.values()):
            message = f"pod {uid} holds memory, but none of its containers has a block"
            yield StateFinding.of("pod-level-incomplete", message, f"podEntries.{uid}")
        else:
            yield from _outside_pod(uid, blocks, containers)


def _outside_pod(
    uid: str, blocks: tuple[Block, ...], containers: Mapping[str, tuple[Block, ...]]
) -> Iterator[StateFinding]:
    """A container's block lies within the pod's block of that type."""
    of_pod = {block.type: block for block in blocks}
    for name, own in containers.items():
        for block in own:
            whole = of_pod.get(block.type)
            if whole is None or block.numa_affinity != whole.numa_affinity or block.size > whole.size:
                message = f"container {name} of pod {uid} has {exact(block.size)} of {block.type} outside the pod's own"
                yield StateFinding.of("pod-level-incomplete", message, f"entries.{uid}.{name}")


def _table_findings(machine: MachineState) -> Iterator[StateFinding]:
    """allocatable = total - systemReserved (- huge pages, for memory); reserved + free = allocatable."""
    for id_, node in machine.items():
        in_pages = sum(t.total for name, t in node.memory_map.items() if name.startswith(HUGEPAGES_PREFIX))
        for resource, table in node.memory_map.items():
            where = f"machineState.{id_}.memoryMap.{resource}"
            says = f"allocatable says {exact(table.allocatable)}"
            kept = table.system_reserved + (in_pages if resource == MEMORY else 0)
            if kept > table.total:
                message = f"node {id_}: {exact(kept)} of {exact(table.total)} of {resource} are kept from pods"
                yield StateFinding.of("reservation-too-large", message, where)
            elif table.allocatable != table.total - kept:
                left = table.total - kept
                message = f"node {id_}: pods are left {exact(left)} of {resource}, {says}"
                yield StateFinding.of("table-inconsistent", message, f"{where}.allocatable")
            given = (table.reserved + table.free) & UINT64
            if given != table.allocatable:
                message = f"node {id_}: reserved + free of {resource} is {exact(given)}, {says}"
                yield StateFinding.of("table-inconsistent", message, f"{where}.free")


def _group_findings(machine: MachineState) -> Iterator[StateFinding]:
    """All nodes of a group name the same group, so groups are disjoint."""
    groups = {id_: NodeSet.from_ids(node.cells or ()) for id_, node in machine.items()}
    for id_, node in machine.items():
        for other in groups[id_]:
            theirs = machine[other].cells if other in machine else None
            if other not in machine or groups[other] != groups[id_]:
                message = f"node {id_} is in group {_ids(node.cells)}, but node {other} in {_ids(theirs)}"
                yield StateFinding.of("groups-overlap", message, f"machineState.{id_}.cells")


def _own_findings(state: MemoryState, *, version: KubernetesVersion, pod_level: bool) -> Iterator[StateFinding]:
    """Does the file agree with itself?"""
    default = without_assignments(state.machine)
    refused = check_start(state, default, version=GROUP_SUMS_SINCE, pod_level=pod_level)
    if refused is None:
        split = check_start(state, default, version=_BEFORE_GROUP_SUMS, pod_level=pod_level)
        if split is not None and split.difference is not None:
            where = f"machineState.{split.difference.node}"
            stops: Stops | None = "start" if version < GROUP_SUMS_SINCE else None
            yield StateFinding.of("cross-node-release-drift", str(split.difference), where, stops)
    elif refused.difference is None:
        yield StateFinding.of("assignment-to-missing-node", refused.message, "entries")
    else:
        where = f"machineState.{refused.difference.node}"
        yield StateFinding.of("entries-do-not-add-up", str(refused.difference), where)


def _total(tables: Mapping[str, MemoryTable]) -> int:
    return tables[MEMORY].total if MEMORY in tables else 0


def _change(node: int, resource: str, before: int, now: int) -> str:
    sizes = f"{exact(before)} in the file, {exact(now)} on this machine ({now - before:+d})"
    return f"node {node}: {resource} total is {sizes}"


def _ids(ids: Iterable[int] | None) -> str:
    return "none" if ids is None else str(list(ids))


def _names(tables: Mapping[str, MemoryTable]) -> str:
    return ", ".join(sorted(tables))
