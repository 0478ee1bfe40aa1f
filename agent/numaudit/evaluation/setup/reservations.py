"""Rules about what the kubelet reserves on which node, and about settings that it refuses at its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numaudit.containermanager.memory.state import ReservedTooMuch
from numaudit.containermanager.topologymanager.policy import DEFAULT_MAX_NODES
from numaudit.errors import InputError
from numaudit.evaluation.headroom import UNCOVERED_BYTES, is_uncovered, unpromised_by_node, unpromised_holders
from numaudit.evaluation.setup.rule import CannotJudge, Fault, Need, SetupEvidence, SetupRule
from numaudit.memorymanager.kubelet import names_its_amounts
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import in_units, some_of

RESERVED_UNCOVERED = "reserved-uncovered"
_ALL: tuple[Need, ...] = ("kubelet", "nodes")
_STATE_FILES = (
    "Drain the node, stop the kubelet, delete memory_manager_state and cpu_manager_state below /var/lib/kubelet, "
    "start the kubelet."
)
_MANAGERS = "https://kubernetes.io/docs/tasks/administer-cluster"


def _reserved_uncovered(evidence: SetupEvidence) -> Iterator[Fault]:
    reserved = evidence.reserved if evidence.residency else {}
    sizes = {node.id: node.memory or 0 for node in evidence.machine.nodes}
    for id_, one in unpromised_by_node(evidence.snapshot).items():
        if not is_uncovered(one, sizes.get(id_, 0)):
            continue
        users = [f"{name} {in_units(size)}" for name, size in unpromised_holders(evidence.snapshot, id_)]
        yield Fault(
            f"node {id_}: memory without a promise uses at least {in_units(one.held)}, and "
            f"{f'{in_units(reserved[id_])} are' if reserved[id_] else 'nothing is'} reserved there ({some_of(users)})",
            NodeSet.of(id_),
            "error" if one.in_reserved else None,
        )


def kept_by_kernel(evidence: SetupEvidence, node: int) -> int:
    """Bytes of a node that the kernel gives to no allocation for a process: each zone's min watermark, and in the lower
    zones what is protected from allocations that the highest zone could serve.

    A process that fills a node is killed when as much is free, to a few percent: the kernel itself takes some of it.
    Source: mm/page_alloc.c (__zone_watermark_ok, setup_per_zone_lowmem_reserve). Raises CannotJudge.
    """
    zones = evidence.known(evidence.settings.zones, "zones").get(node, ())
    if not zones:
        raise CannotJudge(f"/proc/zoneinfo shows no zone of node {node}")
    pages = sum(min(zone.managed, zone.min + max(zone.protection, default=0)) for zone in zones)
    return pages * evidence.machine.page_size


def _reserved_below_kernel(evidence: SetupEvidence) -> Iterator[Fault]:
    """A little less is no matter: MemTotal itself differs by some MiB from boot to boot."""
    for id_, reserved in evidence.reserved.items():
        if id_ not in evidence.machine.with_memory:
            continue
        kept = kept_by_kernel(evidence, id_)
        if kept - reserved > UNCOVERED_BYTES:
            shown = f"{in_units(reserved)} are" if reserved else "nothing is"
            yield Fault(
                f"node {id_}: {shown} reserved, and the kernel alone keeps {in_units(kept)} free", NodeSet.of(id_)
            )


def _reserved_exceeds_node(evidence: SetupEvidence) -> Iterator[Fault]:
    for id_, node in (evidence.intent.machine or {}).items():
        for resource, table in node.memory_map.items():
            if table.allocatable > table.total or table.free > table.total:
                yield Fault(
                    f"memory_manager_state: node {id_} offers {max(table.allocatable, table.free)} bytes of {resource} "
                    f"and has {table.total}",
                    NodeSet.of(id_),
                )
    if isinstance(evidence.start_problem, ReservedTooMuch):
        yield Fault(str(evidence.start_problem))


def _refused(evidence: SetupEvidence, is_about: Callable[[str], bool]) -> InputError | None:
    """Why a kubelet does not start, if the field is one of these. It looks for nothing more after the first.

    Raises CannotJudge where that is another one.
    """
    problem = evidence.start_problem
    if problem is None or isinstance(problem, ReservedTooMuch):  # which comes last
        return None
    if not is_about(problem.field):
        raise CannotJudge("the kubelet refuses another setting before it comes to this one")
    return problem


def _reserved_sum(evidence: SetupEvidence) -> Iterator[Fault]:
    problem = _refused(evidence, lambda field: field == "reservedMemory")
    if problem is None:
        return
    if not evidence.is_in_force and not names_its_amounts(evidence.document):
        raise CannotJudge("reservations may be set by flags of the kubelet that are not known")
    yield Fault(str(problem))


def _max_numa_nodes(evidence: SetupEvidence) -> Iterator[Fault]:
    problem = _refused(evidence, lambda field: field.startswith("topologyManager"))
    if problem is not None and len(evidence.machine.nodes) > DEFAULT_MAX_NODES:
        yield Fault(str(problem), remedy=_REMEDY_OF_NODES)
    elif problem is not None:
        yield _of_settings(evidence, str(problem))


_REMEDY_OF_NODES = (
    'Set topologyManagerPolicyOptions: {max-allowable-numa-nodes: "N"}, or make fewer nodes in the firmware (NPS, L3 '
    "as NUMA, SNC)."
)


def _kubelet_refuses(evidence: SetupEvidence) -> Iterator[Fault]:
    problem = _refused(evidence, lambda field: not field.startswith(("reservedMemory", "topologyManager")))
    if problem is not None:
        yield _of_settings(evidence, f"{problem.field}: {problem}" if problem.field else str(problem))


def _of_settings(evidence: SetupEvidence, message: str) -> Fault:
    """A kubelet that runs has accepted its settings: its distributor may have changed it."""
    if not evidence.is_in_force:
        return Fault(message)
    return Fault(f"{message}; this kubelet runs with it, and upstream's would not start", severity="warning")


def _reserved_cpus_node(evidence: SetupEvidence) -> Iterator[Fault]:
    cpus = evidence.reserved_cpus
    if not cpus:
        return
    nodes = evidence.machine.nodes_of_cpus(cpus)
    if not nodes:
        raise CannotJudge("the nodes of reservedSystemCPUs are not known")
    with_memory = NodeSet.from_ids(id_ for id_, size in evidence.reserved.items() if size)
    if with_memory and nodes.isdisjoint(with_memory):
        yield Fault(
            f"reservedSystemCPUs {cpus} are on {nodes.in_words}, and reservedMemory is on {with_memory.in_words}",
            nodes | with_memory,
        )


RULES = (
    SetupRule(
        RESERVED_UNCOVERED,
        "kubelet",
        "warning",
        "The memory map offers memory that is in use, so a container with a promise runs out of memory on its nodes "
        "while others have some.",
        "Reserve on each node what it uses: split reservedMemory by these figures, with systemReserved or kubeReserved "
        "of the same sum; or keep the system on node 0: "
        "`systemctl set-property system.slice AllowedMemoryNodes=0`",
        f"{_MANAGERS}/memory-manager/",
        _reserved_uncovered,
        _ALL,
    ),
    SetupRule(
        "reserved-below-kernel",
        "kubelet",
        "warning",
        "The kernel keeps some pages of each zone free, and the memory map promises them.",
        "Raise reservedMemory of this node, and systemReserved or kubeReserved by as much.",
        "https://docs.kernel.org/admin-guide/sysctl/vm.html#lowmem-reserve-ratio",
        _reserved_below_kernel,
        ("kubelet",),
    ),
    SetupRule(
        "reserved-exceeds-node",
        "kubelet",
        "error",
        "The kubelet subtracts without a check: the node then offers about 2^64 bytes, and every pod seems to fit it.",
        f"Reserve less on this node, or make fewer huge pages there. {_STATE_FILES}",
        f"{_MANAGERS}/memory-manager/#reserved-memory-flag",
        _reserved_exceeds_node,
        ("kubelet",),
    ),
    SetupRule(
        "reserved-sum",
        "kubelet",
        "error",
        "The kubelet does not start with these reservations.",
        "Make the sum of reservedMemory, for each type, equal to kubeReserved + systemReserved + the memory.available "
        "of evictionHard (100Mi by default).",
        f"{_MANAGERS}/memory-manager/#reserved-memory-flag",
        _reserved_sum,
        ("kubelet",),
    ),
    SetupRule(
        "max-numa-nodes",
        "kubelet",
        "error",
        "The kubelet does not start with this setting of the Topology Manager.",
        "Mend the setting that the message names.",
        f"{_MANAGERS}/topology-manager/#policy-option-max-allowable-numa-nodes",
        _max_numa_nodes,
        ("kubelet",),
    ),
    SetupRule(
        "kubelet-refuses",
        "kubelet",
        "error",
        "The kubelet does not start with this configuration.",
        "Mend the setting that the message names before the kubelet restarts.",
        f"{_MANAGERS}/kubelet-config-file/",
        _kubelet_refuses,
        ("kubelet",),
    ),
    SetupRule(
        "reserved-cpus-node",
        "kubelet",
        "warning",
        "Daemons get memory where they run, so the system uses memory of nodes that reserve none for it.",
        "Give reservedSystemCPUs and reservedMemory the same nodes.",
        f"{_MANAGERS}/reserve-compute-resources/",
        _reserved_cpus_node,
        _ALL,
    ),
)
