"""An explanation is the account of the library's own admission; what it offers as a way in was tried and works."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from made_up.scenarios import Plain, machine, play, pod, scenario
from numaudit.api import explanation_document, simulation_document
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.topologymanager.hints import SLOW_COMBINATIONS
from numaudit.containermanager.topologymanager.policy import KubeletHangs
from numaudit.errors import InputError
from numaudit.memorymanager.admission import admit
from numaudit.memorymanager.manager import fresh_state
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.scenario.explanation import AdmissionExplanation, accounts_of, admit_without, explain
from numaudit.scenario.make_room import make_room
from numaudit.scenario.simulation import find_orders
from numaudit.scenario.values import Fate
from numaudit.views.terminal import explanation_tables, simulation_tables


def times(factor: int) -> settings:
    """A decorator: so many times the examples of the profile in force."""
    return settings(max_examples=factor * settings().max_examples)


THREE = machine("11Gi", "11Gi", "11Gi")


def explained(given_machine: Plain, before: list[Plain], last: Plain, **kubelet: object) -> AdmissionExplanation:
    """Outcome of a pod after other pods were admitted."""
    played = play(scenario(given_machine, [{"admit": one} for one in before], kubelet=kubelet))
    assert all(one.admitted for one in played.steps)
    return explain(played.scenario.setup, played.state, read_pod(last))


def changes(found: AdmissionExplanation) -> list[str]:
    return [one.change for one in found.admitting_changes]


def test_the_width_and_the_choice_are_two_sentences() -> None:
    found = explained(machine("11Gi", "10Gi", "10Gi"), [], pod("a", "15Gi"))
    assert found.sentence == (
        "It needs 15Gi of memory, which takes two nodes: no single node has more than 10Gi allocatable. "
        "Nodes 0-1 are the first free pair."
    )


def test_a_pod_that_is_not_guaranteed_is_told_what_it_lacks() -> None:
    burstable = {
        "metadata": {"name": "b"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]},
    }
    assert explained(THREE, [], burstable).sentence.startswith(
        "The pod is Burstable, so the Memory Manager promises it no"
    )


def test_the_pod_that_keeps_a_node_alone_is_named_and_its_removal_works() -> None:
    two = machine("128Gi", "128Gi")
    found = explained(two, [pod("small", "1Gi")], pod("wide", "200Gi"))
    assert found.admission.rejection is not None
    assert found.admission.rejection.outcome is AdmissionOutcome.REJECTED_GROUP_RULE
    assert "containers use node 0 alone or in another group (default/small holds 1Gi on node 0)" in found.sentence
    assert changes(found)[0] == "Deleting pod default/small (frees 1Gi of memory on node 0)"
    assert changes(found)[1] == "Requesting 128Gi of memory instead of 200Gi in container app"


def test_where_no_single_pod_is_enough_two_are_named() -> None:
    found = explained(machine("21Gi", "20Gi"), [pod("a", "15Gi"), pod("b", "15Gi")], pod("wide", "25Gi"))
    assert changes(found)[0].startswith("Deleting pods default/a (frees ")


def test_where_two_pods_are_not_enough_all_that_have_to_leave_are_named() -> None:
    three = machine("11Gi", "10Gi", "10Gi")
    found = explained(three, [pod(name, "6Gi") for name in "abc"], pod("wide", "25Gi"), topologyManagerPolicy="none")
    assert changes(found) == ["Requesting 4Gi of memory instead of 25Gi in container app"]
    cpus = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0", "topologyManagerPolicy": "none"}
    one = machine("11Gi", cpus=64)
    found = explained(one, [pod(name, cpu="15") for name in "abcd"], pod("all", cpu="60"), **cpus)
    assert changes(found) == ["Deleting pods default/a, default/b, default/c and default/d"]


def test_a_degraded_pod_is_told_what_would_align_it() -> None:
    two = machine("128Gi", "128Gi")
    before = [{"admit": pod("wide", "200Gi")}, {"admit": pod("small", "1Gi")}, {"remove": {"pod": "wide"}}]
    played = play(scenario(two, [*before, {"admit": pod("late", "1Gi")}]))
    (account,) = accounts_of(played.steps[-1])
    assert "Nodes 0-1 are in a group with other nodes (default/small holds 1Gi on nodes 0-1)" in account.sentence
    assert account.admitting_changes[0].change.startswith(
        "Deleting pod default/small (frees 1Gi of memory on nodes 0-1)"
    )


def test_a_smaller_request_that_is_admitted_is_found() -> None:
    two = machine("16Gi", "16Gi")
    found = explained(two, [pod("a", "10Gi"), pod("b", "10Gi")], pod("c", "8Gi"))
    assert not found.admission.admitted
    assert "Requesting 6Gi of memory instead of 8Gi in container app" in changes(found)


def test_policy_none_has_no_merge_and_still_a_sentence() -> None:
    found = explained(THREE, [], pod("wide", "15Gi"), topologyManagerPolicy="none")
    assert found.admission.decisions == ()
    assert found.sentence.endswith(
        "The Topology Manager has no hint for it, so the Memory Manager chose nodes 0-1 itself."
    )
    refused = explained(THREE, [], pod("wide", "50Gi"), topologyManagerPolicy="none")
    assert "all nodes together have only 32Gi allocatable" in refused.sentence


def test_the_combinations_that_a_kubelet_walks_are_counted_and_minutes_are_foreseen() -> None:
    eight = machine(*["101Gi"] * 8)
    devices = {
        f"vendor.example/{kind}": {f"{kind}{node}{copy}": node for node in range(8) for copy in range(2)}
        for kind in ("nic", "gpu")
    }
    wanted = dict.fromkeys(devices, "1")
    kubelet = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    found = explained({**eight, "devices": devices}, [], pod("a", "50Gi", **wanted), **kubelet)
    (decision,) = found.admission.decisions
    assert decision.merge.combinations == 255**4 > SLOW_COMBINATIONS
    assert decision.merge.seconds == pytest.approx(258)
    quick = explained(eight, [], pod("a", "50Gi"), **kubelet)
    assert quick.admission.decisions[0].merge.combinations == 255**2
    assert quick.admission.decisions[0].merge.seconds is None


def test_pods_that_a_restart_refuses_are_explained_with_the_others_still_there() -> None:
    stricter = {"memoryManagerPolicy": "Static", "topologyManagerPolicy": "single-numa-node"}
    stricter |= {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}  # type: ignore[dict-item]
    steps = [{"admit": pod("wide", "15Gi")}, {"admit": pod("narrow", "5Gi")}, {"restart": {"kubelet": stricter}}]
    played = play(scenario(THREE, steps))
    assert [one.fate for one in played.steps[-1].readmissions] == [Fate.EVICTED, Fate.KEPT]
    (account,) = accounts_of(played.steps[-1])
    assert account.pod.name == "wide"
    assert any(one.change == "Setting topologyManagerPolicy to restricted" for one in account.admitting_changes)


def test_a_way_in_for_huge_pages_names_the_gate_that_looks_at_the_kernel() -> None:
    nodes = machine("11Gi")
    nodes["nodes"][0]["hugepages"] = {"2Mi": 512}
    asks = {"hugepages-2Mi": "800Mi"}
    given = {**scenario(nodes, [{"admit": pod("a", **asks)}]), "kubernetesVersion": "1.38"}
    given["featureGates"] = {"MemoryManagerHugepagesVerification": True}
    played = play(given)
    refused = explain(played.scenario.setup, played.state, read_pod(pod("b", **asks)))
    assert (refused.admission.admitted, refused.admission.problem) == (False, None)
    deletion = changes(refused)[0]
    assert deletion.startswith("Deleting pod default/a (frees")
    assert deletion.endswith(", where the kernel has its huge pages free,")
    alone = explain(played.scenario.setup, played.scenario.state, read_pod(pod("b", **asks)))
    assert (alone.admission.is_surely_admitted, alone.admitting_changes) == (False, ())
    assert not find_orders(played.scenario).complete


def _of(name: str, limits: Plain, **more: str) -> Plain:
    return {"name": name, "resources": {"limits": limits}, **more}


def test_an_amount_that_is_no_whole_number_of_bytes_is_named_and_the_next_whole_one_works() -> None:
    both = [_of("app", {"cpu": "1", "memory": "1Gi"}), _of("side", {"cpu": "1", "memory": "0.1Gi"})]
    for scope in ("pod", "container"):
        kubelet = {"topologyManagerScope": scope, "topologyManagerPolicy": "single-numa-node"}
        cpus = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
        found = explained(THREE, [], {"metadata": {"name": "a"}, "spec": {"containers": both}}, **kubelet, **cpus)
        rejection = found.admission.rejection
        assert rejection is not None
        assert "failed to represent quantity as int64" in rejection.message
        assert "Container side requests 107374182400m of memory, and the Memory Manager takes" in found.sentence
        assert "Container app needs 1Gi of memory. " in found.sentence
        assert changes(found)[0] == "Requesting 103Mi of memory instead of 107374182400m in container side"


def test_amounts_of_several_containers_become_whole_together() -> None:
    both = [_of("a", {"cpu": "1", "memory": "0.1Gi"}), _of("b", {"cpu": "1", "memory": "0.2Gi"})]
    found = explained(THREE, [], {"metadata": {"name": "a"}, "spec": {"containers": both}})
    assert changes(found)[0] == (
        "Requesting 103Mi of memory instead of 107374182400m in container a and "
        "205Mi of memory instead of 214748364800m in container b"
    )


def test_a_container_may_ask_for_what_the_others_of_its_pod_leave() -> None:
    both = [_of("a", {"cpu": "1", "memory": "6Gi"}), _of("b", {"cpu": "1", "memory": "6Gi"})]
    found = explained(
        machine("11Gi", "10Gi"),
        [],
        {"metadata": {"name": "a"}, "spec": {"containers": both}},
        topologyManagerPolicy="single-numa-node",
        topologyManagerScope="pod",
    )
    assert "Requesting 4Gi of memory instead of 6Gi in container a" in changes(found)


def test_huge_pages_of_a_size_that_the_machine_lacks_are_refused_and_named() -> None:
    gpus = {**THREE, "devices": {"vendor.example/gpu": {"g0": 0, "g1": 1}}}
    limits = {"memory": "2Gi", "hugepages-1Gi": "2Gi", "vendor.example/gpu": "2"}
    burstable = [{"name": "app", "resources": {"requests": {**limits, "memory": "1Gi"}, "limits": limits}}]
    pod_of_two = {"metadata": {"name": "a"}, "spec": {"containers": burstable}}
    found = explained(gpus, [], pod_of_two, topologyManagerPolicy="single-numa-node")
    assert found.sentence.endswith("The node has no 1Gi pages, which the pod requests as well.")
    guaranteed = explained(THREE, [], pod("a", **{"hugepages-1Gi": "2Gi"}))
    assert guaranteed.admission.rejection is not None
    assert guaranteed.admission.rejection.reason == "OutOfhugepages-1Gi"
    assert guaranteed.sentence.startswith("The node has no 1Gi pages, and this pod requests 2Gi; ")


@pytest.mark.parametrize(("cpu", "memory", "reason"), [("12001m", "1Gi", "OutOfcpu"), ("1", "32769Mi", "OutOfmemory")])
def test_a_pod_that_is_larger_than_the_empty_node_is_refused_whoever_else_is_there(
    cpu: str, memory: str, reason: str
) -> None:
    """The node has 12 CPUs, and 33Gi of which 1Gi is reserved."""
    limits = {"cpu": "100", "memory": "100Gi"}
    burstable = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}}]
    found = explained(THREE, [pod("other")], {"metadata": {"name": "a"}, "spec": {"containers": burstable}})
    rejection = found.admission.rejection
    assert rejection is not None
    assert (rejection.reason, rejection.shortage and rejection.shortage.used) == (reason, None)
    assert "used: unknown" in rejection.message
    assert not any(one.kind == "remove-pod" for one in found.admitting_changes)
    at_most = {"cpu": "12", "memory": "32Gi"}
    burstable[0]["resources"] = {"requests": at_most, "limits": limits}
    assert explained(THREE, [], {"metadata": {"name": "a"}, "spec": {"containers": burstable}}).admission.admitted


def test_in_pod_scope_the_request_is_the_pods() -> None:
    """An init container of 100Mi, a sidecar and an app: 200Mi at one time, of which no container asks for all."""
    small = {"cpu": "1", "memory": "100Mi"}
    spec = {
        "initContainers": [_of("init", small), _of("proxy", small, restartPolicy="Always")],
        "containers": [_of("app", small)],
    }
    found = explained(THREE, [], {"metadata": {"name": "a"}, "spec": spec}, topologyManagerScope="pod")
    assert found.sentence == "The pod needs 200Mi of memory. Node 0 is the first free node."


def test_a_pod_with_resources_of_its_own_is_told_who_leaves_it_alone() -> None:
    limits = {"cpu": "2", "memory": "2Gi"}
    own = {"requests": limits, "limits": limits}
    spec = {"resources": own, "containers": [_of("a", {"memory": "1Gi"})]}
    found = explained(THREE, [], {"metadata": {"name": "a"}, "spec": spec})
    assert found.sentence.startswith("The pod has resources of its own (spec.resources), and the static managers of ")
    burstable = {**spec, "resources": {"limits": limits}}
    advice = explained(THREE, [], {"metadata": {"name": "a"}, "spec": burstable}).sentence
    assert advice.endswith("To change that, give spec.resources limits of cpu and memory that equal its requests.")
    gates = {"PodLevelResourceManagers": True}
    setup = play({**scenario(THREE, []), "featureGates": gates}).scenario.setup
    managed = explain(setup, fresh_state(setup.kubelet), read_pod({"metadata": {"name": "a"}, "spec": spec}))
    assert managed.sentence == "It would not be Guaranteed by itself, so no memory of the pod is its own."


policies = st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])


def test_a_kubelet_that_gives_reserved_cpus_away_will_not_start_again() -> None:
    """kubernetes#140495: cores of two threads and of one, CPU 0 reserved; the kubelet gave 0-1 to the pod."""
    hybrid = {
        "nodes": [{"id": 0, "cpus": "0-5", "memory": "8Gi"}],
        "cores": [[0, 1], [2, 3], [4], [5]],
        "sockets": [[0, 1, 2, 3, 4, 5]],
    }
    kubelet = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    played = play(scenario(hybrid, [{"admit": pod("a", cpu="2")}, {"restart": {}}], kubelet))
    admitted, restarted = played.steps
    assert admitted.admitted
    assert admitted.start_refusal == restarted.refusal
    assert 'not all reserved cpus: "0" are present' in (restarted.refusal or "")
    assert "will not start again: not all" in (simulation_document.simulation(played).steps[0].note or "")
    found = explained(hybrid, [], pod("a", cpu="2"), **kubelet)
    shown = explanation_document.explanation(found, "best-effort", ())
    assert (shown.admitted, shown.fits, shown.start_refusal) == (True, False, restarted.refusal)
    assert found.sentence.endswith(f"But the kubelet will not start again: {restarted.refusal}.")
    assert explained(hybrid, [], pod("a", cpu="1"), **kubelet).start_refusal is None


def test_what_no_manager_looks_at_is_named() -> None:
    bound = pod("a")
    added = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}]
    assert read_pod({**bound, "spec": {**bound["spec"], "tolerations": added}}).not_checked == ()
    bound["spec"] |= {"nodeSelector": {"disk": "ssd"}, "affinity": {"x": {}}, "tolerations": [{"key": "gpu"}]}
    bound["spec"] |= {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
    bound["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    named = ("nodeSelector", "affinity", "resourceClaims", "tolerations", "host ports")
    assert read_pod(bound).not_checked == named


@pytest.mark.parametrize(("policy", "named"), [({"restartPolicy": "Always"}, ("host ports",)), ({}, ())])
def test_a_sidecars_host_port_counts_and_that_of_a_container_that_ends_does_not(
    policy: Plain, named: tuple[str, ...]
) -> None:
    one = pod("a")
    one["spec"]["initContainers"] = [{"name": "side", "ports": [{"containerPort": 80, "hostPort": 80}], **policy}]
    assert read_pod(one).not_checked == named


amounts = st.sampled_from(["1Gi", "2Gi", "64Mi", "0", "1", "0.1Gi", "1500m", "107374182400m", "12Gi", "9.5Ei", "3n"])
names = st.sampled_from(["cpu", "memory", "hugepages-2Mi", "hugepages-1Gi", "hugepages-64Ki", "vendor.example/nic"])
parts = st.dictionaries(names, amounts | st.sampled_from(["500m", "2", "4"]), max_size=3)


@st.composite
def containers(draw: st.DrawFn, name: str) -> Plain:
    limits = draw(parts) if draw(st.booleans()) else {}
    if draw(st.integers(0, 3)):
        limits |= {"cpu": draw(st.sampled_from(["1", "2", "500m", "1.0001", "300"])), "memory": draw(amounts)}
    resources = {"limits": limits, **({"requests": draw(parts)} if draw(st.integers(0, 5)) == 0 else {})}
    return {"name": name, "resources": resources}


@st.composite
def any_pods(draw: st.DrawFn, name: str) -> Plain:
    app = [draw(containers(f"c{number}")) for number in range(draw(st.integers(1, 3)))]
    init = [
        {**draw(containers(f"i{number}")), **({"restartPolicy": "Always"} if draw(st.booleans()) else {})}
        for number in range(draw(st.integers(0, 2)))
    ]
    spec: Plain = {"containers": app, "initContainers": init}
    if draw(st.integers(0, 3)) == 0:
        spec["resources"] = {"limits": draw(parts)}
    if draw(st.integers(0, 5)) == 0:
        spec["overhead"] = draw(parts)
    return {"metadata": {"name": name}, "spec": spec}


@st.composite
def any_nodes(draw: st.DrawFn) -> Plain:
    """A scenario's machine and kubelet, with one to three pods to admit."""
    count, cpu, nodes = draw(st.integers(1, 4)), 0, list[Plain]()
    pages = st.dictionaries(st.sampled_from(["2Mi", "1Gi", "64Ki"]), st.integers(0, 3), max_size=2)
    for number in range(count):
        cpus = draw(st.integers(0 if number else 2, 6))
        node = {"id": number, "memory": f"{draw(st.integers(6, 14))}Gi", "hugepages": draw(pages)}
        nodes.append({**node, **({"cpus": f"{cpu}-{cpu + cpus - 1}"} if cpus else {})})
        cpu += cpus
    nics = {f"nic{number}": draw(st.integers(0, count - 1)) for number in range(draw(st.integers(0, 3)))}
    kubelet: Plain = {
        "topologyManagerPolicy": draw(policies),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
        "memoryManagerPolicy": draw(st.sampled_from(["Static", "Static", "None"])),
    }
    if draw(st.booleans()):
        kubelet |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
        if draw(st.booleans()):
            kubelet["cpuManagerPolicyOptions"] = {"full-pcpus-only": "true"}
    gates: Plain = {}
    version = draw(st.sampled_from(["1.23", "1.28", "1.32", "1.34", "1.36", "1.37"]))
    if version == "1.36" and draw(st.booleans()):
        gates = {"PodLevelResourceManagers": True}
    if kubelet["memoryManagerPolicy"] == "None":
        kubelet["reservedMemory"] = None
    given_machine = {"nodes": nodes, "devices": {"vendor.example/nic": nics}}
    steps = [{"admit": draw(any_pods(f"p{number}"))} for number in range(draw(st.integers(0, 2)))]
    steps += [{"restart": {}}] if draw(st.booleans()) else []
    return {**scenario(given_machine, steps, kubelet), "kubernetesVersion": version, "featureGates": gates}


@times(2)
@given(any_nodes(), any_pods("last"))
def test_any_pod_on_any_machine_is_answered_or_refused_in_words(node: Plain, last: Plain) -> None:
    """What `fit` and `simulate` do with it, to the last line that they print."""
    try:
        played = play(node)
        setup, wanted = played.scenario.setup, read_pod(last)
        setup.kubelet  # noqa: B018
    except (InputError, KubeletHangs):
        return
    out = Console(file=StringIO(), width=200)
    simulation_tables.print_simulation(played, simulation_document.simulation(played), out)
    try:
        found = explain(setup, played.state, wanted)
        room = make_room(setup.kubelet, played.state, wanted, most_tries=10)
    except (InputError, KubeletHangs) as error:
        assert str(error)
        return
    shown = explanation_document.explanation(found, setup.kubelet.topology.policy, (), room)
    explanation_tables.print_explanations([shown], out)
    assert shown.sentence
    assert shown.admitted is (shown.message is None)
    admit_without(setup.kubelet, played.state, found.admission, played.state.pods)


sizes = st.sampled_from(["1Gi", "3Gi", "5Gi", "8Gi", "12Gi", "20Gi"])


@st.composite
def situations(draw: st.DrawFn) -> tuple[Plain, Plain]:
    nodes = machine(*(f"{size}Gi" for size in draw(st.lists(st.integers(8, 16), min_size=1, max_size=4))))
    resources = {}
    if draw(st.booleans()):
        count = len(nodes["nodes"])
        nodes["devices"] = {"vendor.example/nic": {f"nic{n}": draw(st.integers(0, count - 1)) for n in range(2)}}
        resources = {"vendor.example/nic": "1"}
    kubelet: Plain = {
        "topologyManagerPolicy": draw(policies),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
    }
    if draw(st.booleans()):
        kubelet |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    steps: list[Plain] = []
    for number in range(draw(st.integers(0, 5))):
        more = resources if draw(st.booleans()) else {}
        steps.append({"admit": pod(f"p{number}", draw(sizes), draw(st.sampled_from(["1", "3", "500m"])), **more)})
        if draw(st.integers(0, 3)) == 0:
            steps.append({"remove": {"pod": f"p{number}"}})
    more = resources if draw(st.booleans()) else {}
    last = pod("last", draw(sizes), draw(st.sampled_from(["1", "3", "6"])), **more)
    return scenario(nodes, steps, kubelet), last


@times(3)
@given(situations())
def test_an_explanation_never_disagrees_with_the_library(situation: tuple[Plain, Plain]) -> None:
    given_scenario, last = situation
    played = play(given_scenario)
    setup, state, wanted = played.scenario.setup, played.state, read_pod(last)
    found = explain(setup, state, wanted)
    assert found.admission == admit(setup.kubelet, state, wanted)
    for one in found.admission.decisions:
        hints = next(answer.hints for answer in one.answers if answer.provider == "memory")
        kept = [each.mask for each in one.candidates if each.verdict == "kept"]
        offered = (hints or {}).get("memory") or ()
        assert kept == [hint.affinity for hint in offered]
    assert found.sentence
    for way in found.admitting_changes:
        if match := re.fullmatch(r"Setting topologyManagerPolicy to (\S+)", way.change):
            kubelet = {**given_scenario["kubelet"], "topologyManagerPolicy": match[1]}
            other = play({**given_scenario, "kubelet": kubelet, "steps": []}).scenario.setup.kubelet
            assert admit(other, state, wanted).admitted
        if match := re.fullmatch(r"Requesting (\S+) of (memory|cpu) instead of \S+ in container app", way.change):
            limits = {**last["spec"]["containers"][0]["resources"]["limits"], match[2]: match[1]}
            smaller = {**last, "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]}}
            assert admit(setup.kubelet, state, read_pod(smaller)).admitted


@times(5)
@given(situations())
def test_a_simulation_never_disagrees_with_the_library(situation: tuple[Plain, Plain]) -> None:
    given_scenario, last = situation
    played = play({**given_scenario, "steps": [*given_scenario["steps"], {"admit": last}]})
    for one in played.steps:
        if one.admission is not None:
            assert one.admission == admit(one.kubelet, one.before, one.admission.pod)
