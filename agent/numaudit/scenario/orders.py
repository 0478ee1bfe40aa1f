"""Orders of a scenario's pods in which all of them are admitted."""

from __future__ import annotations

from numaudit.containermanager.pod.spec import Pod
from numaudit.encoding.value import Value
from numaudit.memorymanager.admission import NodeState, admit, reconcile
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.scenario.values import Admit, Scenario

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
