"""Rules about firmware and hypervisor: does what the kernel shows of the machine tell where memory is?"""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.evaluation.setup.rule import CannotJudge, Fault, SetupEvidence, SetupRule
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units

_UNEQUAL, _VERY_UNEQUAL = 1.1, 1.5
"""The largest node's memory divided by the smallest's."""
_LARGE_CPUS, _LARGE_BYTES = 32, 512 << 30
"""A guest larger than either of these may well span nodes of its host."""


def _sockets(evidence: SetupEvidence) -> frozenset[int]:
    """Of all online CPUs. Raises CannotJudge."""
    found = {cpu.socket for cpu in evidence.machine.cpus}
    if None in found or not found:
        raise CannotJudge("the kernel does not show the sockets of the CPUs")
    return frozenset(one for one in found if one is not None)


def _interleaved(evidence: SetupEvidence) -> Iterator[Fault]:
    """A kernel that was told to show one node is another rule's. With an SRAT table it may be a kernel without NUMA."""
    if evidence.known(evidence.settings.is_guest, "is_guest"):
        raise CannotJudge("this is a virtual machine, whose sockets mean nothing")
    count = len(_sockets(evidence))
    words = evidence.known(evidence.settings.command_line, "command_line")
    if (
        count > 1
        and len(evidence.machine.with_cpus) == 1
        and not any(word.startswith(("numa=", "acpi=")) for word in words)
    ):
        tables = evidence.settings.acpi_tables
        proven = tables is not None and "SRAT" not in tables
        yield Fault(
            f"{count} sockets, one NUMA node{' and no SRAT table' if proven else ''}",
            severity=None if proven else "warning",
        )


def _vm_flat(evidence: SetupEvidence) -> Iterator[Fault]:
    if not evidence.known(evidence.settings.is_guest, "is_guest"):
        return
    memory, cpus = sum(node.memory or 0 for node in evidence.machine.nodes), len(evidence.machine.cpus)
    if len(evidence.machine.nodes) == 1 and (cpus > _LARGE_CPUS or memory > _LARGE_BYTES):
        yield Fault(f"a virtual machine of {cpus} CPUs and {in_units(memory)} with one NUMA node")


def _far(evidence: SetupEvidence) -> dict[tuple[int, int], int]:
    """From and to each two nodes -> distance. Raises CannotJudge."""
    nodes = evidence.machine.nodes
    if not all(node.distances for node in nodes):
        raise CannotJudge("the kernel shows no distances that can be used")
    return {(node.id, to): value for node in nodes for to, value in node.distances.items() if to != node.id}


def _slit_flat(evidence: SetupEvidence) -> Iterator[Fault]:
    """Sockets may all be as far from each other, but the nodes of one socket are closer. A guest's are made up."""
    far, machine = set(_far(evidence).values()), evidence.machine
    if evidence.known(evidence.settings.is_guest, "is_guest"):
        raise CannotJudge("this is a virtual machine, whose sockets mean nothing")
    count, with_cpus = len(_sockets(evidence)), machine.with_cpus
    if 1 < count < len(with_cpus) and len(far) == 1:
        yield Fault(f"{len(with_cpus)} nodes on {count} sockets are all at distance {far.pop()} from each other")


def _slit_asymmetric(evidence: SetupEvidence) -> Iterator[Fault]:
    far = _far(evidence)
    for (one, other), value in sorted(far.items()):
        back = far.get((other, one))
        if one < other and back is not None and back != value:
            message = f"the distance from node {one} to node {other} is {value}, and the way back {back}"
            yield Fault(message, NodeSet.of(one, other))


def _node_no_memory(evidence: SetupEvidence) -> Iterator[Fault]:
    for id_, size in _sizes(evidence).items():
        if not size:
            yield Fault(f"node {id_} has CPUs {evidence.machine.by_id[id_].cpus} and no memory", NodeSet.of(id_))


def _sizes(evidence: SetupEvidence) -> dict[int, int]:
    """Bytes of memory of each node that has CPUs. Raises CannotJudge."""
    found = {}
    for node in evidence.machine.nodes:
        if node.cpus and node.memory is None:
            raise CannotJudge(f"the memory of node {node.id} is not known")
        if node.cpus:
            found[node.id] = node.memory or 0
    return found


def _nodes_unequal(evidence: SetupEvidence) -> Iterator[Fault]:
    sizes = {id_: size for id_, size in _sizes(evidence).items() if size}
    if len(sizes) < 2:
        return
    small, large = min(sizes, key=lambda id_: sizes[id_]), max(sizes, key=lambda id_: sizes[id_])
    ratio = sizes[large] / sizes[small]
    if ratio > _UNEQUAL:
        yield Fault(
            f"node {small} has {in_units(sizes[small])}, node {large} {in_units(sizes[large])}",
            NodeSet.of(small, large),
            "warning" if ratio > _VERY_UNEQUAL else None,
        )


def _cxl_ordinary(evidence: SetupEvidence) -> Iterator[Fault]:
    """Does the kubelet's map offer memory of another kind (CXL, HBM, a GPU's) as if it were ordinary?"""
    without_cpus = evidence.machine.with_memory - evidence.machine.with_cpus - evidence.machine.without_cpu_list
    if evidence.intent.machine is None:
        raise CannotJudge("the Memory Manager's map of the nodes is not known")
    for id_, node in evidence.intent.machine.items():
        table = node.memory_map.get("memory")
        if id_ in without_cpus and table is not None and table.allocatable:
            yield Fault(
                f"node {id_} has no CPUs, and {in_units(table.allocatable)} of it may be promised", NodeSet.of(id_)
            )


def _no_hmat(evidence: SetupEvidence) -> Iterator[Fault]:
    machine, tables = evidence.machine, evidence.known(evidence.settings.acpi_tables, "acpi_tables")
    without_cpus = machine.with_memory - machine.with_cpus - machine.without_cpu_list
    slow = [node.id for node in machine.nodes if node.id in without_cpus and node.speed is None]
    if slow and not tables & {"HMAT", "CDAT"}:
        nodes = NodeSet.from_ids(slow)
        yield Fault(
            f"the firmware gives no speed of {nodes.in_words}, which {'has' if len(slow) == 1 else 'have'} no CPUs",
            nodes,
        )


_DOCS = "https://docs.kernel.org"

RULES = (
    SetupRule(
        "interleaved",
        "firmware",
        "error",
        "The firmware most likely spreads memory evenly over the sockets: then at least half of all accesses are "
        "remote, and no promise can change it.",
        "In the firmware: Node Interleaving disabled (Dell, HPE), NPS1 or higher (AMD), SNC or NUMA enabled.",
        "https://www.dell.com/support/kbdoc/en-us/000176921/numa-node-interleaving",
        _interleaved,
    ),
    SetupRule(
        "node-no-memory",
        "firmware",
        "warning",
        "No memory can be promised next to these CPUs: pods there are refused, or get memory elsewhere.",
        "Put memory modules into the slots of this node, or set NPS1 in the firmware.",
        "https://github.com/harvester/harvester/issues/8182",
        _node_no_memory,
    ),
    SetupRule(
        "nodes-unequal",
        "firmware",
        "info",
        "A pod that fits only the larger node is refused when that is full.",
        "Spread the memory modules evenly, or keep requests below the smaller node.",
        "https://kubernetes.io/docs/tasks/administer-cluster/memory-manager/",
        _nodes_unequal,
        ("nodes",),
    ),
    SetupRule(
        "cxl-ordinary",
        "firmware",
        "warning",
        "The kubelet does not distinguish kinds of memory, so a container may be promised CXL memory, HBM or a GPU's.",
        "Reserve all of this node (reservedMemory of its MemTotal without huge pages), or take the memory away from "
        "the kernel with `daxctl reconfigure-device --mode=devdax`.",
        f"{_DOCS}/driver-api/cxl/index.html",
        _cxl_ordinary,
        ("kubelet",),
    ),
    SetupRule(
        "slit-flat",
        "firmware",
        "info",
        "Near and far nodes look alike, so neither the kernel nor prefer-closest-numa-nodes can choose the near ones.",
        "Update the firmware. The kernel also shows this where it found the firmware's SLIT table invalid (dmesg).",
        "https://uefi.org/specs/ACPI/6.5/05_ACPI_Software_Programming_Model.html",
        _slit_flat,
        ("nodes",),
    ),
    SetupRule(
        "slit-asymmetric",
        "firmware",
        "info",
        "Which nodes are close depends on the direction, which schedulers do not expect.",
        "Update the firmware, unless the machine is built so: some with CXL memory or Grace CPUs are.",
        "https://uefi.org/specs/ACPI/6.5/05_ACPI_Software_Programming_Model.html",
        _slit_asymmetric,
        ("nodes",),
    ),
    SetupRule(
        "no-hmat",
        "firmware",
        "info",
        "The kernel makes memory tiers without measured speeds, so memory may be demoted to the wrong node.",
        "Update the firmware.",
        f"{_DOCS}/admin-guide/mm/numaperf.html",
        _no_hmat,
        ("nodes",),
    ),
    SetupRule(
        "vm-flat",
        "firmware",
        "info",
        "The guest may span nodes of its host without seeing it.",
        "Have the host give it NUMA nodes: <numatune> and <cell> of libvirt; on VMware turn CPU Hot Add off, which "
        "hides vNUMA.",
        "https://libvirt.org/formatdomain.html#numa-node-tuning",
        _vm_flat,
    ),
)
