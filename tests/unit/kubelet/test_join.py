"""One container out of many sources."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from numaudit.checkpoints.formats.cpu import CpuCheckpoint
from numaudit.checkpoints.formats.device import DeviceCheckpoint, PodDevices
from numaudit.checkpoints.formats.memory import MemoryCheckpoint
from numaudit.containermanager.memory.state import Block, MemoryState
from numaudit.intent.node import ContainerIntent, Promise, PromisedDevices
from numaudit.intent.pods import HintRecord, PodContainer, PodFacts, Rejection
from numaudit.kubelet.intent.join import Joined, complete, join, rejections
from numaudit.kubelet.intent.promises import Checkpoints, by_container
from numaudit.kubelet.sources.podresources import PodResources
from numaudit.snapshot import Container, ContainerId
from numaudit.topology.nodeset import CpuSet, NodeSet

A, B = "a" * 64, "b" * 64
ONE_GIB = Block.of("memory", 1 << 30, NodeSet.of(0))
NOTHING = Checkpoints({}, True, {}, True, {}, True)


def cgroup(id_: int, pod_uid: str = "u1", container_id: str = A, name: str | None = None) -> Container:
    return Container(
        ContainerId(id_), f"/kubepods/{id_}", "container", container_id=container_id, pod_uid=pod_uid, name=name
    )


def pod(uid: str = "u1", name: str = "db-0", phase: str = "Running", *containers: PodContainer) -> PodFacts:
    own = containers or (PodContainer("db", "app", "running", A),)
    return PodFacts(uid, "prod", name, phase=phase, created_at=1000.0, containers=own)


def by_uid(*pods: PodFacts) -> dict[str, PodFacts]:
    return {one.uid: one for one in pods}


def joined(
    containers: Iterable[Container] = (),
    checkpoints: Checkpoints = NOTHING,
    pods: dict[str, PodFacts] | None = None,
    pods_are_current: bool = True,
    resources: Iterable[PodResources] | None = None,
    records: Iterable[HintRecord] = (),
    cgroups_are_settled: bool = False,
) -> Joined:
    return join(
        complete(tuple(containers), pods),
        checkpoints,
        pods=pods,
        pods_are_current=pods_are_current and pods is not None,
        resources=resources,
        records=records,
        cgroups_are_settled=cgroups_are_settled,
    )


def by_container_of(uid: str) -> Checkpoints:
    return replace(NOTHING, memory={(uid, "db"): (ONE_GIB,)})


def only(found: Joined) -> ContainerIntent:
    (one,) = found.containers
    return one


def test_a_cgroup_gets_its_name_from_the_id_in_the_pods_status() -> None:
    (named,) = complete([cgroup(1)], by_uid(pod()))
    assert (named.namespace, named.pod, named.name) == ("prod", "db-0", "db")


def test_a_container_that_restarts_has_two_cgroups_of_one_name() -> None:
    restarted = pod("u1", "db-0", "Running", PodContainer("db", "app", "running", B, previous_container_id=A))
    found = only(joined([cgroup(1, container_id=A), cgroup(2, container_id=B)], pods=by_uid(restarted)))
    assert found.cgroups == (1, 2)


def test_a_cgroup_that_no_status_knows_stays_without_a_name_and_a_promise() -> None:
    checkpoints = replace(NOTHING, memory={("u1", "db"): (ONE_GIB,)})
    found = only(joined([cgroup(1, container_id=B)], checkpoints, by_uid(pod())))
    assert found.cgroups == ()
    assert found.promise.memory == (ONE_GIB,)


def test_what_is_left_over_in_a_settled_pod_is_its_sandbox() -> None:
    named = complete([cgroup(1), cgroup(2, container_id=B)], by_uid(pod()))
    assert [(one.kind, one.name) for one in named] == [("container", "db"), ("sandbox", None)]


def test_an_init_container_that_ended_does_not_hide_the_sandbox() -> None:
    setup, app = PodContainer("setup", "init", "terminated", "c" * 64), PodContainer("db", "app", "running", A)
    settled = pod("u1", "db-0", "Running", setup, app)
    named = complete([cgroup(1), cgroup(2, container_id=B)], by_uid(settled))
    assert [(one.kind, one.name) for one in named] == [("container", "db"), ("sandbox", None)]


@pytest.mark.parametrize(
    ("containers", "cgroups"),
    [
        # Started, and the status does not know it yet: it may be the new one that is left over.
        ((PodContainer("db", "app", "running", A), PodContainer("web", "app", "waiting")), [A, B]),
        # It restarted: the old one is gone, the new one is not in the status.
        ((PodContainer("db", "app", "running", A),), [B]),
        # The sandbox, and one more without a name.
        ((PodContainer("db", "app", "running", A),), [A, B, "c" * 64]),
        # Two containers of the status claim it.
        ((PodContainer("db", "app", "running", A), PodContainer("web", "app", "running", A)), [A, B]),
        ((PodContainer("db", "app", "waiting"),), [B]),
    ],
)
def test_what_is_left_over_in_a_pod_that_changes_may_be_a_container(
    containers: tuple[PodContainer, ...], cgroups: list[str]
) -> None:
    named = complete(
        [cgroup(number, container_id=id_) for number, id_ in enumerate(cgroups)],
        by_uid(pod("u1", "db-0", "Running", *containers)),
    )
    assert {one.kind for one in named} == {"container"}


def test_a_name_that_contradicts_the_id_is_no_name() -> None:
    (named,) = complete([cgroup(1, name="other")], by_uid(pod()))
    assert named.name is None
    (named,) = complete([cgroup(1, name="db")], by_uid(pod()))
    assert named.name == "db"


def test_an_id_that_two_containers_claim_names_neither() -> None:
    twice = pod(
        "u1", "db-0", "Running", PodContainer("db", "app", "running", A), PodContainer("x", "app", "running", A)
    )
    (named,) = complete([cgroup(1)], by_uid(twice))
    assert named.name is None


def test_containers_of_one_name_in_two_pods_stay_apart() -> None:
    checkpoints = replace(NOTHING, memory={("u1", "db"): (ONE_GIB,)})
    other = pod("u2", "db-1", "Running", PodContainer("db", "app", "running", B))
    cgroups = [cgroup(1), cgroup(2, "u2", B)]
    first, second = joined(cgroups, checkpoints, by_uid(pod(), other)).containers
    assert (first.cgroups, first.promise.memory) == ((1,), (ONE_GIB,))
    assert (second.cgroups, second.promise.memory) == ((2,), ())


def test_an_entry_without_a_pod_is_stale_only_when_the_pods_are_known_now() -> None:
    checkpoints = replace(NOTHING, memory={("gone", "db"): (ONE_GIB,)})
    assert only(joined(checkpoints=checkpoints, pods={})).is_stale is True
    assert only(joined(checkpoints=checkpoints, pods={}, pods_are_current=False)).is_stale is None
    assert only(joined(checkpoints=checkpoints, pods=None)).is_stale is None


def test_without_pods_an_entry_is_stale_once_its_pod_had_time_to_get_a_cgroup() -> None:
    gone = by_container_of("gone")
    here = [cgroup(1, "u1", name="db")]
    stale = {one.pod_uid: one.is_stale for one in joined(here, gone, cgroups_are_settled=True).containers}
    assert stale == {"u1": False, "gone": True}
    assert [one.is_stale for one in joined(here, gone).containers if one.pod_uid == "gone"] == [None]
    # No pod's cgroup is seen at all: they may be out of sight.
    assert only(joined((), gone, cgroups_are_settled=True)).is_stale is None
    # The kubelet listed its pods once: cgroups alone do not outweigh that.
    old = joined(here, gone, by_uid(pod()), pods_are_current=False, cgroups_are_settled=True)
    assert [one.is_stale for one in old.containers if one.pod_uid == "gone"] == [None]


def test_an_entry_of_a_pod_that_still_has_a_cgroup_is_not_stale() -> None:
    checkpoints = replace(NOTHING, memory={("gone", "db"): (ONE_GIB,)})
    (found,) = joined([cgroup(1, "gone", name="db")], checkpoints, {}).containers
    assert found.is_stale is False


def test_an_entry_of_a_pod_that_ended_but_is_still_listed_is_stale() -> None:
    checkpoints = replace(NOTHING, memory={("u1", "db"): (ONE_GIB,)})
    ended = only(joined(checkpoints=checkpoints, pods=by_uid(pod(phase="Succeeded"))))
    assert (ended.is_stale, ended.has_ended) == (True, True)


def test_a_container_without_an_entry_is_not_stale() -> None:
    assert only(joined(pods=by_uid(pod()))).is_stale is False


def test_an_init_container_that_ended_differs_from_one_that_runs() -> None:
    parts = PodContainer("init", "init", "terminated", B), PodContainer("db", "app", "running", A)
    found = joined(pods=by_uid(pod("u1", "db-0", "Running", *parts))).containers
    assert [(one.name, one.has_ended) for one in found] == [("init", True), ("db", False)]


def test_an_app_container_that_ended_may_come_back() -> None:
    crashed = pod("u1", "db-0", "Running", PodContainer("db", "app", "terminated", A))
    assert only(joined(pods=by_uid(crashed))).has_ended is False
    unknown = pod("u1", "db-0", "Running", PodContainer("db", "app", None, A))
    assert only(joined(pods=by_uid(unknown))).has_ended is None


def test_what_a_current_checkpoint_lacks_is_nothing_and_what_an_old_one_lacks_is_not_known() -> None:
    assert only(joined(pods=by_uid(pod()))).promise == Promise((), CpuSet(), ())
    old = replace(NOTHING, memory_is_current=False, cpus_are_current=False, devices_are_current=False)
    assert only(joined(checkpoints=old, pods=by_uid(pod()))).promise == Promise(None, None, None)
    assert only(joined(checkpoints=Checkpoints(), pods=by_uid(pod()))).promise == Promise(None, None, None)


def test_without_checkpoints_podresources_tells() -> None:
    given_ = Promise((ONE_GIB,), CpuSet.of(3), ())
    resources = [PodResources("prod", "db-0", {"db": given_})]
    assert only(joined(checkpoints=Checkpoints(), pods=by_uid(pod()), resources=resources)).promise == given_


def test_podresources_of_a_name_that_two_living_pods_have_is_not_used() -> None:
    resources = [PodResources("prod", "db-0", {"db": Promise((ONE_GIB,))})]
    pods = by_uid(pod(), pod("u2"))
    for found in joined(checkpoints=Checkpoints(), pods=pods, resources=resources).containers:
        assert found.promise.memory is None
    # The other one ended: there is only one left that it can be.
    pods = by_uid(pod(), pod("u2", phase="Failed"))
    first, second = joined(checkpoints=Checkpoints(), pods=pods, resources=resources).containers
    assert first.promise.memory == (ONE_GIB,)
    assert second.promise.memory is None


def test_without_pods_names_of_the_cgroups_join_podresources() -> None:
    one = replace(cgroup(1, name="db"), namespace="prod", pod="db-0")
    resources = [PodResources("prod", "db-0", {"db": Promise((ONE_GIB,))})]
    assert only(joined([one], Checkpoints(), None, resources=resources)).promise.memory == (ONE_GIB,)


def test_without_pods_the_names_of_the_cgroups_are_those_of_the_pod() -> None:
    checkpoints = by_container_of("u1")
    named = replace(cgroup(1, name="db"), namespace="prod", pod="db-0")
    found = only(joined([named], checkpoints, None))
    assert (found.namespace, found.pod) == ("prod", "db-0")
    half_named = replace(named, pod=None)
    found = only(joined([half_named], checkpoints, None))
    assert (found.namespace, found.pod) == (None, None)
    assert {one.pod for one in joined([replace(named, pod_uid="u2")], checkpoints, None).containers} == {None, "db-0"}


def test_sources_that_contradict_each_other_are_named() -> None:
    checkpoints = replace(NOTHING, memory={("u1", "db"): (ONE_GIB,)}, cpus={("u1", "db"): CpuSet.of(1)})
    other = Promise((replace(ONE_GIB, numa_affinity=(1,)),), CpuSet.of(2))
    found = joined(checkpoints=checkpoints, pods=by_uid(pod()), resources=[PodResources("prod", "db-0", {"db": other})])
    assert found.conflicts == (
        "prod/db-0/db: memory is 1Gi of memory on node 0 by the checkpoint, 1Gi of memory on node 1 by PodResources",
    )
    assert only(found).promise.memory == (ONE_GIB,)
    same = Promise((ONE_GIB,), CpuSet.of(1))
    agreed = joined(checkpoints=checkpoints, pods=by_uid(pod()), resources=[PodResources("prod", "db-0", {"db": same})])
    assert agreed.conflicts == ()


def test_a_record_without_uid_is_joined_by_name_to_a_pod_that_was_there() -> None:
    record = HintRecord("prod", "db-0", "db", at=1000.5)
    assert only(joined(pods=by_uid(pod()), records=[record])).hints == replace(record, pod_uid="u1")
    # Of a pod of that name before: the one that lives came later.
    assert only(joined(pods=by_uid(pod()), records=[replace(record, at=900.0)])).hints is None
    # Two pods of that name.
    for found in joined(pods=by_uid(pod(), pod("u2")), records=[record]).containers:
        assert found.hints is None


def test_a_uid_that_came_back_has_its_newest_record() -> None:
    old, new = HintRecord("prod", "db-0", "db", "u1", 1.0), HintRecord("prod", "db-0", "db", "u1", 2.0)
    assert only(joined(pods=by_uid(pod()), records=[old, new])).hints == new


def test_a_record_of_the_whole_pod_is_every_containers() -> None:
    whole = HintRecord("prod", "db-0", None, "u1", 1.0)
    parts = PodContainer("x", "app", "running", B), PodContainer("db", "app", "running", A)
    for found in joined(pods=by_uid(pod("u1", "db-0", "Running", *parts)), records=[whole]).containers:
        assert found.hints == whole


def test_a_pod_is_rejected_once_whoever_tells() -> None:
    by_pod = Rejection("u1", "prod", "db-0", "TopologyAffinityError", "m", 1000.0)
    by_log = replace(by_pod, at=1000.7)
    listed = by_uid(replace(pod(phase="Failed"), rejection=by_pod))
    assert rejections(listed, {"u1": by_log}) == (by_log,)
    assert rejections(listed, {}) == (by_pod,)
    assert rejections(None, {"u1": by_log}) == (by_log,)
    newer = replace(by_pod, reason="UnexpectedAdmissionError", at=2000.0)
    assert rejections(by_uid(replace(pod(phase="Failed"), rejection=newer)), {"u1": by_log}) == (newer,)


def test_nodes_in_another_order_are_no_contradiction() -> None:
    checkpoints = replace(NOTHING, memory={("u1", "db"): (Block((1, 0), "memory", 1 << 30),)})
    other = Promise((Block((0, 1), "memory", 1 << 30),))
    resources = [PodResources("prod", "db-0", {"db": other})]
    assert joined(checkpoints=checkpoints, pods=by_uid(pod()), resources=resources).conflicts == ()


def test_checkpoints_are_sorted_by_container() -> None:
    block = Block((0, 1), "hugepages-2Mi", 4 << 20)
    memory = MemoryCheckpoint.of("Static", MemoryState({}, {"u1": {"db": (block,)}}, {"u9": (block,)}), pod_level=True)
    cpu = CpuCheckpoint("static", "0,4", {"u1": {"db": "1-2"}}, {"u9": "3"}, checksum=0)
    nic = PodDevices("u1", "db", "vendor.example/nic", {0: ("n1",), -1: ("n2",)}, None)
    fuse = PodDevices("u1", "db", "vendor.example/fuse", {-1: ("f",)}, None)
    devices = DeviceCheckpoint((nic, fuse), {}, 0)
    found = by_container(memory, cpu, devices, current=(True, True, True))
    assert found.memory == {("u1", "db"): (block,)}
    assert found.cpus == {("u1", "db"): CpuSet.of(1, 2)}
    assert found.devices == {
        ("u1", "db"): (
            PromisedDevices("vendor.example/nic", ("n1",), NodeSet.of(0)),
            PromisedDevices("vendor.example/nic", ("n2",), None),
            PromisedDevices("vendor.example/fuse", ("f",), None),
        )
    }
    assert found.keys == {("u1", "db")}


UIDS = st.sampled_from(["u1", "u2", "u3"])
NAMES = st.sampled_from(["db", "web", "init"])
PARTS = st.builds(
    PodContainer,
    NAMES,
    st.sampled_from(["init", "sidecar", "app"]),
    st.sampled_from([None, "waiting", "running", "terminated"]),
    st.sampled_from([None, A, B]),
)
PODS = st.dictionaries(UIDS, st.tuples(st.sampled_from(["db-0", "db-1"]), st.lists(PARTS, max_size=3), st.booleans()))
KEYS = st.dictionaries(st.tuples(UIDS, NAMES), st.just((ONE_GIB,)))
CGROUPS = st.lists(st.tuples(UIDS, st.sampled_from([A, B]), st.none() | NAMES), max_size=6)


@given(PODS, KEYS, CGROUPS, st.booleans())
def test_whatever_the_sources_say_each_container_is_joined_once(
    listed: dict[str, tuple[str, list[PodContainer], bool]],
    entries: dict[tuple[str, str], tuple[Block]],
    cgroups: list[tuple[str, str, str | None]],
    current: bool,
) -> None:
    pods = {
        uid: PodFacts(uid, "prod", name, phase="Failed" if ended else "Running", containers=tuple(parts))
        for uid, (name, parts, ended) in listed.items()
    }
    containers = [cgroup(index, *one) for index, one in enumerate(cgroups)]
    found = joined(containers, Checkpoints(entries, current), pods, current)
    keys = [(one.pod_uid, one.name) for one in found.containers]
    assert len(keys) == len(set(keys))
    assert set(entries) <= set(keys)
    used = [id_ for one in found.containers for id_ in one.cgroups]
    assert len(used) == len(set(used))
    for one in found.containers:
        if (one.pod_uid, one.name) in entries:
            assert one.promise.memory == (ONE_GIB,)
        else:
            assert one.promise.memory == (() if current else None)
            assert one.is_stale is False


def listed(promise: Promise) -> tuple[PodResources, ...]:
    return (PodResources("prod", "db-0", {"db": promise}),)


STATIC = replace(NOTHING, memory_policy="Static")


def test_a_promise_that_only_podresources_knows_counts_and_is_a_conflict() -> None:
    device = PromisedDevices("vendor/nic", ("n1",), NodeSet.of(0))
    found = joined([cgroup(1)], STATIC, by_uid(pod()), resources=listed(Promise((ONE_GIB,), CpuSet.of(4), (device,))))
    assert only(found).promise == Promise((ONE_GIB,), CpuSet.of(4), (device,))
    assert found.conflicts == (
        "prod/db-0/db: memory is nothing by the checkpoint, 1Gi of memory on node 0 by PodResources",
    )
    found = joined([cgroup(1)], STATIC, by_uid(pod()), resources=listed(Promise((), CpuSet.of(4))))
    assert found.conflicts == ("prod/db-0/db: CPUs are none by the checkpoint, 4 by PodResources",)


def test_a_promise_that_podresources_does_not_know_is_a_conflict() -> None:
    checkpoints = replace(STATIC, memory={("u1", "db"): (ONE_GIB,)}, cpus={("u1", "db"): CpuSet.of(4)})
    found = joined([cgroup(1)], checkpoints, by_uid(pod()), resources=listed(Promise((), CpuSet())))
    assert only(found).promise.memory == (ONE_GIB,)
    assert found.conflicts == (
        "prod/db-0/db: memory is 1Gi of memory on node 0 by the checkpoint, nothing by PodResources",
    )
    found = joined([cgroup(1)], checkpoints, by_uid(pod()), resources=listed(Promise((ONE_GIB,), CpuSet())))
    assert found.conflicts == ("prod/db-0/db: CPUs are 4 by the checkpoint, none by PodResources",)


def test_a_promise_that_only_the_log_knows_is_unknown_instead_of_nothing() -> None:
    record = HintRecord("prod", "db-0", "db", "u1", 2000.0, memory_nodes=NodeSet.of(1))
    found = joined([cgroup(1)], STATIC, by_uid(pod()), resources=listed(Promise((), CpuSet())), records=[record])
    assert only(found).promise.memory is None
    assert found.conflicts == ("prod/db-0/db: memory is nothing by the checkpoint, on node 1 by the kubelet's log",)


@pytest.mark.parametrize(
    ("checkpoints", "part", "record"),
    [
        (replace(STATIC, memory_policy="None"), PodContainer("db", "app", "running", A), {}),
        # It handed its memory over to the containers that come after it.
        (STATIC, PodContainer("db", "init", "running", A), {}),
        (STATIC, PodContainer("db", "app", "terminated", A), {}),
        (STATIC, PodContainer("db", "app", "running", A), {"memory_nodes": NodeSet()}),
        (STATIC, PodContainer("db", "app", "running", A), {"allocate_error": "no memory"}),
    ],
)
def test_what_the_log_tells_of_memory_that_is_not_held_is_no_promise(
    checkpoints: Checkpoints, part: PodContainer, record: dict[str, object]
) -> None:
    logged = replace(HintRecord("prod", "db-0", "db", "u1", 2000.0, memory_nodes=NodeSet.of(1)), **record)
    found = joined([cgroup(1)], checkpoints, by_uid(pod("u1", "db-0", "Running", part)), records=[logged])
    assert (only(found).promise.memory, found.conflicts) == ((), ())
