"""Where a pod fits: the library says the same of a node and of that node rebuilt from its exported series."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from made_up.scenarios import Plain, play, pod, scenario
from monitoring.fleet_nodes import Answering, answering, page, samples
from numaudit.api.fleet_document import FleetForecast
from numaudit.containermanager.cpu.room import cpu_room
from numaudit.errors import Unavailable
from numaudit.fleet import queries
from numaudit.fleet.answers import Sample
from numaudit.fleet.fits import Question
from numaudit.fleet.forecast import ask_maps, forecast
from numaudit.fleet.memory_map import node_there
from numaudit.fleet.scope import Scope
from numaudit.intent.node import NodeRoom
from numaudit.memorymanager.api import NodeState, admit, read_pod, reconcile
from numaudit.scenario.simulation import ScenarioRun
from numaudit.topology.quantity import Quantity

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


def _scraped(played: ScenarioRun, node: str = "node-a") -> tuple[Sample, ...]:
    setup = played.steps[-1].setup if played.steps else played.scenario.setup
    return samples(page(setup, played.state.memory.state.machine, room=_room(played)), node)


def _room(played: ScenarioRun) -> NodeRoom | None:
    kubelet = played.kubelet
    cpu = reconcile(structs.replace(played.state, pending=None), version=kubelet.features.version).cpu
    return None if kubelet.cpu is None or cpu is None else NodeRoom(cpu_room(kubelet.cpu, cpu), None)


def _ask(prometheus: Answering, manifest: Plain, count: int | None = None, top: int = 10) -> FleetForecast:
    return forecast(prometheus, ask_maps(prometheus, Scope()), Question(read_pod(manifest), count, top))


def _fits(played: ScenarioRun, manifest: Plain) -> int:
    state: NodeState = structs.replace(played.state, pods={})
    entries = structs.replace(state.memory, state=structs.replace(state.memory.state, entries={}))
    state = structs.replace(state, memory=entries)
    one = read_pod(manifest)
    for number in range(111):
        admission = admit(played.kubelet, state, structs.replace(one, uid=str(number)))
        if not admission.admitted:
            return number
        state = admission.state
    return 110


@st.composite
def _nodes(draw: st.DrawFn) -> ScenarioRun:
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
def test_any_node_admits_as_often_when_it_is_rebuilt_from_its_series(played: ScenarioRun, gib: int, pages: int) -> None:
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
    try:
        (found,) = _ask(answering(_scraped(played)), manifest, count=1).nodes
    except Unavailable as reason:
        assert "several NUMA nodes" in str(reason)
        return
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


def test_a_node_without_huge_pages_of_the_size_is_named_and_the_others_count() -> None:
    with_pages = {"nodes": [{"id": 0, "memory": "8Gi", "hugepages": {"1Gi": 4}}]}
    scraped = [*_scraped(play(scenario(_machine(8), [])), "without"), *_scraped(play(scenario(with_pages, [])), "with")]
    found = _ask(answering(scraped), pod("new", "1Gi", **{"hugepages-1Gi": "1Gi"}))
    assert [(one.node, one.state, one.fits) for one in found.nodes] == [("with", "fits", 3), ("without", "refused", 0)]
    assert (found.nodes[1].message or "").startswith("OutOfhugepages-1Gi: ")


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


def test_a_pod_with_devices_fits_nowhere_for_certain_and_a_refusal_for_memory_holds() -> None:
    scraped = [
        *_scraped(play(scenario(_machine(8, 8), [])), "empty"),
        *_scraped(play(scenario(_machine(8, 8), [{"admit": pod("a", "7Gi")}, {"admit": pod("b", "7Gi")}])), "full"),
    ]
    manifest: dict[str, Any] = pod("new", "2Gi", **{"vendor.com/nic": "1"})
    found = _ask(answering(scraped), manifest)
    assert [(one.node, one.state) for one in found.nodes] == [("full", "near"), ("empty", "unknown")]
    assert found.nodes[1].message == "agents do not export which of vendor.com/nic are taken, nor where they are"


def _static(*pods: Plain, **kubelet: object) -> ScenarioRun:
    """Two NUMA nodes of four CPUs each, CPU 0 reserved."""
    machine = _machine(32, 32)
    for node in machine["nodes"]:
        node["cpus"] = f"{4 * node['id']}-{4 * node['id'] + 3}"
    settings = {"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    return play(scenario(machine, [{"admit": one} for one in pods], {**settings, **kubelet}))


def test_cpus_that_are_taken_keep_a_pod_out() -> None:
    scraped = [
        *_scraped(_static(), "empty"),
        *_scraped(_static(pod("a", "1Gi", cpu="2"), pod("b", "1Gi", cpu="2")), "half"),
    ]
    found = _ask(answering(scraped), pod("new", "1Gi", cpu="4"))
    assert [(one.node, one.fits) for one in found.nodes] == [("empty", 1), ("half", 0)]
    assert "CPU" in (found.nodes[1].message or "")


@pytest.mark.parametrize(
    ("label", "value", "why"),
    [
        ("cpu_manager", "", "does not name the CPU Manager's policy"),
        ("cpu_manager_options", "full-pcpus-only=true", "its CPU Manager has full-pcpus-only"),
    ],
)
def test_a_cpu_manager_of_which_too_little_is_known_leaves_exclusive_cpus_open(
    label: str, value: str, why: str
) -> None:
    scraped = [
        Sample.of({**one.labels, label: value}, one.stamped) if "policy_info" in one.label("__name__") else one
        for one in _scraped(_static())
    ]
    with pytest.raises(Unavailable, match=why):
        _ask(answering(scraped), pod("new", "1Gi", cpu="2"))
    assert _ask(answering(scraped), pod("new", "1Gi", cpu="500m")).nodes[0].state == "fits"


def test_an_agent_that_exports_no_cpus_leaves_exclusive_ones_open() -> None:
    scraped = [one for one in _scraped(_static()) if one.label("__name__") != "numaudit_cpu_manager_cpus"]
    with pytest.raises(Unavailable, match="it exports no numaudit_cpu_manager_cpus"):
        _ask(answering(scraped), pod("new", "1Gi", cpu="2"))


def test_cpus_of_several_nodes_are_told_as_long_as_cores_do_not_decide() -> None:
    """Of 3 and 4 free CPUs 5 are taken; how many of each is unknown without the cores."""
    scraped = _scraped(_static(topologyManagerPolicy="best-effort"))
    one = pod("new", "40Gi", cpu="5")
    (found,) = _ask(answering(scraped), one).nodes
    assert (found.fits, found.may_fit_more) == (1, True)
    two = pod("new", "1Gi", cpu="5")
    two["spec"]["containers"].append({**two["spec"]["containers"][0], "name": "second"})
    with pytest.raises(Unavailable, match="take CPUs of several NUMA nodes"):
        _ask(answering(scraped), two)


def _room_of_node(cpus: int, memory: str, pods: int) -> NodeRoom:
    return NodeRoom(None, {"cpu": cpus * 1000, "memory": Quantity.parse(memory).value, "pods": pods})


@pytest.mark.parametrize(
    ("room", "reason"),
    [
        (_room_of_node(2, "9Gi", 0), "OutOfpods"),
        (_room_of_node(-1, "9Gi", 10), "OutOfcpu"),
        (_room_of_node(2, "1Gi", 10), "OutOfmemory"),
    ],
)
def test_a_node_whose_pods_request_all_of_it_refuses_another(room: NodeRoom, reason: str) -> None:
    played = play(scenario(_machine(8, 8), []))
    scraped = samples(page(played.scenario.setup, played.state.memory.state.machine, room=room), "node-a")
    found = _ask(answering(scraped), pod("new", "2Gi"))
    assert found.nodes[0].state in ("refused", "near")
    assert reason.removeprefix("OutOf") in (found.nodes[0].message or "").lower()
    assert not any("OutOfcpu" in one for one in found.not_considered)
    assert "-" not in (found.nodes[0].message or "")
    unmanaged = _ask(answering(scraped), {"metadata": {"name": "b"}, "spec": _BURSTABLE})
    assert unmanaged.nodes[0].state in ("refused", "near")


_BURSTABLE: Plain = {"containers": [{"name": "app", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]}


def test_requests_that_are_exported_make_the_answer_whole() -> None:
    played = play(scenario(_machine(8, 8), []))
    room = _room_of_node(4, "9Gi", 3)
    scraped = samples(page(played.scenario.setup, played.state.memory.state.machine, room=room), "node-a")
    found = _ask(answering(scraped), pod("new", "1Gi"))
    assert found.sentence == "default/new would be admitted 3 times, on 1 node"


def test_requests_that_are_not_exported_are_not_considered_and_that_is_said() -> None:
    found = _ask(answering(_scraped(play(scenario(_machine(8, 8), [])))), pod("new", "1Gi"))
    assert found.sentence.endswith("by NUMA rules only")
    assert any(one.startswith("the node as a whole, of 1 node") and "OutOfcpu" in one for one in found.not_considered)


@pytest.mark.parametrize(("age", "state"), [(0, "fits"), (400, "fits"), (700, "unknown")])
def test_old_values_are_named_and_very_old_ones_answer_nothing(age: float, state: str) -> None:
    scraped = _scraped(play(scenario(_machine(8, 8), [])))
    other = [replace_label(one, "nodename", "other") for one in scraped]
    prometheus = answering([*scraped, *other])
    build = prometheus.known[queries.agents(Scope())][0]
    old = Sample.of({**build.labels, "collector": "memory-checkpoint"}, (0.0, str(age)))
    known = {**prometheus.known, queries.source_ages(Scope()): (old,) if age > queries.OLD_SECONDS else ()}
    found = _ask(replace(prometheus, known=known), pod("new", "1Gi"))
    assert {one.node: one.state for one in found.nodes} == {"node-a": state, "other": "fits"}
    notices = [one for one in found.notices if "minutes old" in one]
    assert notices == (["the answer rests on values that are 7 minutes old (1 node)"] if age == 400 else [])
    if age == 700:
        assert found.nodes[-1].message == (
            "its source memory-checkpoint was last read 12 minutes ago; --max-age allows older values"
        )


@pytest.mark.parametrize(
    ("free", "unclaimed", "fits", "state"),
    [(8, 0, 4, "fits"), (5, 0, 2, "fits"), (1, 0, 0, "short"), (8, 7, 0, "short")],
)
def test_no_more_pods_fit_than_the_kernel_has_huge_pages_for(free: int, unclaimed: int, fits: int, state: str) -> None:
    """The map has 8 pages free on the only node, and each pod asks for 2."""
    played = play(scenario(_machine(16, pages=8), []))
    scraped = page(played.scenario.setup, played.state.memory.state.machine, room=_room(played)) + "".join(
        f"numaudit_memory_manager_{name} {value}\n"
        for name, value in (
            ('pool_bytes{numa_node="0",type="hugepages-2Mi",state="free"}', free << 21),
            ('pool_reserved_bytes{type="hugepages-2Mi"}', 0),
            ('unclaimed_bytes{group="0",type="hugepages-2Mi"}', unclaimed << 21),
        )
    )
    found = _ask(answering(samples(scraped, "node-a")), pod("wanted", "1Gi", **{"hugepages-2Mi": "4Mi"}))
    (one,) = found.nodes
    assert (one.state, one.fits) == (state, fits)
    if state == "short":
        left = max(0, free - unclaimed) * 2
        assert one.message == (
            "the kubelet would admit it, but the kernel cannot give 4Mi of hugepages-2Mi on node 0, where the map has "
            f"16Mi free and the kernel {left}Mi left"
        )
        assert found.sentence == "default/wanted would be admitted and lack its huge pages on 1 node"
