"""The Memory Manager's check when the kubelet starts: do the entries explain the machine state?

The kubelet takes the memory map of a machine without pods, charges every assignment of the file to
it again, and compares the outcome with the machine state in the file. It walks Go maps, so its order
is random; here nodes and resources come in ascending order and assignments in the file's order.

Source: pkg/kubelet/cm/memorymanager/policy_static.go (validateState, areMachineStatesEqual).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.memory.state import Block, MachineState, MemoryState, MemoryTable, NUMANodeState, charge
from numaudit.containermanager.versions import LATEST, KubernetesVersion

GROUP_SUMS_SINCE: KubernetesVersion = (1, 32)
"""From here on free and reserved bytes need to be equal only as sums over a group of nodes."""

DIFFERENT = "[memorymanager] the expected machine state is different from the real one"
NO_MACHINE_STATE = "[memorymanager] machine state can not be empty when it has memory assignments"


class Difference(Struct, frozen=True):
    """One thing that the file says and the replay does not."""

    field: str
    """In the file's words: nodes, node, numberOfAssignments, cells, resource, total, systemReserved,
    allocatable, reserved, free."""
    node: int | None
    resource: str | None
    in_file: object
    expected: object

    def __str__(self) -> str:
        place = "" if self.node is None else f"node {self.node}: "
        what = f"{self.resource or ''} {self.field}".strip()
        return f"{place}{what} is {_shown(self.in_file)} in the file, {_shown(self.expected)} by replay"


class Refusal(Struct, frozen=True):
    """The kubelet would not start: its own words, and what it stumbled over."""

    message: str
    difference: Difference | None = None


class MissingTarget(Exception):
    """An assignment names a node or a resource that the machine does not have. The text is the kubelet's."""


def check_start(
    state: MemoryState, default: MachineState, *, version: KubernetesVersion = LATEST, pod_level: bool = False
) -> Refusal | None:
    """Would a kubelet with policy Static start with this state? None = yes.

    `default` is the memory map of the machine without pods (`default_machine_state`), `pod_level`
    the gate PodLevelResourceManagers.
    """
    if not state.machine:
        return Refusal(NO_MACHINE_STATE) if state.entries else None
    try:
        expected = replay(default, state, pod_level=pod_level)
    except MissingTarget as missing:
        return Refusal(str(missing))
    difference = next(differences(state.machine, expected, version=version), None)
    return None if difference is None else Refusal(DIFFERENT, difference)


def replay(default: MachineState, state: MemoryState, *, pod_level: bool = False) -> MachineState:
    """The machine state that the assignments lead to, starting from `default`. Raises MissingTarget."""
    machine = default
    for uid, name, block in _assignments(state, pod_level):
        where = f"[memorymanager] (pod: {uid}, container: {name}) the memory assignment uses"
        for node in block.numa_affinity or ():
            if node not in machine:
                raise MissingTarget(f"{where} the NUMA that does not exist")
            if block.type not in machine[node].memory_map:
                raise MissingTarget(f"{where} memory resource that does not exist")
        machine = charge(machine, block.numa_affinity or (), block.type, block.size)
    return machine


def without_assignments(machine: MachineState) -> MachineState:
    """The memory map this machine state must have started from: nothing reserved, no groups.

    With it the entries of a file can be checked against the file's own machine state, without the machine.
    """
    return {
        id_: NUMANodeState(
            number_of_assignments=0,
            memory_map={
                resource: replace(table, reserved=0, free=table.allocatable)
                for resource, table in node.memory_map.items()
            },
            cells=(id_,),
        )
        for id_, node in machine.items()
    }


def differences(
    in_file: MachineState, expected: MachineState, *, version: KubernetesVersion = LATEST
) -> Iterator[Difference]:
    """Differences between the machine state of a file and the expected one, the kubelet's first objection first."""
    if len(in_file) != len(expected):
        yield Difference("nodes", None, None, tuple(in_file), tuple(expected))
    for id_, node in sorted(in_file.items()):
        if id_ not in expected:
            yield Difference("node", id_, None, _presence(node), _presence(None))
            continue
        yield from _node_differences(id_, node, expected[id_])
        yield from _amount_differences(id_, in_file, expected, version)
    for id_ in sorted(expected.keys() - in_file.keys()):
        yield Difference("node", id_, None, _presence(None), _presence(expected[id_]))


def _assignments(state: MemoryState, pod_level: bool) -> Iterator[tuple[str, str, Block]]:
    """(pod UID, container name, block). A pod with pod-level blocks counts once: its containers repeat them."""
    for uid, containers in state.entries.items():
        of_pod = state.pod_entries.get(uid) if pod_level else None
        if of_pod is not None:
            yield from ((uid, "", block) for block in of_pod)
            continue
        for name, blocks in containers.items():
            yield from ((uid, name, block) for block in blocks)


def _node_differences(id_: int, node: NUMANodeState, expected: NUMANodeState) -> Iterator[Difference]:
    if node.number_of_assignments != expected.number_of_assignments:
        yield Difference("numberOfAssignments", id_, None, node.number_of_assignments, expected.number_of_assignments)
    if sorted(node.cells or ()) != sorted(expected.cells or ()):
        yield Difference("cells", id_, None, node.cells, expected.cells)
    for resource in sorted(node.memory_map.keys() | expected.memory_map.keys()):
        table, wanted = node.memory_map.get(resource), expected.memory_map.get(resource)
        if table is None or wanted is None:
            yield Difference("resource", id_, resource, _presence(table), _presence(wanted))
            continue
        if table.total != wanted.total:
            yield Difference("total", id_, resource, table.total, wanted.total)
        if table.system_reserved != wanted.system_reserved:
            yield Difference("systemReserved", id_, resource, table.system_reserved, wanted.system_reserved)
        if table.allocatable != wanted.allocatable:
            yield Difference("allocatable", id_, resource, table.allocatable, wanted.allocatable)


def _amount_differences(
    id_: int, in_file: MachineState, expected: MachineState, version: KubernetesVersion
) -> Iterator[Difference]:
    """Free and reserved bytes: of the node, or of its whole group."""
    group = (in_file[id_].cells or (id_,)) if version >= GROUP_SUMS_SINCE else (id_,)
    for resource in sorted(in_file[id_].memory_map.keys() & expected[id_].memory_map.keys()):
        have, wanted = _sums(in_file, group, resource), _sums(expected, group, resource)
        if have[0] != wanted[0]:
            yield Difference("reserved", id_, resource, have[0], wanted[0])
        if have[1] != wanted[1]:
            yield Difference("free", id_, resource, have[1], wanted[1])


def _sums(machine: MachineState, group: tuple[int, ...], resource: str) -> tuple[int, int]:
    tables: list[MemoryTable] = [
        table for node in group if node in machine and (table := machine[node].memory_map.get(resource)) is not None
    ]
    return sum(table.reserved for table in tables), sum(table.free for table in tables)


def _presence(value: object | None) -> str:
    return "absent" if value is None else "present"


def _shown(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
