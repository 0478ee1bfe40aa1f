"""The smallest set of pods whose removal lets a refused pod in.

Every set is tried with the library's own `remove` and `admit`, by size: a smaller set is never passed over, except
where it cannot hold enough memory. A set that fails rules out none with more pods, nor the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, islice
from typing import Self

import msgspec
from msgspec import Struct, field

from numaudit.containermanager.memory import static_policy
from numaudit.containermanager.pod.requests import pod_requests
from numaudit.containermanager.pod.spec import MEMORY, Pod
from numaudit.containermanager.topologymanager.policy import AdmissionError
from numaudit.encoding.value import Value
from numaudit.errors import NumauditError
from numaudit.memorymanager.admission import Admission, NodeState, admit, remove
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.scenario import holdings
from numaudit.topology.nodeset import NodeSet

MOST_TRIES = 10_000
"""Admissions. One takes 0.2 ms on two nodes, and 0.8 ms on eight."""
MOST_SETS = 100_000
"""Sets of one size, those of too little memory included."""
_MOST_CLEARED = 2
"""Nodes that are cleared for a set when there are too many sets to try."""
_STATIC_UID = re.compile("[0-9a-f]{32}")
"""The hash of a manifest, and no UUID. Source: pkg/kubelet/config/common.go (applyDefaults)."""


class LeavingPod(Value, frozen=True):
    """A pod that has to leave."""

    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    uid: str
    """Its UID."""
    holds: str
    """Resources that it holds, in words, such as 1Gi of memory on node 0."""
    returns: bool
    """Would it be admitted here again, with what it holds, after the pod that it made room for?"""
    command: str | None
    """null = kubectl cannot end it: it is a static pod, of a manifest on the node."""

    @classmethod
    def of(cls, pod: Pod, holds: str, *, returns: bool) -> Self:
        is_static = _STATIC_UID.fullmatch(pod.uid) is not None
        command = None if is_static else f"kubectl delete pod -n {pod.namespace} {pod.name}"
        return cls(pod.namespace, pod.name, pod.uid, holds, returns, command)


class MakeRoom(Value, frozen=True):
    """The pods whose removal lets the pod in."""

    leavers: tuple[LeavingPod, ...] | None = msgspec.field(name="pods")
    """The one that holds most memory first; empty = it is admitted as it is; null = no set of pods was found."""
    is_exact: bool = msgspec.field(name="exact")
    """No set of fewer pods lets it in, and of sets of as many none that holds less memory; without pods, none at all.
    False = the search gave up."""
    tried: int
    """Sets of pods that were tried."""
    ruled_out: int
    """No set of so many pods, or of fewer, lets it in."""
    unnamed: int
    """Pods that hold something here and whose names are not known, so that none of them was to leave."""
    doubtful: int
    """Pods in the checkpoints that may be gone: the kubelet forgets those that are, and then more is free."""


def make_room(
    kubelet: Kubelet,
    state: NodeState,
    pod: Pod,
    *,
    unnamed: Collection[str] = (),
    doubtful: int = 0,
    most_tries: int = MOST_TRIES,
) -> MakeRoom:
    """Find the pods. `unnamed`: UIDs of those that may not leave, since no command could name them.

    Raises as `admit` does.
    """
    may_leave = [uid for uid in holdings.removable_pods(kubelet, state, pod) if uid not in unnamed]
    search = _Search(kubelet, state, pod, may_leave, most_tries, len(unnamed), doubtful)
    is_admitted = admit(kubelet, state, pod).is_surely_admitted
    return search.answer((), exact=True, ruled_out=0) if is_admitted else search.room()


class _Search(Struct):
    kubelet: Kubelet
    state: NodeState
    pod: Pod
    may_leave: list[str]
    """The one that holds least first."""
    most_tries: int
    unnamed: int
    doubtful: int
    tried: int = 0
    held: dict[str, int] = field(default_factory=dict)

    def room(self) -> MakeRoom:
        self.held = {uid: holdings.memory_of(self.state, uid) for uid in self.may_leave}
        lacking = self._lacking()
        kinds = self._kinds()
        most = [0, *accumulate(sorted(self.held.values(), reverse=True))]
        for size in range(1, len(self.may_leave) + 1):
            if most[size] < lacking:
                continue
            considered = list(islice(_choices(kinds, size), MOST_SETS + 1))
            enough = [one for one in considered if self._memory(one) >= lacking]
            if len(considered) > MOST_SETS or self.tried + len(enough) > self.most_tries:
                return self._some(ruled_out=size - 1)
            for uids in sorted(enough, key=self._memory):
                admission = self._without(uids)
                if admission is not None:
                    return self._found(uids, admission, exact=True, ruled_out=size - 1)
        return self.answer(None, exact=True, ruled_out=len(self.may_leave))

    def answer(self, leavers: tuple[LeavingPod, ...] | None, *, exact: bool, ruled_out: int) -> MakeRoom:
        return MakeRoom(leavers, exact, self.tried, ruled_out, self.unnamed, self.doubtful)

    def _some(self, ruled_out: int) -> MakeRoom:
        """There are too many sets: the best of those that clear some nodes, and of which no pod can stay."""
        best: tuple[tuple[str, ...], Admission] | None = None
        for uids in self._clearing():
            if (admission := self._without(uids)) is not None:
                found = self._reduced(uids, admission)
                if best is None or self._rank(found[0]) < self._rank(best[0]):
                    best = found
        if best is None:
            return self.answer(None, exact=False, ruled_out=ruled_out)
        return self._found(*best, exact=False, ruled_out=ruled_out)

    def _clearing(self) -> Iterator[tuple[str, ...]]:
        """All pods that hold memory on one node, on two nodes; then all pods."""
        nodes = {uid: holdings.nodes_of(self.state, uid) for uid in self.may_leave}
        for cleared in NodeSet.from_ids(self.state.memory.state.machine).subsets():
            if len(cleared) > _MOST_CLEARED:
                break
            yield tuple(uid for uid in self.may_leave if nodes[uid] & cleared)
        yield tuple(self.may_leave)

    def _reduced(self, uids: tuple[str, ...], admission: Admission) -> tuple[tuple[str, ...], Admission]:
        """Pods stay one by one, the smallest first, until none can."""
        before = None
        while uids != before:
            before = uids
            for uid in before:
                fewer = tuple(one for one in uids if one != uid)
                still = self._without(fewer)
                if still is not None:
                    uids, admission = fewer, still
        return uids, admission

    def _rank(self, uids: Sequence[str]) -> tuple[int, int]:
        return len(uids), self._memory(uids)

    def _found(self, uids: Sequence[str], admission: Admission, *, exact: bool, ruled_out: int) -> MakeRoom:
        state, leavers = admission.state, []
        for uid in sorted(uids, key=lambda one: self.held[one], reverse=True):
            again = _admitted(self.kubelet, state, self.state.pods[uid])
            state = state if again is None else again.state
            holds = holdings.in_words(self.state, uid)
            leavers.append(LeavingPod.of(self.state.pods[uid], holds, returns=again is not None))
        return self.answer(tuple(leavers), exact=exact, ruled_out=ruled_out)

    def _without(self, uids: Sequence[str]) -> Admission | None:
        self.tried += 1
        state = self.state
        for uid in uids:
            state = remove(state, uid)
        return _admitted(self.kubelet, state, self.pod)

    def _memory(self, uids: Sequence[str]) -> int:
        return sum(self.held[uid] for uid in uids)

    def _lacking(self) -> int:
        """Bytes that have to become free before any set of nodes, even of all, can hold the pod."""
        features = self.kubelet.features
        if self.kubelet.memory_policy == "None" or not static_policy.is_managed(self.pod, features):
            return 0
        try:
            asked = pod_requests(self.pod, features).get(MEMORY, 0)
        except AdmissionError:
            return 0
        machine = static_policy.remove_stale_state(self.state.memory, self.state.pods).state.machine
        return asked - sum(node.memory_map[MEMORY].free for node in machine.values())

    def _kinds(self) -> list[list[str]]:
        """Pods of which it does not matter who leaves are of one kind."""
        kinds: dict[object, list[str]] = {}
        for uid in self.may_leave:
            kinds.setdefault(holdings.kind_of(self.state, uid), []).append(uid)
        return list(kinds.values())


def _choices(kinds: Sequence[Sequence[str]], size: int) -> Iterator[tuple[str, ...]]:
    """Every set of so many pods once, where pods of a kind count as one another."""
    rest = [0, *accumulate(len(kind) for kind in reversed(kinds))]

    def choose(place: int, left: int) -> Iterator[tuple[str, ...]]:
        if not left:
            yield ()
        elif left <= rest[len(kinds) - place]:
            for count in range(min(left, len(kinds[place])), -1, -1):
                for others in choose(place + 1, left - count):
                    yield (*kinds[place][:count], *others)

    return choose(0, size)


def _admitted(kubelet: Kubelet, state: NodeState, pod: Pod) -> Admission | None:
    try:
        admission = admit(kubelet, state, pod)
    except NumauditError:
        return None  # a kubelet would crash or hang with it
    return admission if admission.is_surely_admitted else None
