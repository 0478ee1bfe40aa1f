"""Answers of all nodes to whether they would admit a pod now, in one document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from numaudit.api.fleet_document import FitState, FleetFit, FleetForecast
from numaudit.errors import InputError, Unavailable
from numaudit.fleet import queries
from numaudit.fleet.agents import AgentKey, key_of
from numaudit.fleet.answers import Sample
from numaudit.fleet.fits import ForecastAnswers, Question, RefusingNode, no_fit, refusal, try_node
from numaudit.fleet.memory_map import NotExported, prefers_closest
from numaudit.fleet.report import FleetAnswers, ask_agents, count_of
from numaudit.fleet.scope import Scope
from numaudit.fleet.sentences import notices_of, reporting_sentence
from numaudit.memorymanager.api import KubeletHangs, Pod
from numaudit.topology.sizes import plural
from numaudit.value import Timestamp

_MOST_REASONS = 3
_BY_RULES = ", by NUMA rules only"
_STATES: tuple[FitState, ...] = ("fits", "short", "near", "refused", "unmanaged", "unknown")


def ask_maps(prometheus: FleetAnswers, scope: Scope) -> ForecastAnswers:
    """Raises Unavailable."""
    agents = ask_agents(prometheus, scope)
    samples = prometheus.vector(queries.memory_maps(scope))
    distances = prometheus.vector(queries.distances(scope)) if prefers_closest(samples) else ()
    holding = (agents.of(one, scope) for one in prometheus.vector(queries.stale_entries(scope)))
    stale = sorted(one.node for one in holding if one is not None)
    ages = prometheus.vector(queries.source_ages(scope))
    return ForecastAnswers(
        agents, _by_agent(scope, samples), _by_agent(scope, distances), _by_agent(scope, ages), stale
    )


def forecast(prometheus: FleetAnswers, found: ForecastAnswers, asked: Question) -> FleetForecast:
    """Forecast where such pods would go. Raises Unavailable when nothing is known of any node."""
    pod, count = asked.pod, asked.count
    of_nodes: Counter[str] = Counter()
    fits = _fits(found, asked, of_nodes)
    if all(one.state == "unknown" for one in fits):
        reasons = Counter(one.message for one in fits).most_common()
        listed = "; ".join(f"{reason} ({_nodes(nodes)})" for reason, nodes in reasons[:_MOST_REASONS])
        raise Unavailable(f"whether the pod would fit is unknown on every node: {listed}")
    counted, not_added_up = count_of(found.agents), _not_added_up(found)
    notices = notices_of(prometheus.warnings, found.agents, counted)
    if counted.reporting < len(fits):
        notices.insert(0, reporting_sentence(counted))
    return FleetForecast(
        prometheus=prometheus.where,
        taken_at=Timestamp(prometheus.at),
        pod=pod.full_name,
        count=count,
        sentence=_sentence(pod, fits, count, by_rules=_BY_RULES if not_added_up else ""),
        fits=sum(one.fits or 0 for one in fits),
        nodes=fits,
        not_considered=_not_considered(not_added_up),
        notices=[
            *notices,
            *(f"{text} ({_nodes(nodes)})" for text, nodes in of_nodes.most_common()),
            *map(_stale, found.stale),
        ],
    )


def _by_agent(scope: Scope, samples: Iterable[Sample]) -> dict[AgentKey, list[Sample]]:
    found: defaultdict[AgentKey, list[Sample]] = defaultdict(list)
    for one in samples:
        found[key_of(one, scope)].append(one)
    return found


def _fits(found: ForecastAnswers, asked: Question, notices: Counter[str]) -> list[FleetFit]:
    fits: list[FleetFit] = []
    refused: list[RefusingNode] = []
    for agent in found.agents.by_key.values():
        try:
            one = try_node(agent, found, asked, notices)
        except NotExported as reason:
            one = no_fit(agent.node, "unknown", str(reason))
        except (InputError, KubeletHangs) as error:  # as for pages of a size that this node does not have
            one = no_fit(agent.node, "refused", str(error), fits=0)
        if isinstance(one, RefusingNode):
            refused.append(one)
        else:
            fits.append(one)
    refused.sort(key=lambda one: (-one.room, one.node))
    fits += [refusal(one, with_ways=rank < asked.top) for rank, one in enumerate(refused)]
    return sorted(fits, key=lambda one: (_STATES.index(one.state), -(one.fits or 0)))


def _sentence(pod: Pod, fits: Sequence[FleetFit], count: int | None, *, by_rules: str) -> str:
    states = Counter(one.state for one in fits)
    total = sum(one.fits or 0 for one in fits)
    refusing, near = states["refused"] + states["near"], states["near"]
    more = "at least " if any(one.may_fit_more for one in fits) and count is None else ""
    if states["unmanaged"] and not states["fits"]:
        begin = f"{pod.full_name}: memory does not decide on {_nodes(states['unmanaged'])}"
    elif not states["fits"] and not refusing and states["short"]:
        begin = f"{pod.full_name} would be admitted and lack its huge pages on {_nodes(states['short'])}"
    elif not states["fits"]:
        begin = f"{pod.full_name} is refused on {_nodes(refusing)}{f' ({near} near)' if near else ''}"
    elif count is None:
        begin = f"{pod.full_name} would be admitted {more}{_times(total)}, on {_nodes(states['fits'])}{by_rules}"
    else:
        all_of = f"all {count}" if total >= count else f"{total} of {count}"
        begin = f"{all_of} {pod.full_name} would be admitted, on {_nodes(states['fits'])}{by_rules}"
    rest = [
        f"refused on {_nodes(refusing)}{f' ({near} near)' if near else ''}" if refusing and states["fits"] else "",
        f"promised nothing on {_nodes(states['unmanaged'])}" if states["unmanaged"] and states["fits"] else "",
        f"without its huge pages on {_nodes(states['short'])}"
        if states["short"] and (states["fits"] or refusing or states["unmanaged"])
        else "",
        f"not known of {_nodes(states['unknown'])}" if states["unknown"] else "",
    ]
    return "; ".join([begin, *filter(None, rest)])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _nodes(count: int) -> str:
    return plural(count, "node")


def _not_added_up(found: ForecastAnswers) -> int:
    """Nodes whose agents do not export what all pods there ask for."""
    return sum(
        not any(one.label("__name__") == "numaudit_node_unrequested_pods" for one in found.maps.get(agent.key, ()))
        for agent in found.agents.reporting
    )


def _not_considered(not_added_up: int) -> list[str]:
    as_a_whole = (
        f"the node as a whole, of {_nodes(not_added_up)}: the agent does not export what all pods ask for, so the "
        "kubelet may answer OutOfcpu, OutOfmemory or OutOfpods"
    )
    rest = "taints, selectors, affinity, quotas and the scheduler's own sums"
    return [as_a_whole, rest] if not_added_up else [rest]


def _stale(node: str) -> str:
    return (
        f"in the memory map of {node} containers hold memory that are gone; its kubelet frees that at the next "
        "admission, so more may fit"
    )
