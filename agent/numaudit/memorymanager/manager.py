"""A node's life with its kubelet: pods are admitted, started and removed, the kubelet restarts.

All functions are pure: they take a node's state and return a new one. `admission` has those of
a kubelet that runs.

Source: pkg/kubelet/cm/container_manager_linux.go, pkg/kubelet/cm/internal_container_lifecycle_linux.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.cpu import allocation as cpu_allocation
from numaudit.containermanager.cpu import start as cpu_start
from numaudit.containermanager.cpu.topology import CPUState
from numaudit.containermanager.device.hints import DeviceState
from numaudit.containermanager.memory import static_policy
from numaudit.containermanager.memory.replay import check_start
from numaudit.containermanager.memory.state import MachineState, MemoryState, default_machine_state
from numaudit.containermanager.memory.static_policy import MemoryPolicy
from numaudit.containermanager.pod.spec import Pod, is_ordinary_init
from numaudit.errors import InputError, NumauditError
from numaudit.memorymanager.admission import Admission, NodeState, admit
from numaudit.memorymanager.kubelet import Kubelet


class StartRefused(NumauditError):
    """The kubelet would not start with this state; the text is its own."""

    def __init__(self, text: str, problem: str | None = None) -> None:
        super().__init__(text)
        self.problem = problem
        """The reason why it may start nevertheless; None = it certainly does not."""


class Pins(Struct, frozen=True):
    """CPUs and nodes that the container runtime gets when it creates a container; empty = not pinned."""

    cpuset_cpus: str
    cpuset_mems: str


def fresh_state(kubelet: Kubelet, devices: DeviceState | None = None) -> NodeState:
    """A node without pods, whose kubelet starts for the first time."""
    cpu = None if kubelet.cpu is None else cpu_start.start(kubelet.cpu)
    return NodeState(_fresh_memory(kubelet), cpu, devices or DeviceState())


def start(kubelet: Kubelet, state: NodeState, pod_uid: str, container: str) -> tuple[NodeState, Pins]:
    """Start a container of an active pod: what it is pinned to, and the state afterwards.

    Ordinary init containers before it have ended, so their memory is released. Raises InputError for
    a pod that is not active or has no such container.
    """
    pod = state.pods.get(pod_uid)
    if pod is None:
        raise InputError(f"no active pod has the UID {pod_uid!r}; admit the pod before one of its containers starts")
    pod.container(container)
    cpus = "" if state.cpu is None else str(cpu_allocation.cpus_of(state.cpu, pod_uid, container))
    nodes = static_policy.memory_nodes(state.memory.state, pod_uid, container)
    memory = static_policy.add_container(state.memory, pod, container, kubelet.features)
    return replace(state, memory=memory), Pins(cpus, static_policy.cpuset_mems(nodes))


def restart(
    kubelet: Kubelet,
    state: NodeState,
    pods: Iterable[Pod] | None = None,
    *,
    running: Mapping[str, Collection[str]] | None = None,
) -> tuple[NodeState, tuple[Admission, ...]]:
    """Restart the kubelet with the files it wrote, and have it admit its pods again.

    `pods` are those the kubelet finds, in the order in which it finds them (the active ones if not
    given). `running` are the containers that run meanwhile, by pod UID: all but the ordinary init
    containers of the active pods if not given, none after a reboot. `kubelet` may have another machine
    or configuration than before. Raises StartRefused where the kubelet would exit.
    """
    if running is None:
        running = {uid: _running(pod, kubelet) for uid, pod in state.pods.items()}
    again = tuple(state.pods.values() if pods is None else pods)
    memory = _restarted_memory(kubelet, state.memory.state)
    state = NodeState(memory, _restarted_cpu(kubelet, state.cpu), replace(state.devices, reusable={}))
    admissions: list[Admission] = []
    for pod in again:
        admissions.append(admit(kubelet, state, pod, sources_ready=False, running=running.get(pod.uid, ())))
        state = admissions[-1].state
    return state, tuple(admissions)


def has_moved(before: NodeState, after: NodeState, uid: str) -> bool:
    """Has a container of a pod that was admitted again other nodes, CPUs or devices than those that it had?

    What it did not have before it gets for the first time, and does not move.
    """
    had, has = _held(before, uid), _held(after, uid)
    return any(has.get(part) != held for part, held in had.items())


def _held(state: NodeState, uid: str) -> dict[tuple[str, str], object]:
    """Memory, CPUs and devices of a pod's containers, by container and kind."""
    held: dict[tuple[str, str], object] = {}
    for name, blocks in state.memory.state.entries.get(uid, {}).items():
        held[name, "memory"] = {block.numa_affinity for block in blocks}
    for name, cpus in ({} if state.cpu is None else state.cpu.entries.get(uid, {})).items():
        held[name, "cpu"] = cpus
    for name, devices in state.devices.entries.get(uid, {}).items():
        held[name, "devices"] = dict(devices)
    return held


def start_refusal(kubelet: Kubelet, state: NodeState) -> str | None:
    """Reason why the kubelet would not start again with its CPU Manager's file, in its words; None = it would.

    One that gives reserved CPUs away does so: it counts them by number (kubernetes#124066, #140495).
    """
    try:
        _restarted_cpu(kubelet, state.cpu)
    except StartRefused as refused:
        return str(refused)
    return None


def _running(pod: Pod, kubelet: Kubelet) -> list[str]:
    names = [one.name for one in pod.all_containers]
    return [name for name in names if not is_ordinary_init(pod, name, kubelet.features)]


def _fresh_memory(kubelet: Kubelet) -> MemoryPolicy:
    return MemoryPolicy(MemoryState({} if kubelet.memory_policy == "None" else _default_machine_state(kubelet)))


def _restarted_memory(kubelet: Kubelet, stored: MemoryState) -> MemoryPolicy:
    if kubelet.memory_policy == "None" or not (stored.machine or stored.entries):
        return _fresh_memory(kubelet)
    refusal = check_start(
        stored,
        _default_machine_state(kubelet),
        version=kubelet.features.version,
        pod_level=kubelet.features.pod_level_resource_managers,
    )
    if refusal is not None:
        raise StartRefused(refusal.message)
    return MemoryPolicy(stored)


def _restarted_cpu(kubelet: Kubelet, stored: CPUState | None) -> CPUState | None:
    if kubelet.cpu is None:
        return None
    try:
        return cpu_start.start(kubelet.cpu, stored)
    except InputError as error:
        raise StartRefused(str(error)) from None


def _default_machine_state(kubelet: Kubelet) -> MachineState:
    return default_machine_state(kubelet.machine, kubelet.reserved_memory or {})
