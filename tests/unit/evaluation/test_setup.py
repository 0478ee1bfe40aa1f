"""Rules about how a node is set up: on a captured cluster's node as it is, and with one thing changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import InputError
from numaudit.evaluation.setup import RULES, SetupResult, examine, skipped_rules
from numaudit.kernel.host import Host
from numaudit.snapshot import Snapshot
from numaudit.snapshot.host_settings import HostSettings


@pytest.fixture(scope="module")
def node(fixtures: Path) -> Snapshot:
    """Of a kubelet 1.36 with static managers and single-numa-node, four nodes; nodes 2 and 3 reserve nothing."""
    return Engine(Observer.of(Host.under(fixtures / "kubernetes-cluster"))).tick().snapshot


def result(node: Snapshot, rule: str, settings: HostSettings | None = None) -> SetupResult:
    return next(one for one in examine(replace(node, settings=settings)) if one.id == rule)


def test_a_node_that_reserves_nothing_where_memory_is_used_is_named_with_its_users(node: Snapshot) -> None:
    found = result(node, "reserved-uncovered")
    assert (found.state, list(found.numa_nodes or ())) == ("warning", [2, 3])
    assert found.messages[0].startswith("node 2: memory without a promise uses at least 136Mi, and nothing is reserved")
    assert "/system.slice/containerd.service 95.6Mi" in found.messages[0]


def test_what_an_accepted_rule_finds_is_accepted_with_its_reason_and_a_rule_that_holds_stays_so(node: Snapshot) -> None:
    accepted = {"reserved-uncovered": "builds run there", "topology-none": "unused"}
    found = {one.id: one for one in examine(node, accepted)}
    assert found["reserved-uncovered"].state == "accepted"
    assert found["reserved-uncovered"].accepted == "builds run there"
    assert (found["topology-none"].state, found["topology-none"].accepted) == ("pass", None)


def test_without_a_kubelet_its_rules_say_so(node: Snapshot) -> None:
    alone = replace(node, intent=None)
    states = {one.id: one for one in examine(alone) if one.area == "kubelet"}
    assert {one.state for one in states.values()} == {"not-judged"}
    assert states["reserved-sum"].messages == ("no kubelet was found here",)


def test_a_skipped_rule_is_left_out_and_an_unknown_one_is_refused() -> None:
    assert skipped_rules("topology-none, slit-flat,") == {"topology-none", "slit-flat"}
    with pytest.raises(InputError, match="there is no rule 'topology-non'; did you mean topology-none"):
        skipped_rules("topology-non")


def test_each_rule_has_one_name_and_tells_why_and_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.why.endswith(".")
        assert rule.remedy
        assert rule.source.startswith("https://")
