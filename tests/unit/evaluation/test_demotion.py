"""Memory that the kernel demoted, or may demote: cause, findings and the counters that prove them."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from fixture_trees import FIXTURES
from numaudit.containermanager.memory.state import Block
from numaudit.engine.observer import Observer
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.causes.arrivals import Demotion, demotion, slower_nodes
from numaudit.evaluation.findings import Finding, find
from numaudit.evaluation.verdicts import Cause
from numaudit.intent.node import ContainerIntent, Intent, Promise
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.report.counters import TierMoves
from numaudit.snapshot import ContainerId, Resident, Snapshot
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.tiers import TierSettings

MIB = 1 << 20
SNAPSHOT = Observer.of(Host.under(FIXTURES / "tiered")).observe()
IDS = {one.path: one.id for one in SNAPSHOT.containers}
FAST, SLOW = NodeSet.of(0, 1), NodeSet.of(2, 3)


def _findings(name: str, snapshot: Snapshot = SNAPSHOT) -> list[Finding]:
    return [one for one in find(snapshot) if one.name == name]


def _with(settings: TierSettings | None) -> Snapshot:
    return replace(SNAPSHOT, tiers=settings)


def _cause(path: str, snapshot: Snapshot = SNAPSHOT) -> Cause:
    return judge(snapshot).verdicts[IDS[path]].causes[0]


def _with_resident(path: str, resident: Resident) -> Snapshot:
    return replace(SNAPSHOT, residency={**SNAPSHOT.residency, IDS[path]: resident})


def _promised(path: str) -> Intent:
    """Memory of node 0."""
    promise = Promise(memory=(Block((0,), "memory", 512 * MIB),))
    return Intent((ContainerIntent("uid", "app", cgroups=(IDS[path],), promise=promise),))


def test_bytes_on_slower_nodes_are_explained_by_what_the_kernel_counted_and_by_no_more_of_it() -> None:
    found = demotion(IDS["/demoted"], NodeSet.of(0), SNAPSHOT)
    pages = 37_876 + 3456
    assert found == Demotion(SLOW, 148 * MIB, pages * 4096, 0)
    assert found.explained == 148 * MIB
    assert Demotion(SLOW, 148 * MIB, 40 * MIB, 30 * MIB).explained == 10 * MIB
    assert Demotion(SLOW, 148 * MIB, 40 * MIB, 50 * MIB).explained == 0
    assert Demotion(SLOW, 148 * MIB, None, None).explained == 0


def test_page_cache_on_slower_nodes_may_be_what_was_demoted() -> None:
    """30 MiB of tmpfs were written there, and 52 MiB of page cache demoted."""
    resident = Resident(anon={}, shmem={2: 30 * MIB}, file={2: 52 * MIB}, demoted={0: 52 * MIB}, promoted={})
    found = demotion(IDS["/demoted"], NodeSet.of(0), _with_resident("/demoted", resident))
    assert found is not None and (found.there, found.explained) == (30 * MIB, 0)


def test_on_the_slowest_tier_and_with_one_tier_nothing_is_demoted() -> None:
    assert demotion(IDS["/demoted"], SLOW, SNAPSHOT) is None
    one_tier = replace(SNAPSHOT, machine=replace(SNAPSHOT.machine, tiers=None))
    assert demotion(IDS["/demoted"], NodeSet.of(0), one_tier) is None
    assert slower_nodes(NodeSet.of(0, 2), SNAPSHOT) == NodeSet.of(3)


def test_the_cause_is_demoted_and_names_the_counters() -> None:
    cause = _cause("/demoted")
    assert cause.cause == "demoted"
    assert cause.evidence == (
        "the kernel moved at most 148Mi to the slower nodes 2-3: by its counters 162Mi were demoted from there and "
        "nothing came back"
    )


def test_where_the_kernel_does_not_count_the_cause_is_unknown_and_says_so() -> None:
    resident = structs.replace(SNAPSHOT.residency[IDS["/demoted"]], demoted=None, promoted=None)
    cause = _cause("/demoted", _with_resident("/demoted", resident))
    assert cause.cause == "unknown"
    assert "not measured: a memory policy, demotion" in cause.evidence


def test_counters_that_explain_nothing_rule_demotion_out() -> None:
    still = dict.fromkeys(range(4), 0)
    resident = structs.replace(SNAPSHOT.residency[IDS["/demoted"]], demoted=still, promoted=still)
    cause = _cause("/demoted", _with_resident("/demoted", resident))
    assert cause.cause == "unknown"
    assert cause.evidence.startswith("ruled out: the cpuset, demotion")


def test_only_memory_outside_a_cpuset_is_found_demoted() -> None:
    (found,) = _findings("demoted")
    assert found.container_id == IDS["/demoted"]
    assert found.numa_nodes == SLOW
    assert "148Mi of its memory from node 0 to the slower nodes 2-3, where it is now" in found.message


def test_a_promise_counts_and_not_what_the_cpuset_allows() -> None:
    intent = _promised("/cold")
    found = _findings("demoted", replace(SNAPSHOT, intent=intent))
    assert {one.container_id for one in found} == {IDS["/demoted"], IDS["/cold"]}


@pytest.mark.parametrize(
    "settings",
    [None, TierSettings(demotion=False), TierSettings(demotion=None)],
    ids=["one tier", "off", "no such switch"],
)
def test_without_demotion_nothing_is_demotable_and_what_was_demoted_stays_so(settings: TierSettings | None) -> None:
    snapshot = _with(settings)
    assert _findings("demotable", snapshot) == []
    assert len(_findings("demoted", snapshot)) == 1


def test_what_the_kernel_has_done_proves_what_it_may_do_whatever_its_types_say() -> None:
    (found,) = _findings("demotable", _with(TierSettings(True, 0, keeps_cpuset=None)))
    assert "this kernel has demoted 148Mi past a cpuset.mems that does not allow it" in found.message
    assert found.numa_nodes == SLOW


@pytest.mark.parametrize(
    ("keeps", "why"),
    [(False, "this kernel demotes without regard to cpuset.mems"), (None, "keeps to cpuset.mems is not known")],
)
def test_before_anything_was_demoted_the_kernels_own_functions_say_what_it_may_do(keeps: bool | None, why: str) -> None:
    still = dict.fromkeys(range(4), 0)
    residency = {id_: structs.replace(one, demoted=still, promoted=still) for id_, one in SNAPSHOT.residency.items()}
    snapshot = replace(SNAPSHOT, residency=residency, tiers=TierSettings(True, 0, keeps))
    (found,) = _findings("demotable", snapshot)
    assert why in found.message
    assert "/cold, /demoted, /promoted and 1 more" in found.message


def test_a_kernel_that_keeps_to_cpusets_demotes_only_where_they_allow_it() -> None:
    still = dict.fromkeys(range(4), 0)
    residency = {id_: structs.replace(one, demoted=still, promoted=still) for id_, one in SNAPSHOT.residency.items()}
    keeping = replace(SNAPSHOT, residency=residency, tiers=TierSettings(True, 0, keeps_cpuset=True))
    assert _findings("demotable", keeping) == []
    intent = _promised("/cold")
    (found,) = _findings("demotable", replace(keeping, intent=intent))
    assert "cpuset.mems allows these nodes" in found.message
    assert found.numa_nodes == NodeSet.of(2)


def test_a_report_has_tiers_and_what_moved_between_them() -> None:
    report = build(SNAPSHOT)
    assert report.tiering is not None
    assert [(tier.tier, tier.numa_nodes, tier.has_cpus) for tier in report.tiering.tiers] == [
        (4, FAST, True),
        (135, SLOW, False),
    ]
    assert (report.tiering.demotion_enabled, report.tiering.numa_balancing) == (True, 2)
    moves = {one.path: one.tier_moves for one in report.containers}
    assert moves["/promoted"] == (TierMoves(1, 32_521 * 4096, 32_521 * 4096),)
    assert moves["/untouched"] == ()
    assert [node.memory_tier for node in report.nodes] == [4, 4, 135, 135]


def test_groups_above_have_no_counters_of_their_own() -> None:
    """They would count what their children's pages did, ended ones included."""
    assert SNAPSHOT.unattributed is not None
    assert SNAPSHOT.unattributed.demoted is None
    assert ContainerId(0) not in SNAPSHOT.residency
