"""Admissions put together from the kubelet's log."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from kubelets.steps import RUNS
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.intent.pods import HintRecord
from numaudit.kubelet.parsers import admissions
from numaudit.kubelet.parsers import log as kubelet_log
from numaudit.kubelet.parsers.admissions import Admissions
from numaudit.topology.nodeset import CpuSet, NodeSet

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def admissions_of(lines: Iterable[str], into: Admissions | None = None) -> Admissions:
    found = into or Admissions()
    for line in lines:
        event = kubelet_log.parse(line, until=NOW)
        if event is not None:
            found.add(event)
    return found


def log(run: str, name: str = "kubelet.k1.log") -> list[str]:
    return (RUNS / run / name).read_text().splitlines()


def of(found: Admissions, pod: str, container: str | None = "app") -> HintRecord:
    (record,) = [one for one in found.records if (one.pod, one.container) == (f"{pod}-numanode", container)]
    return record


def test_an_admission_tells_every_providers_hints_the_merge_and_what_was_given() -> None:
    record = of(admissions_of(log("standalone-restricted")), "gu-cross3")
    assert record.pod_uid == "d3c641155287298d49d5b4d96d7ddab9"
    assert [None if one is None else list(one) for one in record.providers] == [[], ["cpu"], ["memory"]]
    assert record.best == TopologyHint(NodeSet.of(0, 1), True)
    assert record.merged is True
    assert record.cpus == CpuSet.of(1, 2, 3)
    assert record.memory_nodes == NodeSet.of(0, 1)
    assert record.denial is None


OLD_HEAD = "I0905 00:40:55.907739 1468778 x.go:77] "
OLD = {
    name: [
        f'{OLD_HEAD}"TopologyHints" hints=map[] pod="work/{name}-numanode" containerName="app"',
        f'{OLD_HEAD}"TopologyHints" hints=map[cpu:[{{{mask} true}}]] pod="work/{name}-numanode" containerName="app"',
        f'{OLD_HEAD}"ContainerTopologyHint" bestHint={{{mask} true}}',
        f'{OLD_HEAD}"AllocateCPUs" numCPUs=2 socket=<nil>',
        f'{OLD_HEAD}"AllocateCPUs" result="{cpus}"',
    ]
    for name, mask, cpus in (("one", "01", "2-3"), ("two", "10", "6-7"))
}


def test_lines_of_old_kubelets_that_name_no_pod_go_to_the_admission_before_them() -> None:
    created = f'{OLD_HEAD}"Memory affinity" pod="work/one-numanode" containerName="app" numaNodes=map[0:{{}}]'
    found = admissions_of([*OLD["one"], *OLD["two"][:3], created, *OLD["two"][3:]])
    assert (of(found, "one").cpus, of(found, "two").cpus) == (CpuSet.of(2, 3), CpuSet.of(6, 7))
    assert (of(found, "one").best, of(found, "two").best) == (
        TopologyHint(NodeSet.of(0), True), TopologyHint(NodeSet.of(1), True)
    )  # fmt: skip
    assert of(found, "one").memory_nodes == NodeSet.of(0)


@pytest.mark.parametrize("missed", [0, 1])
def test_hints_beside_some_that_were_not_understood_are_of_no_known_provider(missed: int) -> None:
    """The order of the lines says whose they are."""
    found = admissions_of(OLD["one"])
    for number, line in enumerate(OLD["two"]):
        if number == missed:
            found.miss_hints()
        else:
            admissions_of([line], found)
    assert (of(found, "one").cpus, len(of(found, "one").providers)) == (CpuSet.of(2, 3), 2)
    assert of(found, "two").providers == ()
    again = admissions_of([line.replace("two", "three") for line in OLD["two"]], found)
    assert len(of(again, "three").providers) == 2


def test_what_follows_an_admission_that_was_not_understood_is_not_given_to_the_one_before() -> None:
    found = admissions_of(OLD["one"])
    for _ in range(2):
        found.miss_hints()
    admissions_of(OLD["two"][2:], found)
    assert (of(found, "one").cpus, of(found, "one").best) == (CpuSet.of(2, 3), TopologyHint(NodeSet.of(0), True))


def test_a_pod_that_fits_nowhere_is_denied_by_the_merge() -> None:
    found = admissions_of(log("standalone-log-verbosity-0"))
    record = of(found, "gu-toobig")
    assert record.merged is False
    assert record.denial is not None
    assert record.denial.reason == "TopologyAffinityError"
    assert record.pod_uid == record.denial.pod_uid == "3a439d32de7a0f8a2af2645b48fd3707"
    assert list(found.rejections) == [record.pod_uid]


def test_a_pod_that_passed_the_merge_may_still_be_denied_by_the_memory_manager() -> None:
    record = of(admissions_of(log("standalone-restricted")), "gu-cross")
    assert record.merged is True
    assert record.cpus == CpuSet.of(6)
    assert record.allocate_error == "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
    assert record.denial is not None
    assert record.denial.reason == "UnexpectedAdmissionError"


def test_under_pod_scope_one_record_serves_all_containers() -> None:
    record = of(admissions_of(log("standalone-pod-level-resources")), "pl-mixed", None)
    assert record.best == TopologyHint(NodeSet.of(1), True)
    assert record.cpus == CpuSet.of(2, 3)
    assert record.memory_nodes == NodeSet.of(1)


def test_a_restarted_kubelet_that_repeats_its_hints_does_not_cover_those_that_decided() -> None:
    before = admissions_of(log("standalone-single-numa-node"))
    first = of(before, "gu-small")
    after = admissions_of(log("standalone-single-numa-node", "kubelet.k2.log"), before)
    assert of(after, "gu-small") == first
    assert len((first.providers[2] or {})["memory"] or ()) == 15

    alone = of(admissions_of(log("standalone-single-numa-node", "kubelet.k2.log")), "gu-small")
    assert alone.regenerated
    assert len((alone.providers[2] or {})["memory"] or ()) == 1


def test_a_pod_that_is_denied_again_counts_once_with_its_newest_reason() -> None:
    found = admissions_of(log("standalone-single-numa-node"))
    uid = "e06a0c7587663a4c3dd4f7eeb707616e"
    assert found.rejections[uid].reason == "TopologyAffinityError"
    admissions_of(log("standalone-single-numa-node", "kubelet.k2.log"), found)
    assert found.rejections[uid].reason == "UnexpectedAdmissionError"
    assert len(found.rejections) == 4


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kubelet.k2-machine-changed.log", "the expected machine state is different from the real one"),
        ("kubelet.k3-checksum.log", "checkpoint is corrupted"),
    ],
)
def test_a_kubelet_that_gives_up_says_why(name: str, why: str) -> None:
    found = admissions_of(log("standalone-restart-errors", name))
    assert why in (found.start_error or "")
    admissions_of(log("standalone-restart-errors"), found)
    assert found.start_error is None


def test_the_topology_managers_settings_are_in_the_log() -> None:
    topology = admissions_of(log("standalone-pod-level-resources")).topology
    assert topology is not None
    assert (topology.policy, topology.scope) == ("single-numa-node", "pod")


def test_records_are_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admissions, "MOST_RECORDS", 3)
    head = "I1120 22:38:22.328746     341 scope_container.go:93] "
    hints = [f'{head}"TopologyHints" hints={{}} pod="default/p{i}" containerName="app"' for i in range(10)]
    denials = [
        f'{head}"Pod admission denied" podUID="u{i}" pod="default/p{i}" reason="r" message="m"' for i in range(10)
    ]
    found = admissions_of(hints + denials)
    assert [record.pod for record in found.records] == ["p7", "p8", "p9"]
    assert list(found.rejections) == ["u7", "u8", "u9"]


HEAD = "I1120 22:39:00.000000     341 scope_container.go:93] "
SMALL = "11909391e6eae33a104bafa75980e9ea"


def denied(pod: str, uid: str) -> str:
    return f'{HEAD}"Pod admission denied" podUID="{uid}" pod="default/{pod}-numanode" reason="OutOfcpu" message=""'


@pytest.mark.parametrize(("pod", "uid"), [("gu-small", "other"), ("bu", "other"), ("gu-small", SMALL)])
def test_a_denial_without_hints_does_not_touch_the_record_of_an_earlier_admission(pod: str, uid: str) -> None:
    before = admissions_of(log("standalone-log-verbosity-0"))
    record = of(before, pod)
    after = admissions_of([denied(pod, uid)], before)
    assert of(after, pod) == record
    assert after.rejections[uid].reason == "OutOfcpu"


def test_a_new_pod_of_an_old_name_does_not_inherit_the_old_ones_hints() -> None:
    found = admissions_of(log("standalone-log-verbosity-0"))
    who = 'pod="default/gu-small-numanode"'
    again = "Regenerating TopologyHints for CPUs already allocated"
    admissions_of(
        [
            f'{HEAD}"TopologyHints" hints={{}} {who} containerName="app"',
            f'{HEAD}"{again}" {who} podUID="new" containerName="app"',
        ],
        found,
    )
    record = of(found, "gu-small")
    assert (record.pod_uid, record.regenerated, record.best) == ("new", True, None)
