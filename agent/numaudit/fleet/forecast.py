"""On which nodes a pod would be admitted now: the library's own admission on each node's rebuilt memory map.

CPUs, devices, what all pods of a node ask for together and the scheduler's own rules are not in what agents export. So
a refusal holds whatever they are, and an admission is one by NUMA rules only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from numaudit.api.fleet_document import FitState, FleetFit, FleetForecast
from numaudit.containermanager.memory.headroom import headroom_of
from numaudit.containermanager.memory.static_policy import is_managed
from numaudit.containermanager.pod.spec import CPU
from numaudit.errors import InputError, Unavailable
from numaudit.fleet import queries
from numaudit.fleet.agents import Agents, FleetAgent, Key, key_of
from numaudit.fleet.answers import Sample
from numaudit.fleet.memory_map import NodeThere, NotTold, is_static, node_there, prefers_closest
from numaudit.fleet.report import FleetAnswers, ask_agents, count_of
from numaudit.fleet.scope import Scope
from numaudit.fleet.sentences import notices_of, plural, reporting_sentence
from numaudit.memorymanager.api import Admission, KubeletHangs, Pod, admit, qos
from numaudit.scenario.admitting_changes import find_admitting_changes
from numaudit.scenario.explanation import sentence_of
from numaudit.scenario.manifests import unknown_devices
from numaudit.topology.nodeset import NodeSet
from numaudit.value import Timestamp

MOST_PODS = 110
"""On one node: the kubelet's own default (maxPods)."""
_MOST_REASONS = 3
_BY_RULES = "by NUMA rules only"
_STATES: tuple[FitState, ...] = ("fits", "near", "refused", "unmanaged", "unknown")


@dataclass(frozen=True, slots=True)
class Found:
    """Query results for one forecast."""

    agents: Agents
    maps: Mapping[Key, Sequence[Sample]]
    """Of each agent."""
    distances: Mapping[Key, Sequence[Sample]]
    stale: Sequence[str]
    """Nodes in whose memory map containers hold something that are gone."""


def ask_maps(prometheus: FleetAnswers, scope: Scope) -> Found:
    """Raises Unavailable."""
    agents = ask_agents(prometheus, scope)
    samples = prometheus.vector(queries.memory_maps(scope))
    distances = prometheus.vector(queries.distances(scope)) if prefers_closest(samples) else ()
    holding = (agents.of(one, scope) for one in prometheus.vector(queries.stale_entries(scope)))
    stale = sorted(one.node for one in holding if one is not None)
    return Found(agents, _by_agent(scope, samples), _by_agent(scope, distances), stale)


def forecast(prometheus: FleetAnswers, found: Found, pod: Pod, count: int | None, top: int) -> FleetForecast:
    """Forecast where `count` such pods would go (None = as many as fit); changes that would admit one are sought on the
    `top` nearest nodes.

    Raises Unavailable when nothing is known of any node.
    """
    of_kubelets: Counter[str] = Counter()
    fits = _fits(found, pod, count, top, of_kubelets)
    if all(one.state == "unknown" for one in fits):
        reasons = Counter(one.message for one in fits).most_common()
        listed = "; ".join(f"{reason} ({_nodes(nodes)})" for reason, nodes in reasons[:_MOST_REASONS])
        raise Unavailable(f"whether the pod would fit is unknown on every node: {listed}")
    counted = count_of(found.agents)
    notices = notices_of(prometheus.warnings, found.agents, counted)
    if counted.reporting < len(fits):
        notices.insert(0, reporting_sentence(counted))
    return FleetForecast(
        prometheus=prometheus.where,
        taken_at=Timestamp(prometheus.at),
        pod=pod.full_name,
        count=count,
        sentence=_sentence(pod, fits, count),
        fits=sum(one.fits or 0 for one in fits),
        nodes=fits,
        not_considered=_not_considered(pod),
        notices=[
            *notices,
            *(f"{text} ({_nodes(nodes)})" for text, nodes in of_kubelets.most_common()),
            *map(_stale, found.stale),
        ],
    )


def _by_agent(scope: Scope, samples: Iterable[Sample]) -> dict[Key, list[Sample]]:
    found: defaultdict[Key, list[Sample]] = defaultdict(list)
    for one in samples:
        found[key_of(one, scope)].append(one)
    return found


def _fits(found: Found, pod: Pod, count: int | None, top: int, notices: Counter[str]) -> list[FleetFit]:
    fits: list[FleetFit] = []
    refused: list[_Refused] = []
    for agent in found.agents.by_key.values():
        try:
            one = _try(agent, found, pod, min(count or MOST_PODS, MOST_PODS), notices)
        except NotTold as reason:
            one = _fit(agent.node, "unknown", str(reason))
        except (InputError, KubeletHangs) as error:  # as for pages of a size that this node does not have
            one = _fit(agent.node, "refused", str(error), fits=0)
        if isinstance(one, _Refused):
            refused.append(one)
        else:
            fits.append(one)
    refused.sort(key=lambda one: (-one.room, one.node))
    fits += [_refusal(one, with_ways=rank < top) for rank, one in enumerate(refused)]
    return sorted(fits, key=lambda one: (_STATES.index(one.state), -(one.fits or 0)))


@dataclass(frozen=True, slots=True)
class _Refused:
    node: str
    there: NodeThere
    admission: Admission
    room: int
    """The largest request for memory that would be admitted."""


def _try(agent: FleetAgent, found: Found, pod: Pod, most: int, notices: Counter[str]) -> FleetFit | _Refused:
    """Have the node admit the pod again and again. Raises NotTold, and as `admit` does."""
    if agent.state != "reporting":
        raise NotTold(f"its agent is {agent.state}, so its memory map is not known")
    samples = found.maps.get(agent.key, ())
    is_managing = is_static(samples)
    if is_managing is None:
        raise NotTold("it exports no policy of a Memory Manager (numaudit_node_policy_info): is there a kubelet?")
    if not is_managing:
        return _fit(agent.node, "unmanaged", "the Memory Manager's policy is None")
    there = node_there(samples, found.distances.get(agent.key, ()))
    notices.update(there.notices)
    kubelet = there.setup.kubelet
    if not is_managed(pod, kubelet.features):
        why = f"the Memory Manager leaves a pod of quality of service {qos(pod, kubelet.features)} alone"
        return _fit(agent.node, "unmanaged", why)
    admissions = list(_admissions(there, pod, most))
    first, fits = admissions[0], sum(one.admitted for one in admissions)
    if not fits:
        room = headroom_of(there.state.memory.state.machine, kubelet.topology.policy).admissible or {}
        return _Refused(agent.node, there, first, max(room.values(), default=0))
    nodes = NodeSet.from_ids(node for one in first.placements for node in one.memory_nodes or ())
    outcomes = ", ".join(sorted({str(one.outcome) for one in first.placements}))
    return FleetFit(agent.node, "fits", fits, fits == most, outcomes, nodes or None, None, [])


def _admissions(there: NodeThere, pod: Pod, most: int) -> Iterator[Admission]:
    """One after the other, until one is refused."""
    state = there.state
    for number in range(most):
        admission = admit(there.setup.kubelet, state, replace(pod, uid=f"{pod.uid} {number}"))
        yield admission
        if not admission.admitted:
            return
        state = admission.state


def _fit(node: str, state: FitState, message: str, fits: int | None = None) -> FleetFit:
    """Of a node where nothing can be tried."""
    return FleetFit(node, state, fits, False, None, None, message, [])


def _refusal(one: _Refused, *, with_ways: bool) -> FleetFit:
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
        sentence_of(one.there.setup.kubelet, one.admission),
        [way.change for way in ways],
    )


def _sentence(pod: Pod, fits: Sequence[FleetFit], count: int | None) -> str:
    states = Counter(one.state for one in fits)
    total = sum(one.fits or 0 for one in fits)
    refusing, near = states["refused"] + states["near"], states["near"]
    more = "at least " if any(one.may_fit_more for one in fits) and count is None else ""
    if states["unmanaged"] and not states["fits"]:
        begin = f"{pod.full_name}: memory does not decide on {_nodes(states['unmanaged'])}"
    elif not states["fits"]:
        begin = f"{pod.full_name} is refused on {_nodes(refusing)}{f' ({near} near)' if near else ''}"
    elif count is None:
        begin = f"{pod.full_name} would be admitted {more}{_times(total)}, on {_nodes(states['fits'])}, {_BY_RULES}"
    else:
        all_of = f"all {count}" if total >= count else f"{total} of {count}"
        begin = f"{all_of} {pod.full_name} would be admitted, on {_nodes(states['fits'])}, {_BY_RULES}"
    rest = [
        f"refused on {_nodes(refusing)}{f' ({near} near)' if near else ''}" if refusing and states["fits"] else "",
        f"promised nothing on {_nodes(states['unmanaged'])}" if states["unmanaged"] and states["fits"] else "",
        f"not known of {_nodes(states['unknown'])}" if states["unknown"] else "",
    ]
    return "; ".join([begin, *filter(None, rest)])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _nodes(count: int) -> str:
    return plural(count, "node")


def _not_considered(pod: Pod) -> list[str]:
    found = [
        "the node as a whole: agents do not export what its pods ask for, so its kubelet may answer OutOfcpu, "
        "OutOfmemory or OutOfpods",
        "taints, selectors, affinity, quotas and the scheduler's own sums",
    ]
    if any(CPU in one.resources.requests for one in pod.all_containers):
        found.append("CPUs: agents do not export which of them are taken")
    devices = unknown_devices(pod, {})
    if devices:
        found.append(f"devices: agents do not export which of {', '.join(devices)} are taken, nor where they are")
    return found


def _stale(node: str) -> str:
    return (
        f"in the memory map of {node} containers hold memory that are gone; its kubelet frees that at the next "
        "admission, so more may fit"
    )
