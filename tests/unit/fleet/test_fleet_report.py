"""The cluster's report, on answers that real servers gave."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from documentation.schemas import validate
from monitoring.fleet_nodes import Answering, recorded
from numaudit.api.document import API_VERSION, encode
from numaudit.api.fleet_document import FleetReport
from numaudit.errors import Unavailable
from numaudit.fleet import queries
from numaudit.fleet.answers import Sample
from numaudit.fleet.report import ask_report
from numaudit.fleet.scope import Scope
from numaudit.fleet.sentences import what_is_missing
from numaudit.kubectl.everywhere import NodeReply, Replies
from numaudit.kubectl.merged import merge
from numaudit.value import Origin
from numaudit.views.terminal import fleet_tables, terminal

TOP = 10
_SCOPE = Scope()


@pytest.fixture(params=["prometheus", "victoria-metrics"])
def server(request: pytest.FixtureRequest, fixtures: Path) -> Answering:
    return recorded(fixtures / "fleet" / f"{request.param}.json", _SCOPE, TOP)


def with_answers(server: Answering, answers: Mapping[str, tuple[Sample, ...]]) -> Answering:
    return replace(server, known={**server.known, **answers}, asked=[])


def sample(value: float, labels: Mapping[str, str], like: Answering, node: str = "misaligned") -> Sample:
    (target,) = [one.labels for one in like.known[queries.agents(_SCOPE)] if one.label("nodename") == node]
    own = {name: target[name] for name in _SCOPE.by}
    return Sample.of({**own, **labels}, (0.0, str(value)))


def table(found: FleetReport) -> str:
    out = io.StringIO()
    fleet_tables.print_fleet(found, TOP, terminal.console(file=out))
    return out.getvalue()


def test_two_nodes_are_reported_on(server: Answering) -> None:
    found = ask_report(server, _SCOPE, TOP)
    assert found.summary == (
        "All 2 nodes report: 2 of 22 containers misaligned (1 drifted, 1 cpu-remote; 0 misplaced); 0 pods refused in "
        "the last hour; 750Mi of memory would still be admitted on one NUMA node of aligned"
    )
    assert [(one.pod, one.verdict, str(one.intended_memory_nodes)) for one in found.worst] == [
        ("gu-init-numanode", "drifted", "2"),
        ("gu-small-numanode", "cpu-remote", "0"),
    ]
    assert [(one.node, one.state, one.free_bytes) for one in found.nodes] == [
        ("misaligned", "reporting", 2719510528),
        ("aligned", "reporting", 2719510528),
    ]
    assert [(one.numa_nodes, one.bytes) for one in found.largest_rooms] == [(1, 785899520)]
    assert found.notices == []
    assert len(server.asked) <= 14
    document = encode("FleetReport", found, Origin(None, found.taken_at))
    validate(json.loads(document), "FleetReport")


def test_the_worst_verdict_comes_first_and_then_the_most_bytes_each_with_its_own_details(server: Answering) -> None:
    unit = {"namespace": "", "pod": "", "container": "/system.slice/db.service"}
    rows = [("spilled", 1 << 20, "misaligned"), ("cpu-remote", 5 << 20, "aligned"), ("spilled", 3 << 20, "aligned")]
    worst = tuple(sample(size, {**unit, "verdict": verdict}, server, node) for verdict, size, node in rows)
    judged = {**unit, "__name__": "numaudit_container_judged_bytes"}
    own = tuple(sample(size, judged, server, node) for size, node in ((10, "misaligned"), (30, "aligned")))
    (details,) = queries.details(_SCOPE, [("", "", unit["container"])])
    found = ask_report(with_answers(server, {queries.worst(_SCOPE, TOP): worst, details: own}), _SCOPE, TOP)
    assert [(one.verdict, one.misplaced_bytes, one.node, one.judged_bytes) for one in found.worst] == [
        ("spilled", 3 << 20, "aligned", 30),
        ("spilled", 1 << 20, "misaligned", 10),
        ("cpu-remote", 5 << 20, "aligned", 30),
    ]
    few = with_answers(server, {queries.worst(_SCOPE, 2): worst})
    assert [one.misplaced_bytes >> 20 for one in ask_report(few, _SCOPE, 2).worst] == [3, 1]


def test_refusals_and_problems_are_shown_by_node_and_workload(server: Answering) -> None:
    refused = {"reason": "TopologyAffinityError", "outcome": "rejected-affinity"}
    problems = [
        ({"__name__": "numaudit_state_valid", "file": "memory_manager_state"}, 0),
        ({"__name__": "numaudit_state_restart_safe", "file": "cpu_manager_state"}, 0),
        ({"__name__": "numaudit_state_restart_safe", "file": "configuration"}, 0),
        ({"__name__": "numaudit_collector_age_seconds", "collector": "memory-checkpoint"}, 480),
        ({"__name__": "numaudit_restart_refused_pods", "reboot": "true"}, 3),
        ({"__name__": "numaudit_restart_refused_pods", "reboot": "false"}, 1),
        ({"__name__": "numaudit_omitted_containers"}, 12),
    ]
    changed = with_answers(
        server,
        {
            queries.refusals(_SCOPE): (sample(4, refused, server), sample(1, refused, server, "aligned")),
            queries.refused_workloads(_SCOPE, TOP): (Sample.of({"namespace": "prod", "workload": "db"}, (0, "5")),),
            queries.problems(_SCOPE): tuple(sample(value, labels, server) for labels, value in problems),
        },
    )
    found = ask_report(changed, _SCOPE, TOP)
    assert "5 pods refused in the last hour" in found.summary
    assert [(one.reason, one.outcome, one.pods) for one in found.refusals] == [
        ("TopologyAffinityError", "rejected-affinity", 5)
    ]
    assert {one.node: one.refused_pods for one in found.nodes} == {"misaligned": 4, "aligned": 1}
    assert found.nodes[0].problems == [
        "the kubelet may not start again with cpu_manager_state",
        "the kubelet may not start again with its configuration",
        "memory_manager_state is not valid",
        "a reboot would refuse 3 pods",
        "a restart of the kubelet would refuse 1 pod",
        "memory-checkpoint was last read 8 minutes ago, so promises and room may be old",
        "12 containers left out by metrics.max_series",
    ]
    assert found.nodes[0].silent_sources == ["memory-checkpoint"]
    assert found.notices == [
        "sources of the kubelet are silent on misaligned (memory-checkpoint); promises and room there may be old"
    ]
    assert ": 1 kubelet would not start again; 2 of 22 containers misaligned" in found.summary
    text = table(found)
    assert "prod/db" in text
    assert "a reboot would refuse 3 pods" in text


def _cluster(server: Answering, troubles: Mapping[str, Mapping[str, object]]) -> Answering:
    """Nodes with these troubles: `verdicts`, `findings`, `misplaced` bytes, a file that is `unsafe`, `down`."""
    (like,) = [one for one in server.known[queries.agents(_SCOPE)] if one.label("nodename") == "aligned"]

    def of(node: str, value: float, **labels: str) -> Sample:
        target = {"nodename": node, "instance": f"{node}:9746", "job": like.label("job")}
        return Sample.of({**target, **labels}, (0.0, str(value)))

    up = [node for node, one in troubles.items() if not one.get("down")]
    verdicts, findings, misplaced, problems = [], [], [], []
    for node, one in troubles.items():
        for name, count in dict(one.get("verdicts", {"aligned": 4})).items():  # type: ignore[call-overload]
            verdicts.append(of(node, count, verdict=name))
        for name, count in dict(one.get("findings", {})).items():  # type: ignore[call-overload]
            findings.append(of(node, count, finding=name))
        misplaced.append(of(node, float(str(one.get("misplaced", 0)))))
        if "unsafe" in one:
            problems.append(of(node, 0, __name__="numaudit_state_restart_safe", file=str(one["unsafe"])))
    answers = {
        queries.agents(_SCOPE): [of(node, 1, version="1") for node in up],
        queries.known_agents(_SCOPE): [of(node, 1) for node in troubles],
        queries.targets(_SCOPE): [of(node, float(node in up)) for node in troubles],
        queries.verdicts(_SCOPE): verdicts,
        queries.findings(_SCOPE): findings,
        queries.misplaced(_SCOPE): misplaced,
        queries.problems(_SCOPE): problems,
    }
    return replace(server, known={promql: tuple(found) for promql, found in answers.items()})


_TROUBLES: Mapping[str, Mapping[str, object]] = {
    "a-fine": {},
    "b-unknown": {"verdicts": {"aligned": 3, "unknown": 2}},
    "c-few-bytes": {"verdicts": {"drifted": 9}, "misplaced": 1 << 20},
    "d-many-bytes": {"verdicts": {"spilled": 1}, "misplaced": 1 << 30},
    "e-gone": {"down": True, "verdicts": {}},
    "f-critical": {"findings": {"oom-risk": 2, "over-budget": 1}},
    "g-unsafe": {"unsafe": "memory_manager_state"},
    "h-warning": {"findings": {"stale": 1}},
}


def test_nodes_are_ranked_by_what_is_worst_on_them(server: Answering) -> None:
    found = ask_report(_cluster(server, _TROUBLES), _SCOPE, TOP)
    names = ["g-unsafe", "f-critical", "e-gone", "d-many-bytes", "c-few-bytes", "b-unknown", "h-warning", "a-fine"]
    assert [one.node for one in found.nodes] == names
    assert [one.node for one in found.nodes if one.restart_unsafe] == ["g-unsafe"]
    assert found.findings == {"oom-risk": 2, "stale": 1, "over-budget": 1}
    lines = table(found).splitlines()
    assert [line.split()[0] for line in lines[3:10]] == names[:7]
    assert "unsafe" in lines[3]
    assert "oom-risk (2)" in lines[4]
    assert "over-budget" not in lines[4]
    assert lines[5].split() == ["e-gone", "down", "?", "?", "-"]
    assert lines[8].endswith("verdict unknown (2)")


def test_what_is_not_seen_is_named(server: Answering) -> None:
    notices = ask_report(_cluster(server, _TROUBLES), _SCOPE, TOP).notices
    assert "there are no current values of e-gone (down)" in notices
    assert any(one.startswith("verdicts are unknown on b-unknown (2); ") for one in notices)
    away = {f"node-{number}": {"down": True, "verdicts": {}} for number in range(8)}
    many = ask_report(_cluster(server, {**away, "here": {}}), _SCOPE, TOP).notices
    assert (
        "there are no current values of " + ", ".join(f"node-{one} (down)" for one in range(5)) + " and 3 more" in many
    )


def test_a_list_that_is_cut_says_how_much_is_left_out(server: Answering) -> None:
    troubles = {f"node-{number:02}": {"verdicts": {"drifted": 2}} for number in range(13)}
    cluster = _cluster(server, troubles)
    unit = {"namespace": "prod", "pod": "db-0", "container": "db", "verdict": "drifted"}
    worst = tuple(sample(1 << 20, {**unit, "pod": f"db-{one}"}, server) for one in range(TOP))
    worst = tuple(
        Sample.of({**one.labels, "nodename": "node-00", "instance": "node-00:9746"}, one.stamped) for one in worst
    )
    cluster = replace(cluster, known={**cluster.known, queries.worst(_SCOPE, TOP): worst})
    text = table(ask_report(cluster, _SCOPE, TOP))
    assert "3 more nodes have problems; --top 13 shows more" in text
    assert "16 more containers are misaligned; --top 26 shows more" in text


def test_names_of_the_server_cannot_write_to_the_terminal(server: Answering) -> None:
    evil = "\x1b[2J\u202e\nnode"
    changed = {
        promql: tuple(
            Sample.of(
                {key: evil if key in ("nodename", "pod", "verdict") else text for key, text in one.labels.items()},
                one.stamped,
            )
            for one in samples
            if one.label("nodename") == "misaligned"
        )
        for promql, samples in server.known.items()
    }
    text = table(ask_report(replace(server, known=changed, warnings={evil: None}), _SCOPE, TOP))
    assert "\\x1b[2J" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert "\x1b" not in text


def test_what_the_server_warns_of_and_agents_of_several_versions_are_noticed(server: Answering) -> None:
    builds = server.known[queries.agents(_SCOPE)]
    older = Sample.of({**builds[0].labels, "version": "0.0.1"}, builds[0].stamped)
    changed = with_answers(server, {queries.agents(_SCOPE): (older, *builds[1:])})
    changed.warnings["store 10.0.0.7 is not available"] = None
    found = ask_report(changed, _SCOPE, TOP)
    assert found.notices[0] == "the server warns: store 10.0.0.7 is not available"
    assert found.notices[1].startswith("the agents are of 2 versions: ")
    assert "0.0.1 on 1 node" in found.notices[1]
    assert "the server warns: store" in table(found)


def test_without_any_verdict_the_family_that_is_missing_is_named(server: Answering) -> None:
    without = with_answers(server, {queries.verdicts(_SCOPE): (), queries.worst(_SCOPE, TOP): ()})
    found = ask_report(without, _SCOPE, TOP)
    assert "0 of 0 containers" in found.summary
    assert "numaudit_container_verdict" in found.notices[0]


def test_verdicts_that_may_be_missing_are_no_all_clear(server: Answering) -> None:
    whole = ask_report(server, _SCOPE, TOP)
    assert what_is_missing(whole, ()) is None
    assert what_is_missing(whole, ("store a is gone",)) == "the server warns: store a is gone"
    builds = server.known[queries.agents(_SCOPE)]
    up = tuple(Sample.of(one.labels, (0.0, "0")) for one in builds)
    one_down = with_answers(server, {queries.agents(_SCOPE): builds[:1], queries.targets(_SCOPE): up})
    assert what_is_missing(ask_report(one_down, _SCOPE, TOP), ()) == "1 of 2 nodes report (1 down)"
    without = with_answers(server, {queries.verdicts(_SCOPE): (), queries.worst(_SCOPE, TOP): ()})
    assert what_is_missing(ask_report(without, _SCOPE, TOP), ()) == "no agent gives any verdict"


def test_without_agents_there_is_no_report(server: Answering) -> None:
    nobody = replace(server, known={})
    with pytest.raises(Unavailable, match="no numaudit agent has reported within an hour"):
        ask_report(nobody, _SCOPE, TOP)


def test_of_refused_pods_a_report_has_only_those_that_are_still_there() -> None:
    """A deployment deletes its refused pods; the agents' counters, which Prometheus has, still have them."""
    refused = {"namespace": "a", "pod": "b", "outcome": "rejected-affinity", "at": "2026-11-20T23:00:00Z"}
    body = {"apiVersion": API_VERSION, "kind": "Report", "takenAt": "2026-11-20T23:01:00Z", "rejections": [refused]}
    reply = NodeReply("worker", None, "reporting", json.dumps(body).encode())
    found = merge(Replies((reply,), "exec"), now=1.0, context=None, namespace=None, top=1)
    assert "; 1 pod refused in the last hour and not deleted since" in found.summary
