"""A played scenario as a document; state files and memory maps keep the words of the kubelet's checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numaudit.checkpoints.formats.memory import written_machine
from numaudit.containermanager.device.hints import DeviceState
from numaudit.containermanager.memory.state import Block
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.encoding.value import Value
from numaudit.memorymanager.admission import Admission
from numaudit.memorymanager.manager import Pins
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.scenario import files
from numaudit.scenario.admitting_changes import AdmittingChange
from numaudit.scenario.explanation import Account, accounts_of
from numaudit.scenario.simulation import AdmissionOrders, Played, ScenarioRun
from numaudit.scenario.values import Admit, Remove, Start
from numaudit.topology.nodeset import NodeSet

MOST_EXPLAINED = 20
"""Pods of one scenario that are refused or not aligned: for each, up to 80 admissions are tried."""
_OUTCOMES = list(AdmissionOutcome)


class DeviceChoice(Value, frozen=True):
    """Devices that serve alike: the kubelet takes any of them."""

    count: int
    """Number that it takes."""
    among: list[str]
    """Their ids."""


class ContainerPlace(Value, frozen=True):
    """Memory, CPUs and devices of one container."""

    hint: TopologyHint | None
    """The hint that the Topology Manager stored; null where the container only started."""
    outcome: str | None
    """Outcome of its hints; null where the container only started."""
    blocks: list[dict[str, Any]]
    """As in `memory_manager_state`: numaAffinity, type, size in bytes."""
    cpuset_mems: NodeSet
    """Empty = not pinned."""
    cpus: str | None
    """Its exclusive CPUs; null = it runs on the shared pool. Of a container that started: all it may run on."""
    devices: dict[str, list[str]]
    """Resource -> ids of the devices that it certainly has."""
    device_choices: dict[str, DeviceChoice]
    """Resource -> devices of which it has some, besides."""


class RestartedPod(Value, frozen=True):
    """One pod's fate after a restart of the kubelet."""

    pod: str
    """namespace/pod."""
    fate: str
    """kept, elsewhere, refused, evicted or unknown."""
    admitted: bool | None
    """Is it admitted again? null = that is not known."""
    reason: str | None
    message: str | None
    """The kubelet's message for a refusal, or why its fate is not known."""
    outcome: str | None
    containers: dict[str, ContainerPlace]
    sentence: str | None
    """The reason why it was refused, or is on nodes that are not preferred."""
    admitting_changes: tuple[AdmittingChange, ...]


class SimulatedStep(Value, frozen=True):
    """One step and the memory map after it."""

    step: int
    """From 1 on."""
    action: str
    """admit, start, remove or restart."""
    pod: str | None
    """namespace/pod; null = of a restart."""
    container: str | None
    """Name of the container that starts or is removed; null = the whole pod."""
    admitted: bool | None
    """Of a restart: did the kubelet start, and admit all its pods again? null = nothing was to be admitted, or that is
    not known."""
    reason: str | None
    message: str | None
    """The kubelet's words, or why it is not known what it does."""
    outcome: str | None
    """Of the pod: the first in the order of outcomes that one of its containers has."""
    detail: str | None
    """An explanation that the kubelet does not give."""
    note: str | None
    """Note on a side effect; null = nothing."""
    sentence: str | None
    """The reason why the pod was refused, or is on nodes that are not preferred; of the first 20 such pods of a
    scenario."""
    admitting_changes: tuple[AdmittingChange, ...]
    containers: dict[str, ContainerPlace]
    pods: list[RestartedPod]
    """Of a restart."""
    machine_state: dict[str, Any]
    """As in `memory_manager_state`."""


class ScenarioState(Value, frozen=True):
    """The kubelet's three state files, checksums included, as a scenario's `state` takes them."""

    memory: dict[str, Any]
    """memory_manager_state."""
    cpu: dict[str, Any]
    """cpu_manager_state."""
    devices: dict[str, Any]
    """kubelet_internal_checkpoint."""


class Simulation(Value, frozen=True):
    """A scenario that was played to its end."""

    steps: list[SimulatedStep]
    """Every step."""
    state: ScenarioState
    """The state files at the end."""
    notices: list[str]
    orders: AdmissionOrders | None = None
    """With --orders."""


def simulation(played: ScenarioRun, orders: AdmissionOrders | None = None) -> Simulation:
    """All steps, and the state files at the end."""
    steps: list[SimulatedStep] = []
    left = MOST_EXPLAINED
    for number, one in enumerate(played.steps, 1):
        accounts = accounts_of(one) if left > 0 else ()
        left -= len(accounts)
        steps.append(_step(number, one, {each.pod.uid: each for each in accounts}))
    state = ScenarioState(**files.plain(played.kubelet, played.state))  # type: ignore[arg-type]
    return Simulation(steps, state, list(played.notices), orders)


def containers(admission: Admission) -> dict[str, ContainerPlace]:
    """The places of each container of an admission, by name."""
    return {
        one.container: ContainerPlace(
            one.hint,
            str(one.outcome),
            _blocks(one.memory),
            one.memory_nodes or NodeSet(),
            None if one.cpus is None else str(one.cpus),
            *_devices(admission.state.devices, admission.pod.uid, one.container),
        )
        for one in admission.placements
    }


def outcome(admission: Admission) -> str:
    """Of the whole pod: why it was refused, else the first in the order of outcomes that a container has."""
    if admission.rejection is not None:
        return str(admission.rejection.outcome)
    found = [one.outcome for one in admission.placements]
    return str(min(found, key=_OUTCOMES.index, default=AdmissionOutcome.NOT_MANAGED))


def _step(number: int, one: Played, accounts: Mapping[str, Account]) -> SimulatedStep:
    admission, step = one.admission, one.step
    account = None if admission is None else accounts.get(admission.pod.uid)
    rejection = None if admission is None else admission.rejection
    if one.problem is not None:
        admission = rejection = None
    held = {} if admission is None else containers(admission)
    if one.pins is not None and isinstance(step, Start):
        held = {step.container: _started(one, step, one.pins)}
    return SimulatedStep(
        step=number,
        action=type(step).__name__.lower(),
        pod=step.pod.full_name if isinstance(step, Admit) else step.pod if isinstance(step, Start | Remove) else None,
        container=step.container if isinstance(step, Start | Remove) else None,
        admitted=one.admitted,
        reason="StartRefused" if one.refusal is not None else None if rejection is None else rejection.reason,
        message=one.problem or (one.refusal if rejection is None else rejection.message),
        outcome=None if admission is None else outcome(admission),
        detail=None if rejection is None else rejection.detail,
        note=_note(one),
        sentence=None if account is None else account.sentence,
        admitting_changes=() if account is None else account.admitting_changes,
        containers=held,
        pods=list(_restarted(one, accounts)),
        machine_state=written_machine(one.after.memory.state.machine) or {},
    )


def _note(one: Played) -> str | None:
    refusal = one.start_refusal
    broken = None if refusal is None else f"The kubelet will not start again: {refusal}."
    return " ".join(filter(None, [one.note, broken])) or None


def _started(one: Played, step: Start, pins: Pins) -> ContainerPlace:
    uid = next(pod.uid for pod in one.before.pods.values() if pod.full_name == step.pod)
    stored = one.before.hints.get(uid, {}).get(step.container)
    blocks = one.after.memory.state.entries.get(uid, {}).get(step.container, ())
    return ContainerPlace(
        stored,
        None,
        _blocks(blocks),
        NodeSet.parse(pins.cpuset_mems),
        pins.cpuset_cpus or None,
        *_devices(one.after.devices, uid, step.container),
    )


def _devices(state: DeviceState, uid: str, container: str) -> tuple[dict[str, list[str]], dict[str, DeviceChoice]]:
    found = state.decided(uid, container)
    return (
        {resource: sorted(ids) for resource, (ids, count, _) in found.items() if ids or not count},
        {resource: DeviceChoice(count, sorted(alike)) for resource, (_, count, alike) in found.items() if count},
    )


def _restarted(one: Played, accounts: Mapping[str, Account]) -> Iterator[RestartedPod]:
    for again in one.readmissions:
        admission = again.admission
        if again.admitted is None:
            yield RestartedPod(
                admission.pod.full_name, str(again.fate), None, None, admission.problem, None, {}, None, ()
            )
            continue
        account = accounts.get(admission.pod.uid)
        rejection = admission.rejection
        yield RestartedPod(
            admission.pod.full_name,
            str(again.fate),
            admission.admitted,
            None if rejection is None else rejection.reason,
            None if rejection is None else rejection.message,
            outcome(admission),
            containers(admission),
            None if account is None else account.sentence,
            () if account is None else account.admitting_changes,
        )


def _blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return [{"numaAffinity": list(one.numa_affinity or ()), "type": one.type, "size": one.size} for one in blocks]
