"""Memory that the kubelet keeps from pods on each node: `--reserved-memory`, `reservedMemory`.

Source: pkg/util/flag/flags.go, pkg/kubelet/apis/config/validation/validation_reserved_memory.go,
pkg/kubelet/cm/memorymanager/memory_manager.go. Error texts are the kubelet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from numaudit.containermanager.memory.state import SystemReserved
from numaudit.containermanager.plain import given, read_mapping, read_quantity, read_sequence, shown
from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX, MEMORY, is_memory
from numaudit.containermanager.versions import LATEST, KubernetesVersion
from numaudit.encoding.go_syntax import GoSyntaxError, atoi, quote
from numaudit.errors import InputError, ParseError
from numaudit.topology.machine import Machine
from numaudit.topology.quantity import ZERO, Quantities, Quantity


class MemoryReservation(Struct, frozen=True):
    """Reserved memory of one NUMA node, by resource."""

    numa_node: int
    limits: Quantities


def parse_reserved_memory(flags: Iterable[str]) -> tuple[MemoryReservation, ...]:
    """Read the values of `--reserved-memory`, such as `0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi`.

    The flag may be repeated; an empty value forgets those before it. Raises InputError.
    """
    reservations: list[MemoryReservation] = []
    for flag in flags:
        if not flag:
            reservations.clear()
            continue
        reservations.extend(_parse_part(part) for part in flag.split(";"))
    return tuple(reservations)


def read_reserved_memory(value: object) -> tuple[MemoryReservation, ...]:
    """Read `reservedMemory` of a KubeletConfiguration: a list of {numaNode, limits}.

    Raises InputError for another form; `validate_reserved_memory` checks the values.
    """
    reservations: list[MemoryReservation] = []
    for index, one in enumerate(read_sequence(value, "reservedMemory")):
        where = f"reservedMemory[{index}]"
        entry = read_mapping(one, where)
        unknown = entry.keys() - {"numaNode", "limits"}
        if unknown:
            raise InputError(f"{where}: unknown field {min(unknown)!r}; it has numaNode and limits")
        node = given(entry, "numaNode", 0)
        if isinstance(node, bool) or not isinstance(node, int):
            raise InputError(f"{where}.numaNode: must be a whole number, not {shown(node)}")
        limits = read_mapping(given(entry, "limits", {}), f"{where}.limits")
        reservations.append(
            MemoryReservation(node, {name: read_quantity(q, f"{where}.limits.{name}") for name, q in limits.items()})
        )
    return tuple(reservations)


def validate_reserved_memory(
    reservations: Sequence[MemoryReservation], *, version: KubernetesVersion = LATEST
) -> tuple[str, ...]:
    """All that the kubelet objects to in a configuration before it reads the machine; empty = nothing."""
    problems: list[str] = []
    seen: set[tuple[int, str]] = set()
    for one in reservations:
        for name, quantity in one.limits.items():
            if not is_memory(name):
                problems.append(
                    f"the limit type {quote(name)} for NUMA node {one.numa_node} is not supported, "
                    f"only [{MEMORY} {HUGEPAGES_PREFIX}<HugePageSize>] is accepted"
                )
            if quantity.nano == 0:
                problems.append(
                    f"reserved memory may not be zero for NUMA node {one.numa_node} and resource {quote(name)}"
                )
            if (one.numa_node, name) in seen:
                problems.append(
                    f"the reserved memory has a duplicate value for NUMA node {one.numa_node} "
                    f"and resource {quote(name)}"
                )
            seen.add((one.numa_node, name))
    prefix = "invalid configuration: " if version >= (1, 28) else ""
    return tuple(prefix + one for one in problems)


def system_reserved(
    machine: Machine, reservations: Sequence[MemoryReservation], node_allocatable_reservation: Quantities
) -> SystemReserved:
    """Memory that pods may not have, by node and resource, in bytes; every node of the machine has an entry.

    `node_allocatable_reservation` is what `topology.quantity.node_allocatable_reservation` gives. Of
    several reservations for one node and resource the last one counts, although their sum is checked.
    Raises InputError as the static policy does when it is created.
    """
    validate_against_node(machine, reservations, node_allocatable_reservation)
    reserved = convert_reserved(machine, reservations)
    if sum(limits.get(MEMORY, 0) for limits in reserved.values()) == 0:
        raise InputError("[memorymanager] you should specify the system reserved memory")
    return reserved


def total_reserved(reservations: Iterable[MemoryReservation]) -> dict[str, Quantity]:
    """The reservations of all nodes together, by resource."""
    sums: dict[str, Quantity] = {}
    for one in reservations:
        for name, quantity in one.limits.items():
            sums[name] = quantity + sums.get(name, ZERO)
    return sums


def validate_against_node(
    machine: Machine, reservations: Sequence[MemoryReservation], node_allocatable_reservation: Quantities
) -> None:
    """The first steps of `system_reserved`: do the nodes exist, and does each type add up (`validateReservedMemory`)?

    Where several types do not, the kubelet names any one of them; here it is the first. Raises InputError.
    """
    for one in reservations:
        if one.numa_node not in machine.by_id:
            raise InputError(
                f"the reserved memory configuration references a NUMA node {one.numa_node} "
                "that does not exist on this machine"
            )
    _check_sums(
        total_reserved(reservations), {name: q for name, q in node_allocatable_reservation.items() if is_memory(name)}
    )


def convert_reserved(machine: Machine, reservations: Sequence[MemoryReservation]) -> SystemReserved:
    """The next step of `system_reserved`: node -> resource -> bytes (`convertReserved`).

    Raises InputError for an amount that is no int64 to the kubelet, and for a negative one, which a
    kubelet would take for more than any machine has.
    """
    reserved: dict[int, dict[str, int]] = {node.id: {} for node in machine.nodes}
    for one in reservations:
        for name, quantity in one.limits.items():
            size = quantity.as_int64
            if size is None:
                raise InputError("could not covert a variable of type Quantity to int64")
            if size < 0:
                raise InputError(
                    f"the reserved memory for NUMA node {one.numa_node} and resource {quote(name)} is negative: "
                    f"{quantity}; a kubelet would take it for more than any machine has"
                )
            reserved.setdefault(one.numa_node, {})[name] = size
    return reserved


def _parse_part(part: str) -> MemoryReservation:
    fields = part.split(":")
    if len(fields) != 2:
        raise InputError(
            "the reserved memory has incorrect format, "
            f"expected numaNodeID:type=quantity[,type=quantity...], got {part}"
        )
    try:
        node = atoi(fields[0])
    except GoSyntaxError:
        raise InputError(f"failed to convert the NUMA node ID, expected integer, got {fields[0]}") from None
    limits: dict[str, Quantity] = {}
    for text in fields[1].split(","):
        limit = text.split("=")
        if len(limit) != 2:
            raise InputError(f"the reserved limit has incorrect value, expected type=quantity, got {text}")
        if not is_memory(limit[0]):
            raise InputError(f"memory type conversion error, unknown type: {quote(limit[0])}")
        try:
            limits[limit[0]] = Quantity.parse(limit[1])
        except ParseError:
            raise InputError(f"failed to parse the quantity: {limit[1]}") from None
    return MemoryReservation(node, limits)


def _check_sums(sums: Mapping[str, Quantity], expected: Mapping[str, Quantity]) -> None:
    """The reservations of all nodes must add up to what Node Allocatable keeps from pods."""
    for name in dict.fromkeys([*sums, *expected]):
        has, wanted = sums.get(name, ZERO), expected.get(name, ZERO)
        if has.nano != wanted.nano:
            raise InputError(
                f"the total amount {quote(str(has))} of type {quote(name)} is not equal to the value "
                f"{quote(str(wanted))} determined by Node Allocatable feature"
            )
