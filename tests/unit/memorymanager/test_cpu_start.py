"""How the CPU Manager starts, or why not, and what it restores.

The restored pods have pod-level resources, and a restarted kubelet admits them again (kubernetes/kubernetes#141041):
eight CPUs on one node, CPU 0 reserved. The cases marked `kubelet` are those of the kubelet's own table
(policy_static_restore_test.go); the others follow from the rule that these show.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubelets.cpu_machines import EIGHT_CORES, GUEST, cpus_of, regular
from numaudit.containermanager.cpu.allocation import RefusedWithState, allocate_pod
from numaudit.containermanager.cpu.hints import CPUContainer, CPUPod, hints_for_pod
from numaudit.containermanager.cpu.start import create_cpu_manager, start
from numaudit.containermanager.cpu.topology import CPUOptions, CPUPolicy, CPUState
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.containermanager.topologymanager.policy import OptionGates
from numaudit.errors import InputError
from numaudit.topology.nodeset import CpuSet, NodeSet

PLAIN = CPUPolicy(GUEST, CpuSet.of(0))
STRICT = CPUPolicy(GUEST, CpuSet.of(0), CPUOptions(strict_cpu_reservation=True))


def created(reserved_cpu: int | None, reserved_cpus: str = "", **options: str) -> CPUPolicy:
    policy = create_cpu_manager(
        "static",
        {name.replace("_", "-"): value for name, value in options.items()},
        EIGHT_CORES,
        reserved_cpu=reserved_cpu,
        reserved_cpus=CpuSet.parse(reserved_cpus),
        gates=OptionGates(alpha=True),
    )
    assert policy is not None
    return policy


def refusal(name: str = "static", options: Mapping[str, str] | None = None, **given: object) -> str:
    with pytest.raises(InputError) as caught:
        create_cpu_manager(name, options or {}, EIGHT_CORES, **{"reserved_cpu": 500, **given})  # type: ignore[arg-type]
    return str(caught.value)


def test_policy_none_has_no_state_to_speak_of() -> None:
    assert create_cpu_manager("none", {}, GUEST, reserved_cpu=None) is None


def test_policy_none_takes_no_options() -> None:
    assert refusal("none", {"b": "2", "a": "1"}) == (
        "new none policy error: None policy: received unsupported options=map[a:1 b:2]"
    )


def test_other_policies_are_unknown() -> None:
    assert refusal("Static") == 'unknown policy: "Static"; did you mean static?'


def test_static_needs_cpus_to_reserve() -> None:
    assert refusal(reserved_cpu=None) == ("[cpumanager] unable to determine reserved CPU resources for static policy")
    assert refusal(reserved_cpu=0) == (
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    )


def test_reserved_cpus_are_rounded_up_and_taken_as_a_containers_would_be() -> None:
    assert created(500).reserved == CpuSet.of(0)
    assert created(1001).reserved == CpuSet.of(0, 8)
    assert created(2000, distribute_cpus_across_cores="true").reserved == CpuSet.of(0, 1)
    assert created(2000, distribute_cpus_across_numa="true").reserved == CpuSet.of(0, 8)


def test_a_given_set_replaces_the_amount() -> None:
    assert created(500, "3,5").reserved == CpuSet.of(3, 5)
    assert created(None, "3,5").reserved == CpuSet.of(3, 5)


def test_a_given_set_must_be_online() -> None:
    assert refusal(reserved_cpus=CpuSet.of(1, 16)) == "reserved-cpus: 1,16 is not a subset of online-cpus: 0-15"


def test_more_reserved_cpus_than_there_are_show_as_a_wrong_size() -> None:
    assert refusal(reserved_cpu=16_001) == (
        "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
        "(size of  did not equal 17)"
    )


def test_bad_options_are_wrapped() -> None:
    assert refusal(options={"x": "1"}) == 'new static policy error: unknown CPU Manager Policy option: "x"'
    both = {"full-pcpus-only": "1", "distribute-cpus-across-cores": "1"}
    assert refusal(options=both, gates=OptionGates(alpha=True)).startswith(
        "new static policy error: static policy options full-pcpus-only and "
    )
    socket = {"align-by-socket": "1"}
    refused = refusal(options=socket, gates=OptionGates(alpha=True), topology_manager_policy="single-numa-node")
    assert refused.startswith("new static policy error: Topolgy manager")


def test_an_empty_state_becomes_all_cpus() -> None:
    assert start(PLAIN) == CPUState(GUEST.cpus)
    assert start(PLAIN, CPUState(CpuSet())) == CPUState(GUEST.cpus)
    assert start(STRICT) == CPUState(CpuSet.parse("1-7"))


def test_a_recorded_state_is_accepted_and_what_was_reusable_is_forgotten() -> None:
    entries = {"init-pod": {"app": CpuSet.of(5), "init": CpuSet.of(5)}, "small": {"app": CpuSet.of(1)}}
    state = CPUState(CpuSet.parse("0,2-4,6-7"), entries, reusable={"init-pod": CpuSet.of(5)})
    assert start(PLAIN, state) == CPUState(state.default_cpus, entries)


def test_the_cpus_of_a_whole_pod_are_known_cpus() -> None:
    pod = CPUState(CpuSet.parse("0-5"), {}, {"pod": CpuSet.parse("6-7")})
    assert start(PLAIN, pod) == pod


@pytest.mark.parametrize(
    ("policy", "default", "held", "message"),
    [
        (PLAIN, "", "1", "default cpuset cannot be empty"),
        (PLAIN, "1-7", "", 'not all reserved cpus: "0" are present in defaultCpuSet: "1-7"'),
        (STRICT, "0-7", "", 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-7"'),
        (PLAIN, "0-7", "6-7", 'pod: uid, container: app cpuset: "6-7" overlaps with default cpuset "0-7"'),
        (
            PLAIN,
            "0-5",
            "6",
            'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-6"',
        ),
        (
            PLAIN,
            "0-5",
            "6-8",
            'current set of available CPUs "0-7" doesn\'t match with CPUs in state "0-8"',
        ),
        (
            STRICT,
            "1-5",
            "6",
            'current set of available CPUs "1-7" doesn\'t match with CPUs in state "1-6"',
        ),
    ],
)
def test_a_state_that_is_not_true_any_more_stops_the_kubelet(
    policy: CPUPolicy, default: str, held: str, message: str
) -> None:
    entries = {"uid": {"app": CpuSet.parse(held)}} if held else {}
    with pytest.raises(InputError) as caught:
        start(policy, CPUState(CpuSet.parse(default), entries))
    assert str(caught.value) == message


def test_a_hyperthread_taken_offline_is_noticed() -> None:
    before = regular(sockets=1, nodes=1, cores=2, threads=2)
    after = type(before)({cpu: info for cpu, info in before.details.items() if cpu != 3})
    with pytest.raises(InputError, match='"0-2" doesn\'t match with CPUs in state "0-3"'):
        start(CPUPolicy(after, CpuSet.of(0)), CPUState(before.cpus))


@given(cpus_of(GUEST), st.booleans())
def test_a_state_that_covers_the_machine_once_is_accepted(held: CpuSet, strict: bool) -> None:
    held -= CpuSet.of(0)
    policy = STRICT if strict else PLAIN
    default = GUEST.cpus - held - (CpuSet.of(0) if strict else CpuSet())
    state = CPUState(default, {"uid": {"app": held}} if held else {})
    if default:
        assert start(policy, state) == state
    else:
        with pytest.raises(InputError, match="default cpuset cannot be empty"):
            start(policy, state)


TOPOLOGY = regular(sockets=1, nodes=1, cores=8, threads=1)
FIXED = CPUPolicy(TOPOLOGY, CpuSet.of(0), version=(1, 38))
UID = "uid"

Wishes = dict[str, int]
"""Container -> whole CPUs; `i...` are ordinary init containers, `s...` sidecars."""


def a_pod(cpus: int, wishes: Wishes) -> CPUPod:
    containers = (CPUContainer(name, count, name[0] in "is", name[0] == "s") for name, count in wishes.items())
    return CPUPod(UID, tuple(containers), pod_level=cpus)


def stored(default: str, own: str, recorded: dict[str, str]) -> CPUState:
    entries = {name: CpuSet.parse(cpus) for name, cpus in recorded.items()}
    return CPUState(CpuSet.parse(default), {UID: entries} if entries else {}, {UID: CpuSet.parse(own)})


RESTORED = {
    "kubelet: partial": (4, {"c1": 2, "c2": 2}, ("0,5-7", "1-4", {"c1": "1-2"}), {"c1": "1-2", "c2": "3-4"}),
    "kubelet: a shared one is missing": (
        3,
        {"c1": 2, "c2": 0},
        ("0,4-7", "1-3", {"c1": "1-2"}),
        {"c1": "1-2", "c2": "3"},
    ),
    "kubelet: an app reuses a restored init container": (
        2,
        {"i1": 2, "c1": 2},
        ("0,3-7", "1-2", {"i1": "1-2"}),
        {"i1": "1-2", "c1": "1-2"},
    ),
    "kubelet: two sidecars": (
        6,
        {"s1": 2, "s2": 2, "c1": 2},
        ("0,7", "1-6", {"s1": "1-2"}),
        {"s1": "1-2", "s2": "3-4", "c1": "5-6"},
    ),
    "kubelet: a hole among apps": (
        4,
        {"c1": 2, "c2": 2},
        ("0,5-7", "1-4", {"c2": "2,4"}),
        {"c1": "1-2", "c2": "3-4"},
    ),
    "whole, in another order": (
        4,
        {"c1": 2, "c2": 2},
        ("0,5-7", "1-4", {"c1": "3-4", "c2": "1-2"}),
        {"c1": "3-4", "c2": "1-2"},
    ),
    "whole, with a shared one": (
        3,
        {"c1": 2, "c2": 0},
        ("0,4-7", "1-3", {"c1": "2-3", "c2": "1"}),
        {"c1": "2-3", "c2": "1"},
    ),
    "nothing recorded": (4, {"c1": 2, "c2": 2}, ("0-3", "4-7", {}), {"c1": "4-5", "c2": "6-7"}),
    "a sidecar's are not reused": (
        4,
        {"s1": 2, "c1": 2},
        ("0,5-7", "1-4", {"s1": "3-4"}),
        {"s1": "3-4", "c1": "1-2"},
    ),
    "a hole among sidecars": (
        6,
        {"s1": 2, "s2": 2, "c1": 2},
        ("0,7", "1-6", {"s2": "1-2"}),
        {"s1": "1-2", "s2": "3-4", "c1": "5-6"},
    ),
    "the later one has what the order gives": (
        4,
        {"c1": 2, "c2": 2},
        ("0-3", "4-7", {"c2": "6-7"}),
        {"c1": "4-5", "c2": "6-7"},
    ),
    "an ended init container is missing": (
        2,
        {"i1": 2, "c1": 2},
        ("0-5", "6-7", {"c1": "6-7"}),
        {"i1": "6-7", "c1": "6-7"},
    ),
}


@pytest.mark.parametrize("case", RESTORED)
def test_a_pod_keeps_its_cpus_and_missing_containers_are_given_theirs_of_them(case: str) -> None:
    cpus, wishes, before, then = RESTORED[case]
    state = allocate_pod(FIXED, stored(*before), a_pod(cpus, wishes), NodeSet.of(0))
    assert {name: str(own) for name, own in state.entries[UID].items()} == then
    is_made_afresh = "a hole" in case
    assert str(state.pod_entries[UID]) == (f"1-{cpus}" if is_made_afresh else before[1])
    assert state.default_cpus | state.pod_entries[UID] == TOPOLOGY.cpus
    assert not state.default_cpus & state.pod_entries[UID]


def test_a_record_with_a_hole_is_made_afresh_of_all_free_cpus() -> None:
    state = allocate_pod(FIXED, stored("0-3", "4-7", {"c2": "4,6"}), a_pod(4, {"c1": 2, "c2": 2}), NodeSet.of(0))
    assert {name: str(own) for name, own in state.entries[UID].items()} == {"c1": "1-2", "c2": "3-4"}
    assert (str(state.pod_entries[UID]), str(state.default_cpus)) == ("1-4", "0,5-7")


def test_a_set_that_is_too_small_is_refused_and_released() -> None:
    """Of the kubelet's own table."""
    with pytest.raises(RefusedWithState, match="CPUs 1-2, fewer than the 4") as refused:
        allocate_pod(FIXED, stored("0,3-7", "1-2", {"c1": "1-2"}), a_pod(4, {"c1": 2, "c2": 2}), NodeSet.of(0))
    assert refused.value.state == CPUState(CpuSet.parse("0-7"))


NEAR = {"cpu": [TopologyHint(NodeSet.of(0), preferred=True)]}


@pytest.mark.parametrize(
    ("cpus", "wishes", "before", "hints"),
    [
        (4, {"c1": 2, "c2": 2}, ("0,5-7", "1-4", {"c1": "1-2", "c2": "3-4"}), NEAR),
        (4, {"c1": 2, "c2": 2}, ("0,5-7", "1-4", {"c1": "1-2"}), NEAR),
        (3, {"c1": 2, "c2": 0}, ("0,4-7", "1-3", {"c1": "1-2", "c2": "3"}), NEAR),
        (7, {"c1": 7}, ("0", "1-7", {"c1": "1-7"}), NEAR),
        (4, {"c1": 2, "c2": 2}, ("0,3-7", "1-2", {"c1": "1-2"}), {"cpu": []}),
    ],
    ids=("whole", "partial", "shared", "all that there are", "too small"),
)
def test_hints_come_of_the_pods_own_set(
    cpus: int, wishes: Wishes, before: tuple[str, str, dict[str, str]], hints: object
) -> None:
    assert hints_for_pod(FIXED, stored(*before), a_pod(cpus, wishes)) == hints


def test_1_36_offers_no_node_to_a_pod_with_a_container_that_has_a_share_of_its_cpus() -> None:
    old = CPUPolicy(TOPOLOGY, CpuSet.of(0), version=(1, 36))
    state = stored("0,4-7", "1-3", {"c1": "1-2", "c2": "3"})
    assert hints_for_pod(old, state, a_pod(3, {"c1": 2, "c2": 0})) == {"cpu": []}
