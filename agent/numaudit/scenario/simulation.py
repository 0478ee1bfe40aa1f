"""Playing a scenario: its steps on the library's own manager; and the orders in which all its pods are admitted.

The CPU Manager's pass, every 10 seconds, has run between any two steps. Memory of a pod that ended stays in the map
until the next admission, as in a kubelet. In a scenario that starts no container at all, every admitted pod runs.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from numaudit.containermanager.cpu import allocation as cpu_allocation
from numaudit.containermanager.memory.static_policy import remove_container
from numaudit.containermanager.pod.spec import Pod
from numaudit.containermanager.topologymanager.policy import KubeletHangs
from numaudit.encoding.value import Value
from numaudit.errors import InputError
from numaudit.memorymanager.admission import Admission, NodeState, admit, reconcile, remove
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.memorymanager.manager import Pins, StartRefused, has_moved, restart, start, start_refusal
from numaudit.scenario.files import restored, written
from numaudit.scenario.values import Admit, Fate, Readmission, Remove, Restart, Scenario, Setup, Start, Step

_SAME_UID = (
    "it has the UID of a pod that ended, so it takes over what that one still holds; give it a metadata.uid of its own"
)

_DOWN = "Nothing happens, because the kubelet does not run."
_TAKEN_AS = "Later steps take it as {}."


class Played(Struct, frozen=True):
    """One step and what came of it."""

    step: Step
    setup: Setup
    """Of the kubelet that acted: after a restart the new one, if it started."""
    before: NodeState
    after: NodeState
    admission: Admission | None = None
    pins: Pins | None = None
    """Of a container that started."""
    readmissions: tuple[Readmission, ...] = ()
    """Of a restart."""
    refusal: str | None = None
    """Reason why the kubelet did not start; in its words."""
    problem: str | None = None
    """Reason why it is not known what the kubelet does: whether it starts, or admits the pod."""
    note: str | None = None
    """Further notes, such as why nothing happened."""

    @property
    def start_refusal(self) -> str | None:
        """Of a pod that was admitted: why the kubelet would not start again, in its words; None = it would."""
        return start_refusal(self.kubelet, self.after) if self.admission is not None and self.admitted else None

    @property
    def kubelet(self) -> Kubelet:
        return self.setup.kubelet

    @property
    def admitted(self) -> bool | None:
        """Of an admission; of a restart, whether the kubelet started and admitted all pods again; None where nothing
        was to be admitted, or that is not known."""
        if self.problem is not None:
            return None
        if self.admission is not None:
            return self.admission.admitted
        if isinstance(self.step, Restart):
            found = {one.admitted for one in self.readmissions}
            return False if self.refusal is not None or False in found else None if None in found else True
        return None


class ScenarioRun(Struct, frozen=True):
    """A scenario that was played to its end."""

    scenario: Scenario
    steps: tuple[Played, ...]
    notices: tuple[str, ...]
    """Notices about the kubelet's version and gates."""

    @property
    def kubelet(self) -> Kubelet:
        return self.steps[-1].kubelet if self.steps else self.scenario.setup.kubelet

    @property
    def state(self) -> NodeState:
        return self.steps[-1].after if self.steps else self.scenario.state

    @property
    def has_refusal(self) -> bool:
        return any(one.admitted is False or one.start_refusal is not None for one in self.steps)

    @property
    def is_open(self) -> bool:
        """Is it not known of a pod or a restart what the kubelet does?"""
        return any(one.admitted is None and (one.readmissions or one.problem) for one in self.steps)


def simulate(scenario: Scenario) -> ScenarioRun:
    """Play all steps. Raises InputError for one that makes no sense, such as a pod that is there already."""
    player = _Player(
        scenario.setup, scenario.state, all_run=not any(isinstance(step, Start) for step in scenario.steps)
    )
    played: list[Played] = []
    for index, step in enumerate(scenario.steps):
        try:
            played.append(player.play(step))
        except (InputError, KubeletHangs) as error:
            if index < len(scenario.places):
                raise scenario.places[index].error(str(error)) from None
            raise InputError(f"steps[{index}]: {error}") from None
    setups = [scenario.setup, *(step.setup for step in scenario.steps if isinstance(step, Restart))]
    notices = dict.fromkeys(notice for setup in setups for notice in setup.started[1])
    return ScenarioRun(scenario, tuple(played), tuple(notices))


class _Player:
    """A node between two steps."""

    def __init__(self, setup: Setup, state: NodeState, *, all_run: bool) -> None:
        self.setup, self.state, self._all_run = setup, state, all_run
        self._down = False
        """Did the kubelet fail to start?"""
        self._unknown: str | None = None
        """Reason why it is not known whether the kubelet runs."""
        self._running = {uid: set(_names(pod)) for uid, pod in state.pods.items()}
        """The containers that have started, by pod UID."""
        self._seen: set[str] = set()
        """The active pods that a step admitted: of those in the state files the manifest may still come."""

    @property
    def kubelet(self) -> Kubelet:
        return self.setup.kubelet

    def play(self, step: Step) -> Played:
        before = self.state
        if self._down and not isinstance(step, Restart):
            return Played(
                step, self.setup, before, before, problem=self._unknown, note=None if self._unknown else _DOWN
            )
        match step:
            case Admit():
                played = self._admit(step)
            case Start():
                played = self._start(step)
            case Remove():
                played = self._remove(step)
            case Restart():
                played = self._restart(step)
        after = reconcile(played.after, version=self.kubelet.features.version)
        self.state = after
        return replace(played, after=after)

    def _admit(self, step: Admit) -> Played:
        pod = step.pod
        if pod.uid in self._seen:
            raise InputError(f"pod {pod.full_name} is on the node already; remove it first, or give it another name")
        self._seen.add(pod.uid)
        held = self.state.memory.state.entries
        note = _SAME_UID if pod.uid in held and pod.uid not in self.state.pods else None
        admission = admit(self.kubelet, self.state, pod)
        if admission.admitted:
            self._running[pod.uid] = set(_names(pod)) if self._all_run else self._running.get(pod.uid, set())
        else:
            self._seen.discard(pod.uid)
        if admission.problem is not None:
            note = " ".join(filter(None, [note, _TAKEN_AS.format("admitted" if admission.admitted else "refused")]))
        return Played(step, self.setup, self.state, admission.state, admission, problem=admission.problem, note=note)

    def _start(self, step: Start) -> Played:
        pod = self._active(step.pod)
        if pod is None:
            return self._nothing(step)
        after, pins = start(self.kubelet, self.state, pod.uid, step.container)
        self._running.setdefault(pod.uid, set()).add(step.container)
        return Played(step, self.setup, self.state, after, pins=pins)

    def _remove(self, step: Remove) -> Played:
        pod = self._active(step.pod)
        if pod is None:
            return self._nothing(step)
        state = self.state
        if step.container is not None:
            memory = remove_container(state.memory, pod.uid, step.container)
            cpu = state.cpu
            if cpu is not None:
                version = self.kubelet.features.version
                cpu = cpu_allocation.remove(cpu, pod.uid, step.container, version=version)
            return Played(step, self.setup, state, replace(state, memory=memory, cpu=cpu))
        self._running.pop(pod.uid, None)
        self._seen.discard(pod.uid)
        holds = pod.uid in state.memory.state.entries
        note = f"The memory of {step.pod} stays in the memory map until the next admission." if holds else None
        return Played(step, self.setup, state, remove(state, pod.uid), note=note)

    def _restart(self, step: Restart) -> Played:
        before, kubelet = self.state, step.setup.kubelet
        devices = replace(before.devices, plugins=step.setup.devices, reusable={})
        files = written(self.kubelet, before)
        try:
            state = restored(kubelet, replace(before, devices=devices), files)
            pods = tuple(before.pods.values())
            running = {uid: self._running.get(uid, set()) for uid in before.pods}
            after, admissions = restart(kubelet, state, pods, running=running)
        except StartRefused as refused:
            self._down, self._unknown = True, None
            if refused.problem is not None:
                self._unknown = "it is not known whether the kubelet runs"
                return Played(step, self.setup, before, before, problem=refused.problem)
            return Played(step, self.setup, before, before, refusal=str(refused), note="its files stay as they are")
        self._down, self._unknown, self.setup = False, None, step.setup
        readmissions = tuple(Readmission(one, _fate(before, one, bool(running[one.pod.uid]))) for one in admissions)
        for one in readmissions:
            if one.fate in (Fate.REFUSED, Fate.EVICTED):
                self._running.pop(one.admission.pod.uid, None)
                self._seen.discard(one.admission.pod.uid)
        return Played(step, self.setup, before, after, readmissions=readmissions)

    def _active(self, full_name: str) -> Pod | None:
        found = [pod for pod in self.state.pods.values() if pod.full_name == full_name]
        return found[-1] if found else None

    def _nothing(self, step: Start | Remove) -> Played:
        note = f"nothing happens: pod {step.pod} is not on the node, it was refused or has ended"
        return Played(step, self.setup, self.state, self.state, note=note)


def _fate(before: NodeState, admission: Admission, was_running: bool) -> Fate:
    if admission.problem is not None:
        return Fate.UNKNOWN
    if not admission.admitted:
        return Fate.EVICTED if was_running else Fate.REFUSED
    return Fate.ELSEWHERE if has_moved(before, admission.state, admission.pod.uid) else Fate.KEPT


def _names(pod: Pod) -> list[str]:
    return [one.name for one in pod.all_containers]


MOST_ADMISSIONS = 5_000
MOST_ORDERS = 100


class AdmissionOrders(Value, frozen=True):
    """Orders of the scenario's pods in which all of them are admitted."""

    orders: tuple[tuple[str, ...], ...]
    """Those orders, by the names of the pods."""
    tried: int
    """Admissions that were tried."""
    complete: bool
    """False = it was given up before all orders were tried, or of some it is not known."""


def find_orders(scenario: Scenario) -> AdmissionOrders:
    """Admit the scenario's pods in every order, from its first state on; nothing is started or removed.

    An order ends with its first refusal, or pod whose admission is not known. It is given up after MOST_ADMISSIONS or
    MOST_ORDERS.
    """
    pods = {step.pod.uid: step.pod for step in scenario.steps if isinstance(step, Admit)}
    search = _Search(scenario.setup.kubelet)
    search.go_on(scenario.state, (), tuple(pods.values()))
    named = tuple(tuple(pod.full_name for pod in order) for order in search.found)
    return AdmissionOrders(named, search.tried, search.complete)


class _Search:
    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        self.found: list[tuple[Pod, ...]] = []
        self.tried, self.complete = 0, True

    def go_on(self, state: NodeState, order: tuple[Pod, ...], left: tuple[Pod, ...]) -> None:
        """Every order that begins like this."""
        if not left:
            if order:
                self.found.append(order)
            return
        for index, pod in enumerate(left):
            if self.tried >= MOST_ADMISSIONS or len(self.found) >= MOST_ORDERS:
                self.complete = False
                return
            self.tried += 1
            admission = admit(self._kubelet, state, pod)
            if admission.problem is not None:
                self.complete = False
            elif admission.admitted:
                after = reconcile(admission.state, version=self._kubelet.features.version)
                self.go_on(after, (*order, pod), left[:index] + left[index + 1 :])
