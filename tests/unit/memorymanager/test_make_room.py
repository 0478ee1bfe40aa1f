"""The pods that have to leave are the fewest that do, by a brute force that knows nothing of the search."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from made_up.scenarios import Plain, machine, play, pod, scenario
from numaudit.containermanager.pod.manifest import read_pod
from numaudit.containermanager.pod.spec import Pod
from numaudit.errors import NumauditError
from numaudit.memorymanager.admission import NodeState, admit, remove
from numaudit.memorymanager.kubelet import Kubelet
from numaudit.scenario.make_room import MOST_TRIES, MakeRoom, make_room

ONE_NODE = {"topologyManagerPolicy": "single-numa-node"}
PINNED = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}


def room_after(
    given_machine: Plain, before: list[Plain], last: Plain, kubelet: Plain | None = None, most: int = MOST_TRIES
) -> MakeRoom:
    played = play(scenario(given_machine, [{"admit": one} for one in before], kubelet=kubelet))
    assert all(step.admitted for step in played.steps)
    return make_room(played.kubelet, played.state, read_pod(last), most_tries=most)


def names(room: MakeRoom) -> list[str] | None:
    return None if room.leavers is None else [one.name for one in room.leavers]


def test_the_one_pod_in_the_way_is_named_with_what_it_holds() -> None:
    found = room_after(machine("11Gi", "10Gi"), [pod("a", "6Gi"), pod("b", "5Gi")], pod("new", "10Gi"), ONE_NODE)
    assert (names(found), found.is_exact) == (["b"], True)
    assert found.leavers is not None
    assert found.leavers[0].holds == "5Gi of memory on node 1"


def test_of_sets_of_as_many_pods_the_one_that_holds_least_leaves() -> None:
    before = [pod("large", "8Gi"), pod("small", "7Gi")]
    assert names(room_after(machine("11Gi", "10Gi"), before, pod("new", "9Gi"), ONE_NODE)) == ["small"]


def test_of_pairs_of_pods_the_one_that_holds_least_leaves() -> None:
    before = [pod(name, f"{size}Gi", cpu="500m") for name, size in (("a", 3), ("b", 4), ("c", 5), ("d", 8))]
    found = room_after(machine("21Gi"), before, pod("new", "9Gi", cpu="500m"))
    assert (sorted(names(found) or ()), found.is_exact) == (["b", "c"], True)


def test_a_pod_that_fits_elsewhere_afterwards_returns_and_another_does_not() -> None:
    restricted = {"topologyManagerPolicy": "restricted"}
    whole = room_after(machine("11Gi", "10Gi", "10Gi"), [pod("a", "1Gi")], pod("new", "25Gi"), restricted)
    assert whole.leavers is not None
    assert [(one.name, one.returns) for one in whole.leavers] == [("a", False)]
    # Nodes 0 and 1 become the group of `new`, and node 2 is left to `a`.
    pair = room_after(machine("11Gi", "10Gi", "8Gi"), [pod("a", "1Gi")], pod("new", "20Gi"), restricted)
    assert pair.leavers is not None
    assert [(one.name, one.returns) for one in pair.leavers] == [("a", True)]


def test_a_search_that_gives_up_says_so_and_names_pods_of_which_none_can_stay() -> None:
    before = [pod(f"p{size}", f"{size}Gi", cpu="500m") for size in (1, 2, 3, 4)]
    given_up = room_after(machine("11Gi"), before, pod("new", "9Gi"), most=0)
    exact = room_after(machine("11Gi"), before, pod("new", "9Gi"))
    assert (given_up.is_exact, exact.is_exact) == (False, True)
    assert given_up.leavers is not None
    assert exact.leavers is not None
    assert len(exact.leavers) <= len(given_up.leavers) < len(before)


def test_a_search_that_gives_up_clears_the_node_where_fewest_have_to_leave() -> None:
    filled = [
        *(pod(f"small-{number}", f"{1000 + number}Mi", "500m") for number in range(10)),
        pod("large", "8Gi", "500m"),
    ]
    found = room_after(machine("11Gi", "10Gi"), filled, pod("new", "9Gi", "500m"), ONE_NODE, most=0)
    assert (names(found), found.is_exact) == (["large"], False)


def test_more_memory_than_the_machine_has_is_seen_without_a_try() -> None:
    filled = [pod(f"p{number}", f"{100 + number}Mi", "500m") for number in range(40)]
    found = room_after(machine("11Gi"), filled, pod("new", "90Gi"))
    assert found == MakeRoom(None, is_exact=True, tried=0, ruled_out=40, unnamed=0, doubtful=0)


def test_replicas_count_as_one_another() -> None:
    before = [pod(f"replica-{number}", "256Mi", cpu="500m") for number in range(36)]
    found = room_after(machine("11Gi"), before, pod("new", "9Gi"))
    assert found.leavers is not None
    assert (len(found.leavers), found.is_exact) == (32, True)
    assert found.tried == 1


def test_pods_that_stay_are_never_named() -> None:
    played = play(scenario(machine("11Gi"), [{"admit": pod("a", "6Gi")}]))
    assert (
        make_room(played.kubelet, played.state, read_pod(pod("new", "9Gi")), unnamed=list(played.state.pods)).leavers
        is None
    )


@st.composite
def situations(draw: st.DrawFn) -> tuple[Plain, Plain]:
    nodes = draw(st.lists(st.sampled_from(["6Gi", "8Gi", "11Gi"]), min_size=1, max_size=4))
    memory = st.sampled_from(["1Gi", "2Gi", "3Gi", "5Gi", "9Gi", "14Gi"])
    cpu = st.sampled_from(["500m", "1", "2"])
    pods = [pod(f"p{number}", draw(memory), draw(cpu)) for number in range(draw(st.integers(0, 8)))]
    steps: list[Plain] = [{"admit": one} for one in pods]
    if draw(st.booleans()) and pods:
        steps.append({"remove": {"pod": draw(st.sampled_from(pods))["metadata"]["name"]}})
    kubelet: Plain = {
        "topologyManagerPolicy": draw(st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])),
        "topologyManagerScope": draw(st.sampled_from(["container", "pod"])),
        **(draw(st.sampled_from([{}, PINNED]))),
    }
    last = pod("new", draw(memory), draw(cpu))
    if draw(st.booleans()):
        other = {"name": "second", "resources": {"limits": {"cpu": draw(cpu), "memory": draw(memory)}}}
        last["spec"]["containers"].append(other)
    return scenario(machine(*nodes), steps, kubelet=kubelet), last


@given(situations())
def test_no_smaller_set_of_pods_lets_it_in_by_brute_force(situation: tuple[Plain, Plain]) -> None:
    given_scenario, last = situation
    played = play(given_scenario)
    wanted = read_pod(last)
    found = make_room(played.kubelet, played.state, wanted)
    assert found.is_exact
    expected = _brute_force(played.kubelet, played.state, wanted)
    if found.leavers is None:
        assert expected is None
    else:
        leaving = {one.uid for one in found.leavers}
        assert _lets_in(played.kubelet, played.state, wanted, leaving)
        assert (len(leaving), _held(played.state, leaving)) == expected


@given(situations(), st.integers(0, 8))
def test_a_search_of_any_length_names_pods_whose_removal_works(situation: tuple[Plain, Plain], most: int) -> None:
    given_scenario, last = situation
    played = play(given_scenario)
    wanted = read_pod(last)
    found = make_room(played.kubelet, played.state, wanted, most_tries=most)
    leaving = {one.uid for one in found.leavers or ()}
    if found.leavers is not None:
        assert _lets_in(played.kubelet, played.state, wanted, leaving)
    expected = _brute_force(played.kubelet, played.state, wanted)
    assert expected is None or expected[0] > found.ruled_out or found.leavers == ()
    if not found.is_exact:
        for stays in leaving:
            assert not _lets_in(played.kubelet, played.state, wanted, leaving - {stays})


def _brute_force(kubelet: Kubelet, state: NodeState, wanted: Pod) -> tuple[int, int] | None:
    """How many pods leave at least, and how little memory so many hold; None = it is of no use to remove any."""
    for size in range(len(state.pods) + 1):
        working = [set(some) for some in combinations(state.pods, size) if _lets_in(kubelet, state, wanted, set(some))]
        if working:
            return size, min(_held(state, some) for some in working)
    return None


def _lets_in(kubelet: Kubelet, state: NodeState, wanted: Pod, leaving: set[str]) -> bool:
    for uid in leaving:
        state = remove(state, uid)
    try:
        return admit(kubelet, state, wanted).admitted
    except NumauditError:
        return False


def _held(state: NodeState, uids: set[str]) -> int:
    entries = state.memory.state.entries
    return sum(block.size for uid in uids for blocks in entries.get(uid, {}).values() for block in blocks)
