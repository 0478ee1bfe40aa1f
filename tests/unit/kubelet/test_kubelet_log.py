"""The kubelet's log: which lines are understood, and what they say."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubelets.json_log import as_json
from kubelets.steps import RUNS
from numaudit.containermanager.topologymanager.hints import TopologyHint
from numaudit.errors import ParseError
from numaudit.kubelet.parsers import log
from numaudit.kubelet.parsers.log import parse
from numaudit.topology.nodeset import CpuSet, NodeSet

NOW = datetime(2026, 11, 21, tzinfo=UTC)
HEAD = "I1120 22:38:22.328746     341 scope_container.go:93] "
WHO = 'pod="default/db-0" containerName="app"'
APP = log.Subject("default", "db-0", "app", None)


def read(rest: str) -> log.LogEvent | None:
    return parse(HEAD + rest, until=NOW, at=1.0)


def test_a_hint_is_a_bit_mask_of_nodes_or_null_for_any_node() -> None:
    hints = '{"memory":[{"NUMANodeAffinity":1,"Preferred":true},{"NUMANodeAffinity":10,"Preferred":false}]}'
    expected = {"memory": (TopologyHint(NodeSet.of(0), True), TopologyHint(NodeSet.of(1, 3), False))}
    assert read(f'"TopologyHints" hints={hints} {WHO}') == log.Hints(1.0, APP, expected)
    best = f'"ContainerTopologyHint" bestHint={{"NUMANodeAffinity":null,"Preferred":false}} {WHO}'
    assert read(best) == log.AdmissionStep(1.0, APP, best=TopologyHint(None, False))


@pytest.mark.parametrize(
    ("text", "hints"),
    [("null", None), ("{}", {}), ('{"cpu":null}', {"cpu": None}), ('{"cpu":[]}', {"cpu": ()})],
)
def test_the_four_shapes_of_an_answer_without_candidates_stay_apart(text: str, hints: object) -> None:
    event = read(f'"TopologyHints" hints={text} {WHO}')
    assert isinstance(event, log.Hints)
    assert event.hints == hints


@pytest.mark.parametrize(
    "cpu", ["[{01 true} {10 true} {11 false}]", "[{NUMANodeAffinity:01 Preferred:true} {NUMANodeAffinity:10 "
        "Preferred:true} {NUMANodeAffinity:11 Preferred:false}]"]
)  # fmt: skip
def test_hints_are_read_as_kubelets_before_1_29_print_them(cpu: str) -> None:
    event = read(f'"TopologyHints" hints=map[cpu:{cpu} hugepages-2Mi:[]] {WHO}')
    one, other, both = (NodeSet.of(0), True), (NodeSet.of(1), True), (NodeSet.of(0, 1), False)
    expected = {"cpu": tuple(TopologyHint(*hint) for hint in (one, other, both)), "hugepages-2Mi": ()}
    assert event == log.Hints(1.0, APP, expected)
    assert read(f'"TopologyHints" hints=map[] {WHO}') == log.Hints(1.0, APP, {})
    any_node = read(f'"TopologyHints" hints=map[a.com/x:[{{<nil> true}}]] {WHO}')
    assert any_node == log.Hints(1.0, APP, {"a.com/x": (TopologyHint(None, True),)})


def test_an_empty_list_of_a_device_may_mean_either_so_it_is_not_read() -> None:
    """Go prints nil, which is no preference, as it prints an empty list, which no node can satisfy."""
    with pytest.raises(log.UnreadHints, match="may be no preference or no possible node"):
        read(f'"TopologyHints" hints=map[nvidia.com/gpu:[]] {WHO}')
    event = read(f'"TopologyHints" hints={{"nvidia.com/gpu":[]}} {WHO}')
    assert event == log.Hints(1.0, APP, {"nvidia.com/gpu": ()})


def test_lines_that_name_no_pod_are_of_the_admission_at_hand() -> None:
    best = read('"ContainerTopologyHint" bestHint={NUMANodeAffinity:0100 Preferred:true}')
    assert best == log.AdmissionStep(1.0, None, best=TopologyHint(NodeSet.of(2), True))
    assert read('"AllocateCPUs" numCPUs=20 socket=<nil>') == log.AdmissionStep(1.0, None)
    cpus = CpuSet.parse("25-34,73-82")
    assert read('"AllocateCPUs" result="25-34,73-82"') == log.AdmissionStep(1.0, None, cpus=cpus)
    refused = read('"Allocate error" err="[memorymanager] failed to find NUMA nodes"')
    assert refused == log.AdmissionStep(1.0, None, allocate_error="[memorymanager] failed to find NUMA nodes")


def test_old_lines_of_the_managers_are_read() -> None:
    affinity = (
        '"Topology Affinity" pod="default/db-0" containerName="app" affinity={NUMANodeAffinity:<nil> Preferred:false}'
    )
    assert read(affinity) == log.AdmissionStep(1.0, APP)
    nodes = read(f'"Memory affinity" {WHO} numaNodes=map[0:{{}} 1:{{}}]')
    assert nodes == log.AdmissionStep(1.0, APP, memory_nodes=NodeSet.of(0, 1))


@pytest.mark.parametrize(
    "value", ["map[cpu", "map[cpu:[{01 true]", "map[cpu:[{01 maybe}]]", "map[cpu:[{21 true}]]", "map[cpu:" + "[" * 20,
        "map[cpu:[{01 true 3}]]", "[1 2]"]
)  # fmt: skip
def test_hints_of_another_form_are_not_guessed(value: str) -> None:
    with pytest.raises(ParseError):
        read(f'"TopologyHints" hints={value} {WHO}')


def test_a_pod_scope_line_has_no_container() -> None:
    event = read('"PodTopologyHint" bestHint={"NUMANodeAffinity":4,"Preferred":true} pod="prod/db-0"')
    assert event == log.AdmissionStep(
        1.0, log.Subject("prod", "db-0", None, None), best=TopologyHint(NodeSet.of(2), True)
    )


def test_the_same_message_of_the_cpu_manager_is_told_apart_by_its_fields() -> None:
    hint = '{"NUMANodeAffinity":1,"Preferred":true}'
    assert read(f'"Topology Affinity" bestHint={hint} {WHO}') == log.AdmissionStep(1.0, APP, merged=True)
    event = read(f'"Topology Affinity" pod="default/db-0" podUID="u1" containerName="app" affinity={hint}')
    assert event == log.AdmissionStep(1.0, log.Subject("default", "db-0", "app", "u1"))


def test_the_cpus_given_are_in_the_second_of_two_lines_of_one_message() -> None:
    assert read(f'"AllocateCPUs" {WHO} numCPUs=3 socket="11"') == log.AdmissionStep(1.0, APP)
    assert read(f'"AllocateCPUs" {WHO} result="1-3 aligned=<uncore:true>"') == log.AdmissionStep(
        1.0, APP, cpus=CpuSet.of(1, 2, 3)
    )


def test_the_nodes_for_the_cpuset_are_the_keys_of_a_set_and_null_is_no_node() -> None:
    assert read(f'"Memory affinity" {WHO} numaNodes={{"0":{{}},"1":{{}}}}') == log.AdmissionStep(
        1.0, APP, memory_nodes=NodeSet.of(0, 1)
    )
    assert read(f'"Memory affinity" {WHO} numaNodes=null') == log.AdmissionStep(1.0, APP, memory_nodes=NodeSet())


def test_a_denial_has_the_pods_uid_reason_and_message() -> None:
    event = read(
        '"Pod admission denied" podUID="u1" pod="default/db-0" reason="UnexpectedAdmissionError" '
        'message="Allocate failed due to [memorymanager] \\"x\\", which is unexpected" operation="add"'
    )
    message = 'Allocate failed due to [memorymanager] "x", which is unexpected'
    who = log.Subject("default", "db-0", None, "u1")
    assert event == log.Denied(1.0, who, "u1", "UnexpectedAdmissionError", message)


def test_json_lines_say_the_same_as_text() -> None:
    line = (
        '{"ts":1795214302328.746,"caller":"topologymanager/scope_container.go:93","msg":"TopologyHints","v":0,'
        '"hints":{"cpu":[{"NUMANodeAffinity":8,"Preferred":true}]},"pod":{"name":"db-0","namespace":"default"},'
        '"containerName":"app"}'
    )
    expected = log.Hints(1795214302.328746, APP, {"cpu": (TopologyHint(NodeSet.of(3), True),)})
    assert parse(line, until=NOW) == expected


@pytest.mark.parametrize("prefix", ["", "Nov 20 22:38:22 node-a kubelet[341]: "])
def test_every_line_of_the_recorded_logs_says_the_same_in_json(prefix: str) -> None:
    compared = 0
    for path in sorted(RUNS.glob("*/*.log")):
        for line in path.read_text().splitlines():
            other = as_json(line, NOW)
            if other is not None:
                event, again = parse(line, until=NOW), parse(prefix + other, until=NOW)
                assert event is not None
                assert again is not None
                assert replace(again, at=None) == replace(event, at=None)
                assert again.at == pytest.approx(event.at, abs=1e-3)
                compared += 1
    assert compared == 356


@pytest.mark.parametrize(
    "program", ["kubelet", "kubenswrapper", "k3s", "kubelet.daemon", "microk8s.daemon-kubelite", "k8s.kubelet"]
)
def test_a_line_may_stand_behind_a_syslog_prefix(program: str) -> None:
    line = f"Nov 20 22:38:22 node-a {program}[341]: {HEAD}" + '"Kubelet version" kubeletVersion="v1.36.2"'
    assert parse(line.replace(program, "containerd"), until=NOW, at=2.0) is None
    assert parse(line, until=NOW, at=2.0) == log.LoggedVersion(2.0, "v1.36.2")


@pytest.mark.parametrize(
    ("until", "year"),
    [
        (datetime(2026, 11, 21, tzinfo=UTC), 2026),
        (datetime(2027, 1, 1, tzinfo=UTC), 2026),
        (datetime(2026, 11, 20, 12, tzinfo=UTC), 2026),
        (datetime(2026, 11, 1, tzinfo=UTC), 2025),
    ],
)
def test_a_line_without_a_year_is_of_the_newest_that_does_not_lie_ahead(until: datetime, year: int) -> None:
    event = parse(HEAD + '"Kubelet version" kubeletVersion="v1.36.2"', until=until)
    assert event == log.LoggedVersion(datetime(year, 11, 20, 22, 38, 22, 328746, UTC).timestamp(), "v1.36.2")


def test_a_line_of_leap_day_is_of_a_leap_year() -> None:
    line = 'I0229 00:00:00.000000 1 a.go:1] "Kubelet version" kubeletVersion="v1.36.2"'
    for until, leap_year in ((2027, 2024), (2029, 2028)):
        event = parse(line, until=datetime(until, 5, 1, tzinfo=UTC))
        assert event == log.LoggedVersion(datetime(leap_year, 2, 29, tzinfo=UTC).timestamp(), "v1.36.2")


def test_a_captured_line_has_its_time_in_utc() -> None:
    tokyo = datetime(2026, 11, 21, tzinfo=timezone(timedelta(hours=9)))
    line = HEAD + '"Kubelet version" kubeletVersion="v1.36.2"'
    event = parse(line, until=tokyo)
    assert event is not None
    assert log.in_utc(line, event).startswith("I1120 13:38:22.328746     341 ")
    assert parse(log.in_utc(line, event), until=NOW) == event


@pytest.mark.parametrize(
    "rest",
    [
        f'"TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":"01","Preferred":true}}]}} {WHO}',
        f'"TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":1}}]}} {WHO}',
        f'"TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":-1,"Preferred":true}}]}} {WHO}',
        f'"TopologyHints" hints={{"cpu":[{{"NUMANodeAffinity":36893488147419103232,"Preferred":true}}]}} {WHO}',
        f'"TopologyHints" hints=map[cpu:[{{01}}]] {WHO}',
        '"TopologyHints" hints={} containerName="app"',
        '"TopologyHints" hints={} pod="no-namespace" containerName="app"',
        f'"Memory affinity" {WHO} numaNodes={{"a":{{}}}}',
        f'"AllocateCPUs" {WHO} result="one"',
        '"Pod admission denied" pod="default/db-0" reason="x" message="y"',
    ],
)
def test_a_known_message_with_other_fields_is_refused_not_guessed(rest: str) -> None:
    with pytest.raises(ParseError):
        read(rest)


def test_other_lines_say_nothing() -> None:
    for line in (
        "",
        "panic: runtime error",
        HEAD,
        HEAD + '"Some other message" pod="a/b"',
        "{}",
        '{"msg":5}',
        "[1]",
        "{",
    ):
        assert parse(line, until=NOW) is None


def test_every_line_of_the_recorded_logs_is_understood_or_of_no_concern() -> None:
    lines = [line for path in sorted(RUNS.glob("*/*.log")) for line in path.read_text().splitlines()]
    events = [event for line in lines if (event := parse(line, until=NOW)) is not None]
    steps = [event for event in events if isinstance(event, log.AdmissionStep)]
    # Counted with grep in the same files.
    assert sum(isinstance(event, log.Hints) for event in events) == 117
    assert sum(isinstance(event, log.Denied) for event in events) == 10
    assert sum(isinstance(event, log.StartFailure) for event in events) == 2
    assert sum(step.best is not None for step in steps) == 39
    assert sum(step.memory_nodes is not None for step in steps) == 19
    assert sum(step.regenerated is not None for step in steps) == 13


@given(st.text(max_size=300))
def test_any_line_is_read_or_refused(text: str) -> None:
    for line in (text, HEAD + text, HEAD + '"TopologyHints" ' + text, '{"msg":"TopologyHints",' + text):
        try:
            parse(line, until=NOW)
        except ParseError:
            continue


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(sorted(log._EVENTS)),
    st.dictionaries(
        st.sampled_from(["hints", "pod", "containerName", "bestHint", "podUID", "result", "numaNodes"]), VALUES
    ),
)
def test_any_json_fields_are_read_or_refused(message: str, fields: dict[str, object]) -> None:
    with contextlib.suppress(ParseError):
        parse(json.dumps({"msg": message, **fields}), until=NOW)


@given(st.lists(st.sampled_from(["map[", "[", "{", "]", "}", " ", "cpu:", "Preferred:", "01", "true", "<nil>"])))
def test_any_value_as_go_prints_it_is_read_or_refused(parts: list[str]) -> None:
    with contextlib.suppress(ParseError):
        read(f'"TopologyHints" hints=map[{"".join(parts)} {WHO}')
