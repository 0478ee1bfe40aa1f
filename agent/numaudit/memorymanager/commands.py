"""The static managers on a host without a kubelet: a command takes the place of a pod with one container.

What commands hold is kept in the kubelet's own formats. A pod's UID is then whatever names the holder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.memory.replay import MissingTarget, replay
from numaudit.containermanager.memory.reserved import read_reserved_memory, total_reserved
from numaudit.containermanager.memory.state import MemoryState, default_machine_state, hugepages_name
from numaudit.containermanager.memory.static_policy import MemoryPolicy
from numaudit.containermanager.plain import given, read_mapping
from numaudit.containermanager.pod.spec import CPU, MEMORY, Container, Pod, Resources
from numaudit.errors import InputError, nearest
from numaudit.memorymanager.admission import Admission, NodeState, admit
from numaudit.memorymanager.kubelet import Kubelet, read_kubelet
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.topology.quantity import Quantity

FIELDS = (
    "reservedMemory",
    "reservedSystemCPUs",
    "topologyManagerPolicy",
    "topologyManagerPolicyOptions",
    "cpuManagerPolicyOptions",
)
"""Known fields of the configuration: fields of a KubeletConfiguration, with the same meaning."""
_NAMES = ", ".join(FIELDS)
_SHARED = "1m"
"""The CPU request of a command that asks for no CPUs of its own: more than none makes a pod Guaranteed."""
_KEPT_SHARE = 20
"""One part in so many of each node's memory is kept for the system, where a configuration says nothing."""
_MIB = 1 << 20


class CommandRequest(Struct, frozen=True):
    """Memory and CPUs that a command asks for."""

    memory: int
    """Bytes."""
    cpus: int = 0
    """CPUs for it alone; 0 = none."""
    huge_pages: Mapping[int, int] = field(default_factory=dict)
    """Page size -> bytes."""


def read_configuration(configuration: object, machine: Machine) -> Kubelet:
    """The managers of a host, by a configuration that was read already (see FIELDS).

    Without `reservedMemory` a twentieth of each node's memory is kept for the system, without `reservedSystemCPUs` the
    first CPU; without `topologyManagerPolicy` it is `restricted`. Raises InputError as `read_kubelet` does, and for a
    field that it does not have.
    """
    fields = read_mapping({} if configuration is None else configuration, "configuration")
    for name in fields:
        if name not in FIELDS:
            raise InputError(f"unknown field {name!r}{nearest(name, FIELDS, f'; there are {_NAMES}')}")
    reserved = given(fields, "reservedMemory", None)
    if reserved is None:
        reserved = [{"numaNode": one.id, "limits": {MEMORY: kept}} for one in machine.nodes if (kept := _kept(one))]
    first = next((str(one.id) for one in machine.cpus), "")
    document = {
        "topologyManagerPolicy": "restricted",
        "reservedSystemCPUs": first,
        **{name: value for name, value in fields.items() if value is not None},
        "reservedMemory": reserved,
        "memoryManagerPolicy": "Static",
        "cpuManagerPolicy": "static",
        # The kubelet compares the sums of reservedMemory with these, which a host without one has no use for.
        "systemReserved": {
            name: str(quantity) for name, quantity in total_reserved(read_reserved_memory(reserved)).items()
        },
        "evictionHard": {},
    }
    return read_kubelet(document, machine)[0]


def command_pod(holder: str, name: str, wanted: CommandRequest) -> Pod:
    """The Guaranteed pod that stands for a command."""
    limits = {
        CPU: Quantity.of(wanted.cpus) if wanted.cpus else Quantity.parse(_SHARED),
        MEMORY: Quantity.of(wanted.memory),
        **{hugepages_name(size): Quantity.of(amount) for size, amount in wanted.huge_pages.items()},
    }
    return Pod(name, "", holder, (Container(name, Resources(limits, limits)),))


def check_wanted(wanted: CommandRequest, machine: Machine) -> None:
    """Raises InputError for huge pages of a size that no node has, or of an amount that is no number of pages."""
    sizes = {pages.page_size for node in machine.nodes for pages in node.huge_pages}
    for size, amount in wanted.huge_pages.items():
        name = hugepages_name(size)
        if size not in sizes:
            known = ", ".join(hugepages_name(one) for one in sorted(sizes)) or "none"
            raise InputError(f"{name}: this machine has no huge pages of that size; it has {known}")
        if amount % size:
            raise InputError(f"{name}: {Quantity.of(amount)} is not a whole number of pages")


def held_by(kubelet: Kubelet, memory: MemoryState, cpu: CPUState, is_alive: Callable[[str], bool]) -> NodeState:
    """State with the memory and CPUs of the living holders, charged to the machine as it is now. All else is released.

    So the memory map is right whatever the state said of it: after a holder died, a reboot, another configuration, or
    a crash between the two files. Raises InputError where a holder has memory on a node that is gone.
    """
    alive = {uid for uid in {*memory.entries, *cpu.entries} if is_alive(uid)}
    entries = {uid: held for uid, held in memory.entries.items() if uid in alive}
    default = default_machine_state(kubelet.machine, kubelet.reserved_memory or {})
    try:
        machine = replay(default, MemoryState({}, entries))
    except MissingTarget as missing:
        raise InputError(
            f"the state does not fit this machine: {missing}; end the commands that hold memory, then try again"
        ) from None
    own = {uid: held for uid, held in cpu.entries.items() if uid in alive}
    shared = CpuSet.from_ids(one.id for one in kubelet.machine.cpus)
    for held in own.values():
        for cpus in held.values():
            shared -= cpus
    return NodeState(MemoryPolicy(MemoryState(machine, entries)), CPUState(shared, own))


def place(kubelet: Kubelet, state: NodeState, pod: Pod) -> Admission:
    """Decide on a command. `state` is what `held_by` gives: nothing in it is stale."""
    return admit(kubelet, state, pod, sources_ready=False)


def checkpoints_of(state: NodeState) -> tuple[MemoryCheckpoint, CpuCheckpoint]:
    """The state as its two files."""
    assert state.cpu is not None
    return MemoryCheckpoint.of("Static", state.memory.state), CpuCheckpoint.of("static", state.cpu)


def why_refused(admission: Admission) -> str:
    """Reason why a command is refused, with every set of nodes that was considered. Only for one that was."""
    rejection = admission.rejection
    assert rejection is not None
    asked = admission.pod.containers[0].resources.limits
    amounts = ", ".join(
        f"{name} {quantity}" for name, quantity in asked.items() if name != CPU or str(quantity) != _SHARED
    )
    parts = [f"{rejection.outcome}: {rejection.message}", f"asked for {amounts}"]
    if rejection.detail is not None:
        parts.append(rejection.detail)
    if rejection.outcome is AdmissionOutcome.REJECTED_AFFINITY:
        parts.append("`topologyManagerPolicy: best-effort` admits commands on nodes that are not the preferred ones")
    judged = [one for decision in admission.decisions for one in decision.candidates]
    if judged:
        parts.append("; ".join(f"{one.mask.in_words}: {one.verdict}" for one in judged))
    return "\n".join(parts)


def _kept(node: Node) -> str:
    """Of what is not in huge pages, in whole MiB."""
    plain = (node.memory or 0) - sum(one.total * one.page_size for one in node.huge_pages)
    kept = plain // _KEPT_SHARE // _MIB
    return f"{kept}Mi" if kept > 0 else ""
