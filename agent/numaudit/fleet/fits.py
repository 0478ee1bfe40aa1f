"""One node's answer to how often it would admit a pod now. Pure.

The library's own admission answers, on the node rebuilt from its series. A refusal holds whatever is not exported. An
admission on which something bears that is not exported (devices, cores, storage) is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from numaudit.api.fleet_document import FitState, FleetFit
from numaudit.containermanager.cpu.hints import cpu_pod
from numaudit.containermanager.memory.headroom import headroom_of
from numaudit.containermanager.memory.static_policy import is_managed
from numaudit.containermanager.predicates import EPHEMERAL_STORAGE, PODS, NodeShortage, in_unit, node_requests, shortage
from numaudit.fleet import queries
from numaudit.fleet.agents import AgentKey, Agents, FleetAgent
from numaudit.fleet.answers import Sample
from numaudit.fleet.cpu_map import is_settled, wants_cpus
from numaudit.fleet.memory_map import NodeThere, NotExported, capacity_there, is_static, node_there, policy_info
from numaudit.memorymanager.api import Admission, Pod, admit, qos
from numaudit.memorymanager.huge_pages import shortages
from numaudit.scenario.admitting_changes import find_admitting_changes
from numaudit.scenario.explanation import sentence_of
from numaudit.scenario.manifests import unknown_devices
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import ZERO
from numaudit.topology.sizes import in_units, plural

MAX_AGE = 600.0
"""Seconds: the default of the agents' kubelet.max_age."""
MOST_PODS = 110
"""On one node: the kubelet's own default (maxPods)."""
_CORES_DECIDE = (
    "its containers take CPUs of several NUMA nodes, and how many of each depends on cores: `fit -f` there knows"
)


class ForecastAnswers(Struct, frozen=True):
    """Query results for one forecast."""

    agents: Agents
    maps: Mapping[AgentKey, Sequence[Sample]]
    """Of each agent."""
    distances: Mapping[AgentKey, Sequence[Sample]]
    ages: Mapping[AgentKey, Sequence[Sample]]
    """Of each agent: the kubelet's sources that were read long ago."""
    stale: Sequence[str]
    """Nodes in whose memory map containers hold something that are gone."""


class Question(Struct, frozen=True):
    """A pod, and what is asked of each node about it."""

    pod: Pod
    count: int | None = None
    """Number of such pods; None = as many as fit."""
    top: int = 10
    """On this number of the nearest nodes, changes are sought that would let it in."""
    max_age: float = MAX_AGE
    """Seconds: where the values are older, nothing is answered."""

    @property
    def most(self) -> int:
        """Number of tries on one node."""
        return min(self.count or MOST_PODS, MOST_PODS)


class RefusingNode(Struct, frozen=True):
    """A node that refuses the first of the pods."""

    node: str
    there: NodeThere
    admission: Admission
    room: int
    """The largest request for memory that would be admitted."""


def try_node(
    agent: FleetAgent, found: ForecastAnswers, asked: Question, notices: Counter[str]
) -> FleetFit | RefusingNode:
    """Have the node admit the pod again and again. Raises NotExported, and as `admit` does."""
    if agent.state != "reporting":
        raise NotExported(f"its agent is {agent.state}, so its memory map is not known")
    _refuse_old(agent, found, asked.max_age, notices)
    samples, pod = found.maps.get(agent.key, ()), asked.pod
    is_managing = is_static(samples)
    if is_managing is None:
        raise NotExported("it exports no policy of a Memory Manager (numaudit_node_policy_info): is there a kubelet?")
    if not is_managing:
        return _without_memory_manager(agent, samples, pod)
    there = node_there(samples, found.distances.get(agent.key, ()))
    notices.update(there.notices)
    kubelet = there.setup.kubelet
    tries = list(_tries(there, pod, asked.most))
    first = tries[0]
    if not first.is_decided:
        raise NotExported(_CORES_DECIDE)
    if not first.admission.admitted:
        if agent.node in found.stale:
            raise NotExported("memory of containers that are gone comes free there at the next admission")
        room = headroom_of(there.state.memory.state.machine, kubelet.topology.policy).admissible or {}
        return RefusingNode(agent.node, there, first.admission, max(room.values(), default=0))
    if (missing := _not_exported(there, pod)) is not None:
        raise NotExported(missing)
    if not is_managed(pod, kubelet.features):
        why = f"the Memory Manager leaves a pod of quality of service {qos(pod, kubelet.features)} alone"
        return no_fit(agent.node, "unmanaged", why)
    placements = first.admission.placements
    nodes = NodeSet.from_ids(node for one in placements for node in one.memory_nodes or ())
    outcomes = ", ".join(sorted({str(one.outcome) for one in placements}))
    fits = sum(one.admission.admitted for one in tries)
    may_fit_more = tries[-1].may_fit_more or agent.node in found.stale
    with_pages = next((number for number in range(fits) if _lacking(there, tries[: number + 1])), fits)
    if with_pages < fits:
        fits, may_fit_more = with_pages, False
        if not fits:
            return FleetFit(agent.node, "short", 0, False, outcomes, nodes or None, _lacking(there, tries[:1]), [])
    return FleetFit(agent.node, "fits", fits, may_fit_more, outcomes, nodes or None, None, [])


def _lacking(there: NodeThere, tries: Sequence[_Tried]) -> str | None:
    """The huge pages in words that the kernel lacks for all these pods together; None = none, or it is not known."""
    pods, after = frozenset(one.admission.pod.uid for one in tries), tries[-1].admission.state.memory.state
    short = shortages(there.state.memory.state.machine, after, pods, there.huge_pages)
    said = [
        f"{in_units(one.requested_bytes)} of {one.type} on {one.numa_nodes.in_words}, where the map has "
        f"{in_units(one.map_free_bytes)} free and the kernel {in_units(one.left_bytes)} left"
        for one in short
    ]
    return f"the kubelet would admit it, but the kernel cannot give {', '.join(said)}" if said else None


def no_fit(node: str, state: FitState, message: str, fits: int | None = None) -> FleetFit:
    """Of a node where nothing can be tried."""
    return FleetFit(node, state, fits, False, None, None, message, [])


def refusal(one: RefusingNode, *, with_ways: bool) -> FleetFit:
    """`with_ways`: seek changes that would let it in."""
    rejection = one.admission.rejection
    assert rejection is not None
    ways = find_admitting_changes(one.there.setup, one.there.state, one.admission) if with_ways else ()
    return FleetFit(
        one.node,
        "near" if any(way.kind == "request" for way in ways) else "refused",
        0,
        False,
        str(rejection.outcome),
        None,
        sentence_of(one.there.setup.kubelet, one.admission)
        if rejection.shortage is None
        else _lack(rejection.shortage),
        [way.change for way in ways],
    )


def _lack(shortage: NodeShortage) -> str:
    """In the words of what is exported: the capacity is what the pods there leave of the node."""
    resource = shortage.resource
    if resource == PODS:
        return f"{shortage.reason}: the node takes no more pods."
    left, asked = in_unit(resource, max(0, shortage.capacity)), in_unit(resource, shortage.requested)
    return f"{shortage.reason}: its pods leave {left} of {resource} unrequested, and this one requests {asked}."


class _Tried(Struct, frozen=True):
    admission: Admission
    is_decided: bool
    """By what is exported."""
    may_fit_more: bool
    """It was admitted, and not tried any further."""


def _tries(there: NodeThere, pod: Pod, most: int) -> Iterator[_Tried]:
    """One after the other, until one is refused, or what is exported does not decide about the next one."""
    state, kubelet = there.state, there.setup.kubelet
    for number in range(1, most + 1):
        admission = admit(kubelet, state, replace(pod, uid=f"{pod.uid} {number}"))
        is_decided, decides_next = is_settled(kubelet, state.cpu, admission)
        if number > 1 and not is_decided:
            return
        is_last = number == most or not decides_next
        yield _Tried(admission, is_decided, admission.admitted and is_last)
        if is_last or not admission.admitted:
            return
        state = admission.state


def _refuse_old(agent: FleetAgent, found: ForecastAnswers, max_age: float, notices: Counter[str]) -> None:
    """Raises NotExported for values that are too old; where they are only old, a notice says so."""
    own = agent.age or 0.0
    sources = {one.label("collector"): own + one.value for one in found.ages.get(agent.key, ())}
    name, age = max([("", own), *sources.items()], key=lambda item: item[1])
    if age > max_age:
        what = f"its source {name} was" if name else "its values were"
        raise NotExported(f"{what} last read {_minutes(age)} ago; --max-age allows older values")
    if age > queries.OLD_SECONDS:
        notices[f"the answer rests on values that are {_minutes(age)} old"] += 1


def _minutes(seconds: float) -> str:
    return plural(round(seconds / 60), "minute")


def _not_exported(there: NodeThere, pod: Pod) -> str | None:
    """Reason why a pod that was admitted here may be refused there; None = nothing is missing."""
    kubelet = there.setup.kubelet
    if (devices := _devices(pod)) is not None:
        return devices
    if there.no_cpus is not None and wants_cpus(pod, kubelet):
        return there.no_cpus
    if node_requests(pod, kubelet.features).get(EPHEMERAL_STORAGE, ZERO).nano > 0 and not pod.is_critical:
        return "agents do not export how much ephemeral storage a node has"
    return None


def _devices(pod: Pod) -> str | None:
    names = unknown_devices(pod, {})
    return f"agents do not export which of {', '.join(names)} are taken, nor where they are" if names else None


def _without_memory_manager(agent: FleetAgent, samples: Sequence[Sample], pod: Pod) -> FleetFit:
    """Raises NotExported where CPUs or devices decide: of such a node the NUMA nodes are not exported."""
    if (devices := _devices(pod)) is not None:
        raise NotExported(devices)
    if policy_info(samples).label("cpu_manager") != "none" and any(one.exclusive for one in cpu_pod(pod).containers):
        raise NotExported("the Memory Manager's policy is None, and agents do not export where CPUs alone decide")
    capacity = capacity_there(samples)
    lacking = None if capacity is None or pod.is_critical else shortage(pod, (), capacity)
    if lacking is not None:
        return no_fit(agent.node, "refused", _lack(lacking), fits=0)
    return no_fit(agent.node, "unmanaged", "the Memory Manager's policy is None")
