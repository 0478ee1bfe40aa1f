"""Where a pod fits: the library says the same of a node and of that node rebuilt from its exported series."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_nodes import Answering, answering, page, samples
from numaudit.api.fleet_document import FleetForecast
from numaudit.errors import Unavailable
from numaudit.fleet import queries
from numaudit.fleet.answers import Sample
from numaudit.fleet.forecast import ask_maps, forecast
from numaudit.fleet.memory_map import node_there
from numaudit.fleet.scope import Scope
from numaudit.memorymanager.api import NodeState, admit, read_pod
from numaudit.scenario.simulation import Simulation
from scenarios import Plain, play, pod, scenario

GIB = 1 << 30
_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def _machine(*memory: int, pages: int = 0, distances: bool = True) -> Plain:
    size = len(memory)
    return {
        "nodes": [
            {
                "id": number,
                "memory": f"{gib}Gi",
                "hugepages": {"2Mi": pages},
                "distances": [10 if number == other else 12 + abs(number - other) for other in range(size)],
            }
            for number, gib in enumerate(memory)
        ]
    }


def _scraped(played: Simulation, node: str = "node-a") -> tuple[Sample, ...]:
    setup = played.steps[-1].setup if played.steps else played.scenario.setup
    return samples(page(setup, played.state.memory.state.machine), node)


def _ask(prometheus: Answering, manifest: Plain, count: int | None = None, top: int = 10) -> FleetForecast:
    return forecast(prometheus, ask_maps(prometheus, Scope()), read_pod(manifest), count, top)


def _fits(played: Simulation, manifest: Plain) -> int:
    state: NodeState = replace(played.state, pods={})
    entries = replace(state.memory, state=replace(state.memory.state, entries={}))
    state = replace(state, memory=entries)
    one = read_pod(manifest)
    for number in range(111):
        admission = admit(played.kubelet, state, replace(one, uid=str(number)))
        if not admission.admitted:
            return number
        state = admission.state
    return 110


@st.composite
def _nodes(draw: st.DrawFn) -> Simulation:
    sizes = draw(st.lists(st.integers(2, 12), min_size=1, max_size=4))
    pods = draw(st.lists(st.tuples(st.integers(1, 14), st.integers(0, 3)), max_size=5))
    kubelet = {
        "topologyManagerPolicy": draw(st.sampled_from(_POLICIES)),
        "topologyManagerScope": draw(st.sampled_from(("container", "pod"))),
    }
    steps = [
        {"admit": pod(f"p{number}", f"{gib}Gi", **({"hugepages-2Mi": f"{2 * pages}Mi"} if pages else {}))}
        for number, (gib, pages) in enumerate(pods)
    ]
    return play(scenario(_machine(*sizes, pages=8), steps, kubelet))


@given(_nodes(), st.integers(1, 20), st.integers(0, 4))
def test_any_node_admits_as_often_when_it_is_rebuilt_from_its_series(played: Simulation, gib: int, pages: int) -> None:
    scraped = _scraped(played)
    rebuilt = node_there(scraped)
    assert rebuilt.state.memory.state.machine == played.state.memory.state.machine
    assert rebuilt.setup.kubelet.topology == played.kubelet.topology
    more = {"hugepages-2Mi": f"{2 * pages}Mi"} if pages else {}
    manifest = pod("new", f"{gib}Gi", **more)
    (found,) = _ask(answering(scraped), manifest).nodes
    assert found.fits == _fits(played, manifest)


@given(
    st.lists(st.integers(2, 10), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 4)), max_size=5),
    st.sampled_from(_POLICIES),
    st.sampled_from(("container", "pod")),
    st.sampled_from(("1.23", "1.28", "1.32", "1.36")),
    st.tuples(st.integers(1, 14), st.integers(1, 5)),
)
def test_any_refusal_holds_with_a_cpu_manager_too(
    sizes: list[int], pods: list[tuple[int, int]], policy: str, scope: str, version: str, wanted: tuple[int, int]
) -> None:
    machine = _machine(*sizes)
    for node in machine["nodes"]:
        node["cpus"] = f"{4 * node['id']}-{4 * node['id'] + 3}"
    kubelet = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
    kubelet |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    steps = [{"admit": pod(f"p{number}", f"{gib}Gi", cpu=str(cpus))} for number, (gib, cpus) in enumerate(pods)]
    played = play({**scenario(machine, steps, kubelet), "kubernetesVersion": version})
    manifest = pod("new", f"{wanted[0]}Gi", cpu=str(wanted[1]))
    (found,) = _ask(answering(_scraped(played)), manifest, count=1).nodes
    if admit(played.kubelet, played.state, read_pod(manifest)).admitted:
        assert found.fits == 1


def test_distances_decide_where_the_policy_asks_for_them() -> None:
    options = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    steps = [{"admit": pod("a", "3Gi")}, {"admit": pod("b", "3Gi")}]
    played = play(scenario(_machine(4, 4, 4), steps, options))
    prometheus = answering(_scraped(played))
    (found,) = _ask(prometheus, pod("new", "6Gi")).nodes
    assert found.fits == _fits(played, pod("new", "6Gi"))
    assert any("numaudit_node_distance" in one for one in prometheus.asked)
    (plain,) = _ask(without := answering(_scraped(play(scenario(_machine(4, 4, 4), steps)))), pod("new", "6Gi")).nodes
    assert plain.state in ("fits", "near", "refused")
    assert not any("numaudit_node_distance" in one for one in without.asked)


def test_nodes_come_by_how_many_fit_and_near_ones_say_what_would_let_the_pod_in() -> None:
    full = scenario(_machine(8, 8), [{"admit": pod("a", "6Gi")}, {"admit": pod("b", "7Gi")}])
    scraped = [
        *_scraped(play(full), "full"),
        *_scraped(play(scenario(_machine(8, 8), [])), "empty"),
        *_scraped(play(scenario(_machine(8, 8), [{"admit": pod("a", "4Gi")}])), "half"),
    ]
    found = _ask(answering(scraped), pod("new", "3Gi"))
    assert [(one.node, one.state, one.fits) for one in found.nodes] == [
        ("empty", "fits", 4),
        ("half", "fits", 3),
        ("full", "near", 0),
    ]
    assert found.fits == 7
    assert found.sentence == (
        "default/new would be admitted 7 times, on 2 nodes, by NUMA rules only; refused on 1 node (1 near)"
    )
    assert found.nodes[2].admitting_changes[0] == "Requesting 1Gi of memory instead of 3Gi in container app"


def test_as_many_are_tried_as_are_wanted() -> None:
    scraped = _scraped(play(scenario(_machine(8, 8), [])))
    found = _ask(answering(scraped), pod("new", "3Gi"), count=2)
    assert (found.nodes[0].fits, found.nodes[0].may_fit_more, found.is_enough) == (2, True, True)
    assert found.sentence == "all 2 default/new would be admitted, on 1 node, by NUMA rules only"
    short = _ask(answering(scraped), pod("new", "3Gi"), count=6)
    assert (short.nodes[0].fits, short.nodes[0].may_fit_more, short.is_enough) == (4, False, False)
    assert short.sentence.startswith("4 of 6 default/new would be admitted, on 1 node")


def test_a_node_is_tried_with_as_many_pods_as_a_kubelet_takes() -> None:
    scraped = _scraped(play(scenario(_machine(64), [])))
    for count in (None, 100_000):
        found = _ask(answering(scraped), pod("new", "1Mi"), count=count)
        assert (found.nodes[0].fits, found.nodes[0].may_fit_more) == (110, True)
    assert not found.is_enough
    assert _ask(answering(scraped), pod("new", "1Mi")).sentence.startswith("default/new would be admitted at least 110")


def test_ways_in_are_sought_on_as_many_nodes_as_were_asked_for() -> None:
    scraped = [
        one for number in range(4) for one in _scraped(play(scenario(_machine(8 + number, 8), [])), f"node-{number}")
    ]
    found = _ask(answering(scraped), pod("new", "40Gi"), top=2)
    assert sum(bool(one.admitting_changes) for one in found.nodes) == 2
    assert [one.state for one in found.nodes] == ["near", "near", "refused", "refused"]


@pytest.mark.parametrize(
    ("manifest", "kubelet", "why"),
    [
        (
            {"metadata": {"name": "b"}, "spec": {"containers": [{"name": "app"}]}},
            {},
            "leaves a pod of quality of service BestEffort alone",
        ),
        (
            pod("new", "1Gi"),
            {"memoryManagerPolicy": "None", "reservedMemory": []},
            "the Memory Manager's policy is None",
        ),
    ],
)
def test_memory_does_not_decide_where_nothing_is_promised(manifest: Plain, kubelet: Plain, why: str) -> None:
    found = _ask(answering(_scraped(play(scenario(_machine(8, 8), [], kubelet)))), manifest)
    assert (found.nodes[0].state, found.nodes[0].fits) == ("unmanaged", None)
    assert why in (found.nodes[0].message or "")
    assert "memory does not decide on 1 node" in found.sentence
    assert found.is_enough


@pytest.mark.parametrize(
    ("dropped", "reason"),
    [
        ("numaudit_node_policy_info", "no policy of a Memory Manager"),
        ("numaudit_memory_manager_total_bytes", "numaudit_memory_manager_total_bytes of hugepages-2Mi on node 0"),
        ("numaudit_memory_manager_bytes", 'numaudit_memory_manager_bytes{state="reserved"}'),
        ("numaudit_memory_manager_assignments", "numaudit_memory_manager_assignments of node 0; is the agent too old?"),
        ("numaudit_memory_manager_group", "numaudit_memory_manager_group of node 0; is the agent too old?"),
    ],
)
def test_a_series_that_an_old_agent_lacks_is_named(dropped: str, reason: str) -> None:
    full = _scraped(play(scenario(_machine(8, 8), [{"admit": pod("a", "4Gi")}])), "new")
    old = [replace_label(one, "nodename", "old") for one in full if one.label("__name__") != dropped]
    found = _ask(answering([*full, *old]), pod("b", "1Gi"))
    assert [(one.node, one.state) for one in found.nodes] == [("new", "fits"), ("old", "unknown")]
    assert reason in (found.nodes[1].message or "")
    with pytest.raises(Unavailable, match="whether the pod would fit is unknown on every node") as raised:
        _ask(answering(old), pod("b", "1Gi"))
    assert reason in str(raised.value)


def replace_label(one: Sample, name: str, value: str) -> Sample:
    return Sample.of({**one.labels, name: value, "instance": value}, one.stamped)


@pytest.mark.parametrize(
    ("family", "labels", "value"),
    [
        ("memory_manager_bytes", {}, "1e300"),
        ("memory_manager_bytes", {}, "-1"),
        ("memory_manager_bytes", {"numa_node": "x"}, "1"),
        ("memory_manager_bytes", {"numa_node": "99999999999"}, "1"),
        ("memory_manager_total_bytes", {"type": "hugepages-\x1b[2J"}, "1"),
        ("memory_manager_total_bytes", {"type": "hugepages-0"}, "1"),
        ("memory_manager_group", {"group": "0-99999999"}, "1"),
        ("memory_manager_system_reserved_bytes", {}, "9007199254740992"),
        ("node_policy_info", {"topology_manager": "of-my-own"}, "1"),
        ("node_policy_info", {"topology_manager_options": "bogus=1"}, "1"),
        ("node_policy_info", {"kubernetes_version": "newest"}, "1"),
    ],
)
def test_numbers_and_names_that_make_no_node_are_not_believed(family: str, labels: dict[str, str], value: str) -> None:
    scraped = _scraped(play(scenario(_machine(8, 8), [{"admit": pod("a", "4Gi")}])))
    wrong = [
        Sample.of({**one.labels, **labels}, (one.stamped[0], value))
        if one.label("__name__") == f"numaudit_{family}"
        else one
        for one in scraped
    ]
    with pytest.raises(Unavailable, match="unknown on every node"):
        _ask(answering(wrong), pod("b", "1Gi"))


def test_a_node_on_which_a_kubelet_would_crash_for_the_pod_is_named_and_the_others_count() -> None:
    with_pages = {"nodes": [{"id": 0, "memory": "8Gi", "hugepages": {"1Gi": 4}}]}
    scraped = [*_scraped(play(scenario(_machine(8), [])), "without"), *_scraped(play(scenario(with_pages, [])), "with")]
    found = _ask(answering(scraped), pod("new", "1Gi", **{"hugepages-1Gi": "1Gi"}))
    assert [(one.node, one.state, one.fits) for one in found.nodes] == [("with", "fits", 3), ("without", "refused", 0)]
    assert "a kubelet would crash" in (found.nodes[1].message or "")


def test_a_kubelet_of_a_version_that_is_not_known_is_taken_for_the_newest_and_that_is_said() -> None:
    scraped = _scraped(play(scenario(_machine(8), [])))
    unknown = [Sample.of({**one.labels, "kubernetes_version": ""}, one.stamped) for one in scraped]
    assert _ask(answering(scraped), pod("new", "1Gi")).notices == []
    (notice,) = _ask(answering(unknown), pod("new", "1Gi")).notices
    assert notice == "the kubelet's version is not known, so it is taken for 1.36 (1 node)"


def test_memory_that_comes_free_at_the_next_admission_is_noticed() -> None:
    prometheus = answering(_scraped(play(scenario(_machine(8, 8), []))))
    (build,) = prometheus.known[queries.agents(Scope())]
    holding = {**prometheus.known, queries.stale_entries(Scope()): (Sample.of(build.labels, (0.0, "2")),)}
    found = _ask(replace(prometheus, known=holding), pod("new", "1Gi"))
    assert found.notices[-1].startswith("in the memory map of node-a containers hold memory that are gone")


def test_what_is_not_considered_is_said() -> None:
    manifest: dict[str, Any] = pod("new", "1Gi", **{"vendor.com/nic": "1"})
    found = _ask(answering(_scraped(play(scenario(_machine(8, 8), [])))), manifest)
    assert any("OutOfcpu" in one for one in found.not_considered)
    assert any("CPUs" in one for one in found.not_considered)
    assert any("vendor.com/nic" in one for one in found.not_considered)
