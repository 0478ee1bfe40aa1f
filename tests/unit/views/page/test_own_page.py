"""A container's own page: what it says, its drawing, and the addresses that lead to it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from made_up.reports import container, report
from numaudit.evaluation.verdicts import Verdict, VerdictName
from numaudit.report.counters import AllocatedBytes, NodeSeconds
from numaudit.report.values import ContainerReport, Intended, NodeBytes
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.account import parts
from numaudit.views.page.lanes import flow
from numaudit.views.page.own_page import MOST, Addresses, key, own_section
from numaudit.views.page.report_page import report_page
from screens.page_reports import many
from screens.page_text import lines, parse

PROMISE_OF_1 = Intended(NodeSet.of(1), {"memory": 1 << 30}, CpuSet.of(4), NodeSet.of(1), None)


def _container(**changes: object) -> ContainerReport:
    return replace(report(container()).containers[0], **{"intended": PROMISE_OF_1, **changes})


def _held(*amounts: int) -> tuple[NodeBytes, ...]:
    return tuple(NodeBytes(node, amount << 20, 0, 0, 0, 0, 0) for node, amount in enumerate(amounts))


def _ribbons(of: ContainerReport) -> list[tuple[str, float]]:
    drawing = ElementTree.fromstring(str(flow(of)))
    return [(one.attrib["class"], float(one.attrib["stroke-width"])) for one in drawing.iter("path")]


def _caption(of: ContainerReport) -> str:
    return ElementTree.fromstring(str(flow(of))).findtext("figcaption") or ""


def test_the_flow_goes_from_the_promise_to_the_bytes_to_where_they_are_used() -> None:
    one = _container(resident=_held(25, 75), cpu_seconds=(NodeSeconds(0, 2.0), NodeSeconds(1, 6.0)))
    assert _caption(one) == (
        "Promised: node 1. Resident: 25Mi on node 0 (outside), 75Mi on node 1. "
        "Used from: node 0 (25% of its CPU time), node 1 (75% of its CPU time)."
    )
    assert _ribbons(one) == [
        ("strays", 3.5), ("goes", 1.5), ("strays", 2.62), ("goes", 10.5), ("strays", 2.62), ("goes", 7.88),
    ]  # fmt: skip


def test_without_cpu_time_the_flow_ends_at_the_cpus_that_it_may_use_and_says_so() -> None:
    one = _container(resident=_held(0, 8), cpu_seconds=None, allowed_cpu_nodes=NodeSet.of(0, 1))
    assert "May be used from: nodes 0-1; its CPU time was not measured." in _caption(one)
    assert [kind for kind, _ in _ribbons(one)] == ["goes", "elsewhere guessed", "goes guessed"]


def test_of_a_container_of_which_nothing_is_known_there_is_no_flow() -> None:
    nothing = {"intended": None, "resident": None, "cpu_seconds": None, "allowed_cpu_nodes": None}
    assert flow(_container(**nothing)) == ""
    assert "Resident: not known. Used from: not known." in _caption(_container(**{**nothing, "intended": PROMISE_OF_1}))


def test_the_page_says_verdict_remedy_and_what_explain_says() -> None:
    of = many(9)
    said = list(lines(f"<!doctype html><title>t</title>{own_section(of.containers[0], of.nodes, '#containers')}"))
    one = of.containers[0]
    assert one.verdict is not None
    assert said[1].startswith("h2: prod/deployment-name")
    assert said[2] == f"p: {one.verdict.name}: {one.verdict.reason}"
    assert f"p: What to do: {one.verdict.remedy}" in said
    headings = [
        word.text for word in ElementTree.fromstring(own_section(one, of.nodes, "#x").replace("<br>", "")).iter("dt")
    ]
    assert headings == ["promised", "allowed by its cpuset", "resident", "accessed", "cost"]


@pytest.mark.parametrize(
    ("allocated", "said"),
    [
        (None, "pages given by each node: unknown, because the probe page_alloc does not run"),
        ((), "pages given since page_alloc began to count: none"),
        ((AllocatedBytes(0, 0, 3 << 20),), "pages given since page_alloc began to count: N0 3Mi"),
        (
            (AllocatedBytes(1, 1, 8 << 20), AllocatedBytes(0, 1, 4 << 20), AllocatedBytes(0, 0, 1 << 20)),
            "pages given since page_alloc began to count: N0 1Mi, N1 12Mi; 4Mi of them to CPUs of another node",
        ),
        (
            (AllocatedBytes(0, None, 2 << 20),),
            "pages given since page_alloc began to count: 2Mi of unknown nodes",
        ),
    ],
    ids=["off", "none", "near", "far", "unknown node"],
)
def test_the_account_says_which_nodes_gave_its_pages(allocated: tuple[AllocatedBytes, ...] | None, said: str) -> None:
    resident = dict(parts(_container(resident=_held(1, 2), allocated=allocated), report(container()).nodes))["resident"]
    assert resident[-1] == said
    assert said in own_section(_container(resident=_held(1, 2), allocated=allocated), (), "#containers")


@pytest.mark.parametrize(
    ("name", "tone"),
    [
        ("spilled", "summary bad"),
        ("aligned", "summary aligned"),
        ("unknown", "summary unknown"),
        ("unmanaged", "summary"),
    ],
)
def test_only_what_is_wrong_or_unknown_has_the_colour_of_it(name: VerdictName, tone: str) -> None:
    one = _container(verdict=Verdict(name, "for a reason", None, (), "Nothing is wrong."), intended=None, id=1)
    (first,) = (line for line in parse(_alone(one)).iter("p") if "for a reason" in "".join(line.itertext()))
    assert first.get("class") == tone


def test_memory_without_a_promise_is_red_only_where_its_cpus_are_not() -> None:
    free = _container(intended=None, verdict=None, resident=_held(4, 4), cpu_seconds=None)
    assert {kind for kind, _ in _ribbons(replace(free, allowed_cpu_nodes=NodeSet.of(0, 1)))} == {
        "goes guessed", "elsewhere guessed",
    }  # fmt: skip
    assert [kind for kind, _ in _ribbons(replace(free, allowed_cpu_nodes=NodeSet.of(0)))] == [
        "goes guessed", "strays guessed",
    ]  # fmt: skip


def test_a_heading_of_the_flow_is_as_narrow_as_its_column() -> None:
    drawing = ElementTree.fromstring(str(flow(_container(resident=_held(0, 8), cpu_seconds=None)))).find("svg")
    assert drawing is not None
    wide = float(drawing.attrib["viewBox"].split()[2])
    for title in (one for one in drawing.iter("text") if one.get("class") == "name"):
        assert float(title.attrib["x"]) + 7 * len(title.text or "") <= wide  # pixels of a bold letter of 11


def test_a_cgroup_has_no_qos_class_and_code_has_no_backticks() -> None:
    cgroup = _container(
        pod_uid=None, qos=None, id=1, verdict=Verdict("unmanaged", "no pod", None, (), "Run `numactl -H`.")
    )
    assert not [line for line in parse(_alone(cgroup)).itertext() if "QoS" in line or "`" in line]
    assert "<code>numactl -H</code>" in _alone(cgroup)
    assert "QoS ?" in _alone(replace(cgroup, pod_uid="a-uid"))


def _alone(one: ContainerReport) -> str:
    return f"<!doctype html><title>t</title>{own_section(one, (), '#containers')}"


def test_a_file_has_a_page_for_the_worst_and_says_for_how_many() -> None:
    page = report_page(many(MOST + 30))
    sections = {str(one.get("id")) for one in parse(page).iter("section") if one.get("class") == "own"}
    links = {one.attrib["href"] for one in parse(page).iter("a") if one.attrib["href"].startswith("#container-")}
    assert len(sections) == MOST
    assert links == {f"#{one}" for one in sections}
    assert f"Select a name for its page (the {MOST} worst)" in page
    assert "Select a name" not in report_page(many(MOST))


def test_the_key_of_a_container_is_its_own_and_stays() -> None:
    ended = [_container(id=None, pod_uid=uid, container=name) for uid, name in (("a", "b"), ("a", "c"), ("ab", ""))]
    assert len({key(one) for one in ended}) == 3
    assert key(ended[0]) == key(_container(id=None, pod_uid="a", container="b", judged_bytes=5))
    assert key(_container(id=7)) == "7"
    assert key(_container(id=None, container="\udcff<>")).isalnum()


def test_an_agent_has_a_page_for_each_and_a_file_leads_to_the_row_of_others() -> None:
    one = _container(id=7)
    assert Addresses().nearest(one) == "?container=7"
    assert Addresses(frozenset({"7"})).nearest(one) == "#container-7"
    assert Addresses(frozenset()).nearest(one) == "#row-7"
    assert Addresses(frozenset()).own(one) is None
