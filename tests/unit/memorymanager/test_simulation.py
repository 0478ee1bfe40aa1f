"""Scenarios are played as a kubelet would: the recorded kubelet's pods, and what follows from each step."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from made_up.scenarios import Plain, machine, play, pod, scenario
from numaudit.api.simulation_document import simulation
from numaudit.errors import InputError
from numaudit.scenario import files
from numaudit.scenario.explanation import accounts_of
from numaudit.scenario.simulation import ScenarioRun
from numaudit.scenario.values import Fate

GIB = 1 << 30


def free(played: ScenarioRun, index: int) -> list[int]:
    return [node.memory_map["memory"].free // GIB for node in played.steps[index].after.memory.state.machine.values()]


def test_memory_of_a_pod_that_ended_stays_in_the_map_until_the_next_admission() -> None:
    steps = [{"admit": pod("a", "5Gi")}, {"remove": {"pod": "a"}}, {"admit": pod("b", "1Gi")}]
    played = play(scenario(machine("11Gi", "11Gi"), steps))
    assert free(played, 1) == [5, 11]
    assert free(played, 2) == [9, 11]
    assert "until the next admission" in str(played.steps[1].note)


def test_memory_of_a_container_that_is_removed_is_free_at_once() -> None:
    steps = [{"admit": pod("a", "5Gi")}, {"remove": {"pod": "default/a", "container": "app"}}]
    assert free(play(scenario(machine("11Gi", "11Gi"), steps)), 1) == [10, 11]


def test_a_pod_of_any_namespace_is_known_by_its_name_while_one_alone_has_it() -> None:
    other, own = pod("a", "5Gi"), pod("a", "5Gi")
    other["metadata"]["namespace"], own["metadata"]["namespace"] = "x", "y"
    end = {"remove": {"pod": "a", "container": "app"}}
    assert free(play(scenario(machine("11Gi"), [{"admit": other}, end])), 1) == [10]
    with pytest.raises(InputError, match="several namespaces have such a pod"):
        play(scenario(machine("21Gi"), [{"admit": other}, {"admit": own}, end]))


def test_a_refused_pod_neither_starts_nor_ends() -> None:
    steps = [
        {"admit": pod("a", "50Gi")},
        {"start": {"pod": "a", "container": "app"}},
        {"remove": {"pod": "a"}},
        {"admit": pod("a", "1Gi")},
    ]
    played = play(scenario(machine("11Gi", "11Gi"), steps))
    assert [one.admitted for one in played.steps] == [False, None, None, True]
    assert "is not on the node" in str(played.steps[1].note)


def test_a_kubelet_that_does_not_start_again_admits_nothing_until_it_does() -> None:
    steps = [
        {"admit": pod("a", "5Gi")},
        {"restart": {"machine": machine("11Gi", "12Gi")}},
        {"admit": pod("b")},
        {"restart": {"machine": machine("11Gi", "11Gi")}},
        {"admit": pod("b")},
    ]
    played = play(scenario(machine("11Gi", "11Gi"), steps))
    assert [one.admitted for one in played.steps] == [True, False, None, True, True]
    assert "the expected machine state is different from the real one" in str(played.steps[1].refusal)
    assert [one.fate for one in played.steps[3].readmissions] == [Fate.KEPT]


def test_a_changed_policy_keeps_the_kubelet_from_starting() -> None:
    steps = [{"admit": pod("a")}, {"restart": {"kubelet": {"memoryManagerPolicy": "None"}}}]
    played = play(scenario(machine("11Gi"), steps))
    assert 'configured policy "None" differs from state checkpoint policy "Static"' in str(played.steps[1].refusal)


def test_a_running_pod_that_a_restart_refuses_is_evicted_and_one_that_never_started_is_refused() -> None:
    stricter = {
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": "single-numa-node",
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    }
    wide = [{"admit": pod("wide", "15Gi")}, {"admit": pod("narrow", "1Gi")}]
    start = {"start": {"pod": "wide", "container": "app"}}
    restart = {"restart": {"kubelet": stricter}}
    nodes = machine("11Gi", "11Gi", "11Gi")
    fates = {"wide": Fate.EVICTED, "narrow": Fate.KEPT}
    played = play(scenario(nodes, [*wide, start, restart]))
    assert {one.admission.pod.name: one.fate for one in played.steps[-1].readmissions} == fates
    other = {"start": {"pod": "narrow", "container": "app"}}
    played = play(scenario(nodes, [*wide, other, restart]))
    assert played.steps[-1].readmissions[0].fate is Fate.REFUSED


def test_what_1_37_does_with_a_pod_that_has_cpus_as_a_whole_is_not_known() -> None:
    whole = {"cpu": "2", "memory": "2Gi"}
    containers = [{"name": "app", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, {"name": "side"}]
    one = {
        "metadata": {"name": "a", "uid": "a"},
        "spec": {"resources": {"requests": whole, "limits": whole}, "containers": containers},
    }
    found = {}
    for version in ("1.36", "1.37", "1.38"):
        made = scenario(
            {"nodes": [{"id": 0, "cpus": "0-5", "memory": "11Gi"}]},
            [{"admit": one}, {"restart": {}}],
            kubelet={
                "memoryManagerPolicy": "Static",
                "cpuManagerPolicy": "static",
                "reservedSystemCPUs": "0",
                "topologyManagerPolicy": "single-numa-node",
                "topologyManagerScope": "pod",
                "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
            },
        )
        made |= {"kubernetesVersion": version, "featureGates": {"PodLevelResourceManagers": True}}
        found[version] = play(made)
    fates = {version: one.steps[-1].readmissions[0].fate for version, one in found.items()}
    assert fates == {"1.36": Fate.EVICTED, "1.37": Fate.UNKNOWN, "1.38": Fate.KEPT}
    assert [found["1.37"].steps[-1].admitted, found["1.37"].has_refusal, found["1.37"].is_open] == [None, False, True]
    (restarted,) = simulation(found["1.37"]).steps[-1].pods
    assert (restarted.fate, restarted.admitted, restarted.containers) == ("unknown", None, {})
    (account,) = accounts_of(found["1.36"].steps[-1])
    assert (
        "Container side has 1 CPU and asks for no exclusive one, so the CPU Manager offers no node" in account.sentence
    )
    assert "Upgrading to Kubernetes 1.38" in str(account.admitting_changes)
    assert "1.37" not in str(account.admitting_changes)


HUGE_PAGES, DRIFT, RESIZE = (
    "MemoryManagerHugepagesVerification",
    "MemoryManagerDriftTolerance",
    "InPlacePodVerticalScalingExclusiveCPUs",
)


def gated(gate: str, given: Plain, version: str = "1.38") -> ScenarioRun:
    return play({**given, "kubernetesVersion": version, "featureGates": {gate: True}})


def with_huge_pages() -> Plain:
    nodes = machine("11Gi", "11Gi")
    for one in nodes["nodes"]:
        one["hugepages"] = {"2Mi": 512}
    return nodes


def test_whether_the_kernel_has_huge_pages_free_is_not_known_of_an_admission() -> None:
    pages = {"hugepages-2Mi": "100Mi"}
    steps = [{"admit": pod("huge", **pages)}, {"admit": pod("plain")}, {"admit": pod("wide", **{**pages, "cpu": "99"})}]
    given = scenario(with_huge_pages(), steps)
    played = gated(HUGE_PAGES, given)
    assert [one.admitted for one in played.steps] == [None, True, False]
    assert (played.is_open, played.has_refusal) == (True, True)
    first = simulation(played).steps[0]
    assert (first.admitted, first.reason, first.outcome, first.containers) == (None, None, None, {})
    assert f"the feature gate {HUGE_PAGES}, which is not modelled here" in str(first.message)
    assert "too few hugepages-2Mi free" in str(first.message)
    assert first.note == "Later steps take it as admitted."
    assert [one.admitted for one in play(given).steps] == [True, True, False]


def test_a_pod_that_has_its_huge_pages_is_not_verified_again() -> None:
    steps: list[Plain] = [{"admit": pod("huge", **{"hugepages-2Mi": "100Mi"})}]
    before = play(scenario(with_huge_pages(), steps))
    state = json.loads(json.dumps(files.plain(before.kubelet, before.state)))
    played = gated(HUGE_PAGES, scenario(with_huge_pages(), [{"restart": {}}, *steps], state=state))
    assert [one.admitted for one in played.steps] == [True, True]


@pytest.mark.parametrize(
    ("version", "cpu", "admitted"), [("1.38", "2", None), ("1.37", "2", True), ("1.38", "1", True)]
)
def test_a_container_whose_exclusive_cpus_were_resized_is_not_foretold(
    version: str, cpu: str, admitted: bool | None
) -> None:
    """It holds one CPU; the manifest that comes asks for `cpu`."""
    kubelet = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}
    before = play(scenario(machine("11Gi"), [{"admit": pod("a")}], kubelet))
    state = json.loads(json.dumps(files.plain(before.kubelet, before.state)))
    steps = [{"admit": pod("a", cpu=cpu)}, {"admit": pod("b")}]
    played = gated(RESIZE, scenario(machine("11Gi"), steps, kubelet, state), version)
    assert [one.admitted for one in played.steps] == [admitted, True]
    if admitted is None:
        assert "container app has 1 exclusive CPU and asks for 2" in str(played.steps[0].problem)
        assert RESIZE in str(played.steps[0].problem)


@pytest.mark.parametrize(
    ("tolerance", "size", "more", "is_known"),
    [
        ("auto", "11265Mi", {}, False),
        (None, "11265Mi", {}, True),
        ("off", "11265Mi", {}, True),
        ("auto", "16Gi", {}, True),
        ("auto", "11265Mi", {"memoryManagerPolicy": "None"}, True),
    ],
)
def test_a_kubelet_that_tolerates_drift_may_start_with_the_memory_of_another_boot(
    tolerance: str | None, size: str, more: Plain, is_known: bool
) -> None:
    options = {} if tolerance is None else {"memoryManagerPolicyOptions": {"memory-drift-tolerance": tolerance}}
    kubelet = scenario({}, [], options)["kubelet"]
    restart = {"machine": machine("11Gi", size), "kubelet": {**kubelet, **more}}
    given = scenario(machine("11Gi", "11Gi"), [{"admit": pod("a")}, {"restart": restart}, {"admit": pod("b")}], options)
    played = gated(DRIFT, given)
    first, second, third = simulation(played).steps
    assert first.admitted is True
    assert second.admitted is (False if is_known else None)
    assert (second.reason, played.is_open) == (("StartRefused", False) if is_known else (None, True))
    if not is_known:
        assert "with memory-drift-tolerance auto (gate MemoryManagerDriftTolerance) it may accept" in str(
            second.message
        )
        assert (third.admitted, third.message) == (None, "it is not known whether the kubelet runs")
        state = json.loads(json.dumps(files.plain(played.kubelet, played.state)))
        with pytest.raises(InputError, match=r"cannot tell whether the kubelet starts with it: .*node 1: memory total"):
            gated(DRIFT, scenario(machine("11Gi", size), [], options, state))


def test_a_simulation_goes_on_where_another_ended() -> None:
    first, second = [{"admit": pod("wide", "15Gi")}], [{"admit": pod("narrow", "5Gi")}]
    nodes = machine("11Gi", "11Gi", "11Gi")
    whole = play(scenario(nodes, [*first, *second]))
    half = play(scenario(nodes, first))
    state = json.loads(json.dumps(files.plain(half.kubelet, half.state)))
    rest = play(scenario(nodes, second, state=state))
    assert files.plain(rest.kubelet, rest.state) == files.plain(whole.kubelet, whole.state)


def test_state_files_of_another_machine_name_what_differs() -> None:
    played = play(scenario(machine("11Gi", "11Gi"), [{"admit": pod("a")}]))
    state = json.loads(json.dumps(files.plain(played.kubelet, played.state)))
    with pytest.raises(InputError, match=r"node 1: memory total is 11Gi.* in the file, 12Gi.* on this machine"):
        play(scenario(machine("11Gi", "12Gi"), [], state=state))
    reserved = {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "2Gi"}}]}
    with pytest.raises(InputError, match=r"node 0: 1Gi.* of memory are reserved in the file, 2Gi.* by the kubelet's"):
        play(scenario(machine("11Gi", "11Gi"), [], kubelet=reserved, state=state))


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda own: {"kubeletconfig": own},
        lambda own: (
            {"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig"}
            | {"spec": {"machineConfigPoolSelector": {}, "kubeletConfig": own}}
        ),
        lambda own: {"version": "v1alpha1", "machine": {"kubelet": {"extraConfig": own, "extraArgs": {"v": 4}}}},
    ],
    ids=("configz", "openshift", "talos"),
)
def test_a_kubelets_configuration_is_found_in_what_people_have_of_it(wrapped: Callable[[object], object]) -> None:
    given = scenario(machine("11Gi"), [{"admit": pod("a")}])
    own = {**given["kubelet"], "maxPods": 250, "featureGates": {"MemoryManager": True}}
    played = play({**given, "kubelet": wrapped(own)})
    assert played.kubelet.memory_policy == "Static"
    assert played.steps[0].admitted
    with pytest.raises(InputError, match=r"ubelet[cC]onfig.*reservedMemory\[0\]|extraConfig\.reservedMemory\[0\]"):
        play({**given, "kubelet": wrapped({**own, "reservedMemory": [{"node": 0}]})})


def test_feature_gates_may_stand_among_the_kubelets_own_fields() -> None:
    gates = {"featureGates": {"PodLevelResourceManagers": True}}
    assert play(scenario(machine("11Gi"), [], kubelet=gates)).kubelet.features.manages_pod_level
    with pytest.raises(InputError, match=r"featureGates\.MemoryManager: must be true or false"):
        play(scenario(machine("11Gi"), [], kubelet={"featureGates": {"MemoryManager": "yes"}}))


@pytest.mark.parametrize(
    "given",
    [
        {"kubelet-arg": ["memory-manager-policy=Static", "--reserved-memory=0:memory=1Gi", "v=4"]},
        {
            "machine": {
                "kubelet": {"extraArgs": {"memory-manager-policy": "Static", "reserved-memory": ["0:memory=1Gi"]}}
            }
        },
        {
            "machine": {
                "kubelet": {
                    "extraConfig": {
                        "memoryManagerPolicy": "None",
                        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
                    },
                    "extraArgs": {"memory-manager-policy": "Static"},
                }
            }
        },
    ],
    ids=("k3s", "talos", "flags before the file"),
)
def test_flags_in_the_configuration_of_a_distribution_are_read(given: Plain) -> None:
    kubelet = play({**scenario(machine("11Gi"), []), "kubelet": given}).kubelet
    assert (kubelet.memory_policy, kubelet.reserved_memory) == ("Static", {0: {"memory": GIB}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kubelet-arg": ["config=/etc/k.yaml"]},
            r"kubelet-arg: .* is in /etc/k\.yaml.*: give that file, or .*configz",
        ),
        ({"kubelet-arg": ["feature-gates=A=maybe"]}, r"kubelet-arg: --feature-gates: expected true or false"),
        ({"kubelet-arg": 3}, r"kubelet-arg: must be a list"),
        (
            {"kind": "ClusterConfiguration"},
            r"kind: there is no KubeletConfiguration in .*kubectl get --raw /api/v1/nodes",
        ),
        ({"reservedCpus": "0"}, r"kubelet\.reservedCpus: unknown field; did you mean reservedSystemCPUs"),
        (
            {"memoryManagerPolicy": "static"},
            r"kubelet\.memoryManagerPolicy: unknown policy: \"static\"; did you mean Static\?",
        ),
        (
            {"topologyManagerPolicy": "single-numa"},
            r"kubelet\.topologyManagerPolicy: .*did you mean single-numa-node\?",
        ),
        (
            {"topologyManagerPolicy": "restricted", "topologyManagerScope": "Pod"},
            r"kubelet\.topologyManagerScope: unknown scope: .*; did you mean pod\?",
        ),
        (
            {
                "topologyManagerPolicy": "restricted",
                "topologyManagerPolicyOptions": {"prefer-closest-numa-node": "true"},
            },
            r"kubelet\.topologyManagerPolicyOptions: .*did you mean prefer-closest-numa-nodes\?",
        ),
        ({"cpuManagerPolicy": "Static"}, r"kubelet\.cpuManagerPolicy: unknown policy: .*did you mean static\?"),
        (
            {
                "cpuManagerPolicy": "static",
                "reservedSystemCPUs": "0",
                "cpuManagerPolicyOptions": {"full-pcpu-only": "true"},
            },
            r"kubelet\.cpuManagerPolicyOptions: .*did you mean full-pcpus-only",
        ),
        ({"cpuManagerPolicy": "static", "reservedSystemCPUs": "99"}, r"kubelet\.reservedSystemCPUs: reserved-cpus: 99"),
    ],
)
def test_a_wrong_field_or_value_of_the_kubelet_is_named_with_what_is_near(given: Plain, message: str) -> None:
    with pytest.raises(InputError, match=message):
        play({**scenario(machine("11Gi"), []), "kubelet": given})
