"""The lanes of a container: where each begins and how long it is."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec

from made_up.reports import container, report
from numaudit.evaluation.verdicts import Verdict, VerdictName
from numaudit.report.values import ContainerReport, Intended, NodeBytes
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.page.lanes import lanes

PROMISE_OF_1 = Intended(NodeSet.parse("1"), None, CpuSet(), NodeSet(), None)


def _container(**changes: object) -> ContainerReport:
    return msgspec.structs.replace(report(container()).containers[0], **{"intended": None, **changes})


def _paths(of: ContainerReport, nodes: int = 2) -> dict[str, str]:
    drawing = ElementTree.fromstring(lanes(of, range(nodes)))
    return {one.attrib["class"]: one.attrib["d"] for one in drawing.iter("path")}


def _held(*amounts: int) -> tuple[NodeBytes, ...]:
    return tuple(NodeBytes(node, amount, 0, 0, 0, 0, 0) for node, amount in enumerate(amounts))


def _verdict(name: VerdictName) -> Verdict:
    return Verdict(name, "for a reason", None, (), None)


def test_promised_nodes_and_nodes_of_the_cpus_are_marked_in_their_fields() -> None:
    drawn = _paths(_container(intended=PROMISE_OF_1, allowed_cpu_nodes=NodeSet.parse("0-1"), resident=None))
    assert drawn["promised"] == "M28 1h22v4h-22z"
    assert drawn["cpus"] == "M2 8h22v4h-22zM28 8h22v4h-22z"


def test_cpus_of_a_misaligned_container_are_red_outside_the_promise_so_that_cpu_remote_is_seen() -> None:
    both = NodeSet.parse("0-1")
    wrong = _container(
        intended=PROMISE_OF_1,
        allowed_cpu_nodes=both,
        verdict=_verdict("cpu-remote"),
        resident=_held(0, 5),
        judged_bytes=5,
    )
    drawn = _paths(wrong)
    assert drawn["stray"] == "M2 8h22v4h-22z"
    assert drawn["cpus"] == "M28 8h22v4h-22z"
    assert "stray" not in _paths(msgspec.structs.replace(wrong, verdict=_verdict("aligned")))


def test_bytes_fill_each_field_by_their_share_and_few_can_still_be_seen() -> None:
    held = _container(resident=_held(75, 25), judged_bytes=100, allowed_cpu_nodes=NodeSet.parse("0-1"))
    assert _paths(held)["resident"] == "M2 15h16v6h-16zM28 15h6v6h-6z"
    mostly = _container(resident=_held(1_000_000, 1), judged_bytes=1_000_001, allowed_cpu_nodes=NodeSet.parse("0-1"))
    assert _paths(mostly)["resident"] == "M2 15h22v6h-22zM28 15h1v6h-1z"


def test_bytes_outside_the_promise_are_red() -> None:
    drawn = _paths(_container(intended=PROMISE_OF_1, resident=_held(50, 50), judged_bytes=100))
    assert drawn["stray"] == "M2 15h11v6h-11z"
    assert drawn["resident"] == "M28 15h11v6h-11z"


def test_without_a_promise_bytes_away_from_the_cpus_are_red() -> None:
    drawn = _paths(_container(allowed_cpu_nodes=NodeSet.parse("1"), resident=_held(50, 50), judged_bytes=100))
    assert drawn["stray"] == "M2 15h11v6h-11z"


def test_what_is_not_known_is_not_drawn() -> None:
    nothing = _container(resident=None, allowed_cpu_nodes=None)
    assert set(_paths(nothing)) == {"grid"}


def test_bytes_of_which_nobody_knows_where_they_should_be_are_not_wrong() -> None:
    assert set(_paths(_container(resident=_held(1, 1), judged_bytes=2, allowed_cpu_nodes=None))) == {"grid", "resident"}


def test_a_machine_of_many_nodes_gets_narrow_fields() -> None:
    assert _paths(_container(resident=None, allowed_cpu_nodes=NodeSet.parse("63")), 64)["cpus"] == "M380 8h2v4h-2z"


def test_a_node_that_the_report_does_not_have_is_left_out() -> None:
    assert "cpus" not in _paths(_container(resident=None, allowed_cpu_nodes=NodeSet.parse("7")))
