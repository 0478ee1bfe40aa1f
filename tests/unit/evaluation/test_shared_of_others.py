"""Shared memory of others: counted once, expected, named as a cause, and never in the verdict or a node's account."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from numaudit.evaluation.alignment import judge
from numaudit.evaluation.causes.placement import charged_to_others
from numaudit.report.build import build
from numaudit.snapshot import Allowed, Container, ContainerId, Mappings, NodeMemory, Resident, SharedMemory, Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
USER, OWNER = ContainerId(1), ContainerId(2)
MACHINE = Machine(
    (
        Node(0, CpuSet.of(0), 1 << 30, distances={0: 10, 1: 32}),
        Node(1, CpuSet.of(1), 1 << 30, distances={0: 32, 1: 10}),
    )
)


def mapping(*shared: SharedMemory) -> Mappings:
    return Mappings({}, {}, {}, 1, 1, shared)


def piece(size: int, node: int = 1, charged_to: ContainerId | None = None, kind: str = "shmem") -> SharedMemory:
    assert kind in ("shmem", "hugetlb")
    return SharedMemory("hugetlb" if kind == "hugetlb" else "shmem", "/dev/shm/x", {node: size}, charged_to)


def test_what_it_maps_beyond_its_own_account_is_charged_to_others() -> None:
    own = Resident(anon={0: MIB}, shmem={0: MIB, 1: 8 * MIB})
    assert charged_to_others(USER, mapping(piece(8 * MIB), piece(32 * MIB)), own) == {1: 32 * MIB}


def test_shared_memory_that_is_its_own_is_not_counted_a_second_time() -> None:
    own = Resident(anon={}, shmem={1: 32 * MIB})
    assert charged_to_others(USER, mapping(piece(32 * MIB)), own) == {}
    assert charged_to_others(USER, mapping(piece(32 * MIB, charged_to=USER)), own) == {}


def test_pages_that_are_anothers_count_also_where_its_own_account_could_hold_them() -> None:
    own = Resident(anon={}, shmem={1: 32 * MIB})
    assert charged_to_others(USER, mapping(piece(32 * MIB, charged_to=OWNER)), own) == {1: 32 * MIB}


def test_huge_pages_and_other_shared_memory_have_accounts_of_their_own() -> None:
    own = Resident(anon={}, shmem={1: 32 * MIB}, hugetlb={1: 0})
    assert charged_to_others(USER, mapping(piece(4 * MIB, kind="hugetlb")), own) == {1: 4 * MIB}


def test_nothing_is_said_where_the_account_or_the_mappings_are_not_known() -> None:
    assert charged_to_others(USER, mapping(piece(32 * MIB)), Resident(anon={})) == {}
    assert charged_to_others(USER, Mappings({}, {}, {}, 1, 1), Resident(anon={}, shmem={})) == {}
    assert charged_to_others(USER, None, Resident(anon={}, shmem={})) == {}


def snapshot(*pieces: SharedMemory) -> Snapshot:
    """The user runs on node 0 with 8 MiB there; the owner has 32 MiB of shared memory on node 1."""
    containers = (Container(USER, "/user", "group"), Container(OWNER, "/owner", "group"))
    return Snapshot(
        taken_at=0,
        machine=MACHINE,
        cgroup_mode="v2",
        containers=containers,
        allowed={USER: Allowed(NodeSet.of(0), CpuSet.of(0)), OWNER: Allowed(NodeSet.of(1), CpuSet.of(1))},
        residency={
            USER: Resident(anon={0: 8 * MIB}, shmem={0: 0}, file={}),
            OWNER: Resident(anon={}, shmem={1: 32 * MIB}, file={}),
        },
        numa_maps={USER: mapping(*pieces), OWNER: mapping(piece(32 * MIB, charged_to=OWNER))},
        nodes=tuple(NodeMemory(node, 1 << 30, 0, Resident({node: 0}, {node: 0}, {node: 0})) for node in (0, 1)),
        unattributed=Resident(anon={}, shmem={}, file={}),
        cpu_time={USER: {0: 1.0}, OWNER: {1: 1.0}},
    )


def test_the_cause_names_the_kind_the_file_and_whose_it_is() -> None:
    verdicts = judge(snapshot(piece(32 * MIB, charged_to=OWNER))).verdicts
    (cause,) = verdicts[USER].causes
    assert cause.cause == "shared-memory"
    assert cause.evidence == (
        "it maps at least 32Mi of shared memory there that is charged to other cgroups: "
        "32Mi of shmem /dev/shm/x, charged to /owner"
    )
    assert verdicts[OWNER].causes == ()


def test_an_owner_that_is_not_known_is_not_guessed() -> None:
    (cause,) = judge(snapshot(piece(32 * MIB))).verdicts[USER].causes
    assert cause.evidence.endswith("32Mi of shmem /dev/shm/x, its owner is not known")


def test_shared_memory_that_is_near_or_small_is_no_cause() -> None:
    near = piece(32 * MIB, node=0, charged_to=OWNER)
    assert judge(snapshot(near)).verdicts[USER].causes == ()
    assert judge(snapshot(piece(MIB, charged_to=OWNER))).verdicts[USER].causes == ()


def test_shared_memory_of_others_is_expected_to_be_used_and_has_its_distance() -> None:
    report = build(snapshot(piece(32 * MIB, charged_to=OWNER)))
    user, owner = ({one.path: one for one in report.containers}[path] for path in ("/user", "/owner"))
    assert user.expected_remote_ratio == pytest.approx(32 / 40)
    assert user.distance_ratio == pytest.approx((8 * 10 + 32 * 32) / 400)
    assert (owner.expected_remote_ratio, owner.distance_ratio) == (0, 1)
    assert user.mappings is not None
    assert user.mappings.shared_of_others == {1: 32 * MIB}


def test_neither_its_own_bytes_nor_the_accounts_of_the_nodes_change() -> None:
    without = replace(snapshot(), numa_maps={})
    before, after = build(without), build(snapshot(piece(32 * MIB, charged_to=OWNER)))
    assert before.residual == after.residual
    own = [{one.path: (one.judged_bytes, one.remote_bytes) for one in report.containers} for report in (before, after)]
    assert own[0] == own[1] == {"/user": (8 * MIB, 0), "/owner": (32 * MIB, 0)}
