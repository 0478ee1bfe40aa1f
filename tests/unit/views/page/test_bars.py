"""The bars of a container: where each begins and how long it is."""

from __future__ import annotations

from xml.etree import ElementTree

import msgspec

from accesses import counted, expected, first_uses, unsampled, with_accesses
from numaudit.report.values import ContainerReport, Intended, NodeBytes
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.page.bars import bars
from reports import container, report


def _container(**changes: object) -> ContainerReport:
    return msgspec.structs.replace(report(container()).containers[0], accesses=(), **changes)


def _paths(of: ContainerReport, nodes: int = 2) -> dict[str, str]:
    drawing = ElementTree.fromstring(bars(of, range(nodes)))
    return {one.attrib["class"]: one.attrib["d"] for one in drawing.iter("path")}


def _held(*amounts: int) -> tuple[NodeBytes, ...]:
    return tuple(NodeBytes(node, amount, 0, 0, 0, 0, 0) for node, amount in enumerate(amounts))


def test_promised_and_allowed_nodes_are_marked_in_their_fields() -> None:
    promise = Intended(NodeSet.parse("1"), None, CpuSet(), NodeSet(), None)
    drawn = _paths(_container(intended=promise, allowed_memory_nodes=NodeSet.parse("0-1")))
    assert drawn["promised"] == "M28 2h22v4h-22z"
    assert drawn["allowed"] == "M2 9h22v2h-22zM28 9h22v2h-22z"


def test_bytes_fill_each_field_by_their_share_and_few_can_still_be_seen() -> None:
    assert _paths(_container(resident=_held(75, 25), judged_bytes=100))["resident"] == "M2 13h16v5h-16zM28 13h6v5h-6z"
    mostly = _container(resident=_held(1_000_000, 1), judged_bytes=1_000_001)
    assert _paths(mostly)["resident"] == "M2 13h22v5h-22zM28 13h1v5h-1z"


def test_remote_accesses_are_a_block_at_the_right_end() -> None:
    drawn = _paths(with_accesses(_container(), unsampled("no samples"), counted(0.5)))
    assert drawn["used"] == "M0 22h52"
    assert drawn["far"] == "M52 20h-26v5h26z"
    assert "far" not in _paths(with_accesses(_container(), counted(0.0)))


def test_what_is_only_expected_is_not_drawn_as_accesses() -> None:
    assert "used" not in _paths(with_accesses(_container(), expected(0.44), first_uses(0.44)))


def test_what_is_not_known_is_not_drawn() -> None:
    nothing = _container(resident=None, intended=None, allowed_memory_nodes=None)
    assert set(_paths(nothing)) == {"grid"}


def test_a_machine_of_many_nodes_gets_narrow_fields() -> None:
    drawn = _paths(_container(resident=_held(*[1] * 64), allowed_memory_nodes=NodeSet.parse("63")), 64)
    assert drawn["allowed"] == "M380 9h2v2h-2z"


def test_a_node_that_the_report_does_not_have_is_left_out() -> None:
    assert "allowed" not in _paths(_container(allowed_memory_nodes=NodeSet.parse("7")))
