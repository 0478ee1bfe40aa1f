"""The drawing of the machine: what it says in words, and that every viewer can read it."""

from __future__ import annotations

from xml.etree import ElementTree

from numaudit.api import document
from numaudit.report.sums.occupants import Occupant, Occupants
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.views.page.drawing import DrawnNode, machine_file, node_map
from numaudit.views.page.machine import topology_file
from reports import MACHINE

WIDTH = 280
"""Of the bar."""
_NAME = "{http://www.w3.org/2000/svg}"


def _words(drawing: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(drawing.encode()).iter() if one.tag.endswith("text")]


def _width(drawing: str, fill: str) -> list[float]:
    rects = ElementTree.fromstring(drawing).iter("rect")
    return [float(one.attrib["width"]) for one in rects if one.get("fill") == fill]


def test_a_node_says_who_is_on_it_the_largest_first_and_marks_what_is_wrong_by_a_sign() -> None:
    occupants = Occupants.of((Occupant("a/b/small", 1 << 20), Occupant("a/b/big", 3 << 20, "spilled")))
    words = _words(node_map([DrawnNode(0, "0-3", 8 << 20, 2 << 20, occupants)], "one node"))
    assert words == ["Node 0", "2Mi free of 8Mi", "CPUs 0-3", "! a/b/big", "3Mi", "a/b/small", "1Mi"]


def test_many_occupants_are_counted() -> None:
    occupants = Occupants.of(Occupant(f"pod-{number}", 1 << 20) for number in range(10))
    assert "and 4 more: 4Mi" in _words(node_map([DrawnNode(0, "", None, None, occupants)], "one node"))


def test_the_bar_of_a_node_is_as_long_as_its_memory_is_used() -> None:
    drawing = node_map([DrawnNode(0, "0", 100, 20, Occupants.of([Occupant("x", 50)]))], "one node")
    assert _width(drawing, "url(#used)") == [0.8 * WIDTH]
    assert _width(drawing, "#2a6db0") == [0.5 * WIDTH]


def test_a_bar_never_leaves_its_box() -> None:
    drawing = node_map([DrawnNode(0, "0", 100, 90, Occupants.of([Occupant("x", 500)]))], "one node")
    assert _width(drawing, "#2a6db0") == [0.1 * WIDTH]
    assert _width(node_map([DrawnNode(0, "0", 100, 200, Occupants.of(()))], "one node"), "url(#used)") == [0]


def test_a_node_of_which_nothing_is_known_has_no_bar() -> None:
    drawing = node_map([DrawnNode(0, "", None, None, Occupants.of(()))], "one node")
    assert _words(drawing) == ["Node 0", "? free of ?", "no CPUs", "no container of this report"]
    assert _width(drawing, "none") == []


def test_the_file_of_a_machine_has_its_distances_and_loads_nothing() -> None:
    drawing = topology_file(document.topology(MACHINE))
    words = _words(drawing)
    assert words[words.index("N1") :] == ["N1", "N0", "10", "20", "N1", "20", "10"]
    tree = ElementTree.fromstring(drawing.encode())
    assert tree.tag == f"{_NAME}svg"
    assert not [one for one in tree.iter() for key in one.attrib if key.endswith(("href", "src"))]
    assert "@import" not in drawing


def test_distances_that_the_firmware_does_not_give_are_said_to_be_missing() -> None:
    machine = Machine((Node(0, CpuSet.parse("0"), 1 << 30, distances={}),))
    assert "The firmware gives no distances between nodes." in _words(topology_file(document.topology(machine)))


def test_a_distance_that_is_not_known_is_a_question_mark() -> None:
    nodes = [DrawnNode(0, "0", 1, None, None), DrawnNode(1, "1", 1, None, None)]
    assert _words(machine_file(nodes, {0: {0: 10}, 1: {1: 10}}, "two"))[-6:] == ["N0", "10", "?", "N1", "?", "10"]
