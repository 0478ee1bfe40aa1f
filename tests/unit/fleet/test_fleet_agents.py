"""Which agents there are, and whether they report."""

from __future__ import annotations

import pytest

from numaudit.errors import Unavailable
from numaudit.fleet.agents import Agents, find_agents
from numaudit.fleet.answers import Sample
from numaudit.fleet.scope import Scope


def one(node: str, value: float = 1, instance: str | None = None, **labels: str) -> Sample:
    own = {"nodename": node, "instance": f"{node}:9746" if instance is None else instance, "job": "numaudit"}
    return Sample.of({**own, **labels}, (0.0, str(value)))


def build(node: str, instance: str | None = None, **labels: str) -> Sample:
    return one(node, 1, instance, **{"version": "1.0", "python": "3.11", **labels})


def states(found: Agents) -> dict[str, str]:
    return {agent.node: agent.state for agent in found.by_key.values()}


def test_an_agent_reports_is_stale_is_down_or_is_gone() -> None:
    names = ("reports", "stale", "down", "gone")
    found = find_agents(
        Scope(),
        [build("reports")],
        [one(name) for name in names],
        [one("reports"), one("stale"), one("down", 0)],
        [one("reports", 3.5), one("stale", 300)],
    )
    assert states(found) == {name: name.removeprefix("reports") or "reporting" for name in names}
    ages = {agent.node: agent.age for agent in found.by_key.values()}
    assert ages == {"reports": 3.5, "stale": 300, "down": None, "gone": None}


def test_where_nobody_knows_of_scrapes_an_age_says_that_it_answers() -> None:
    found = find_agents(Scope(), [build("a")], [one("a"), one("b"), one("c")], [], [one("a", 1), one("b", 99)])
    assert states(found) == {"a": "reporting", "b": "stale", "c": "gone"}


def test_of_several_agents_on_a_node_the_freshest_counts() -> None:
    old, new = "10.0.0.1:9746", "10.0.0.2:9746"
    found = find_agents(Scope(), [build("a", old), build("a", new)], [], [], [one("a", 90, old), one("a", 2, new)])
    assert [agent.instance for agent in found.by_key.values()] == ["10.0.0.2:9746"]
    assert found.notices[0].startswith("several agents report from one node, and the freshest counts: a (1 in all)")
    replaced = find_agents(Scope(), [build("a", new)], [one("a", 1, old), one("a", 1, new)], [one("a", 0, old)], [])
    assert states(replaced) == {"a": "reporting"}
    assert replaced.notices == ()


@pytest.mark.parametrize("label", ["cluster", "replica"])
def test_two_series_of_one_agent_are_refused_with_the_label_that_tells_them_apart(label: str) -> None:
    twins = [build("a", **{label: "x"}), build("a", **{label: "y"})]
    with pytest.raises(Unavailable, match="is reported twice") as raised:
        find_agents(Scope(), twins, [], [], [])
    assert f"--selector '{label}=\"x\"'" in str(raised.value)


def test_an_agent_that_was_updated_within_the_lookback_is_no_twin() -> None:
    versions = [one("a", version="1.0", python="3.11"), one("a", version="1.1", python="3.12")]
    assert states(find_agents(Scope(), versions, [], [], [])) == {"a": "reporting"}


def test_a_node_without_its_label_goes_by_its_instance() -> None:
    found = find_agents(Scope(), [build("", instance="10.0.0.1:9746")], [], [], [])
    assert states(found) == {"10.0.0.1:9746": "reporting"}
    assert "no series has the label nodename" in found.notices[0]
    asked_for = find_agents(Scope(node_label="instance"), [build("", instance="10.0.0.1:9746")], [], [], [])
    assert asked_for.notices == ()


def test_nothing_at_all_is_explained() -> None:
    with pytest.raises(Unavailable, match=r'reported with cluster="x" within an hour: there is no numaudit_build_info'):
        find_agents(Scope(selector='cluster="x"'), [], [], [], [])
