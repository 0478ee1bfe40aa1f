"""The map of the machine: its bars, whose the CPUs are, the arcs of misaligned containers, and the distances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from msgspec.structs import replace

from hosts.hostile_names import HOSTILE
from made_up.reports import container, report
from numaudit.report.counters import NodeSeconds
from numaudit.report.kubelet import KubeletReport
from numaudit.report.values import ContainerReport, Intended, NodeBytes, NodeReport, Report
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.views.page.arcs import MOST, Arc, arcs_drawing, arcs_of
from numaudit.views.page.markup import join
from numaudit.views.page.node_map import CpuOwners, CpuRun, MappedNode, node_map, places
from numaudit.views.page.nodes import heat_map, nodes_part
from numaudit.views.page.own_page import Addresses
from screens.page_reports import hostile, many
from screens.page_text import parse, text_of

GIB = 1 << 30
KUBELET = KubeletReport("v1.36.0", "Static", "static", "single-numa-node", "container", None, None, None)


def _node(id_: int = 0, **changes: object) -> NodeReport:
    return replace(many(0, nodes=4).nodes[id_], **changes)


def _mapped(node: NodeReport, **changes: object) -> MappedNode:
    facts: dict[str, object] = {
        "system_bytes": None, "promised_bytes": None, "container_bytes": 0, "wrong_bytes": 0,
        "cpus": (CpuRun("any", len(node.cpus or ())),), **changes,
    }  # fmt: skip
    return MappedNode(node, **facts)  # type: ignore[arg-type]


def _drawn(*nodes: MappedNode) -> Element:
    return ElementTree.fromstring(node_map(nodes))


def _bars(drawing: Element) -> dict[str, tuple[str, str]]:
    """Kind -> where it begins and how wide it is; of several the last."""
    return {one.attrib["class"]: (one.attrib["x"], one.attrib["width"]) for one in drawing.iter("rect")}


def _page(content: str) -> str:
    return f"<!doctype html><html lang=en><title>t</title>{content}</html>"


def _words(drawing: Element) -> str:
    return " ".join("".join(one.itertext()) for one in drawing.iter("text"))


# Memory


def test_a_bar_has_what_is_reserved_then_what_is_promised_and_in_it_what_is_used() -> None:
    node = _node(total_bytes=100 * GIB, free_bytes=40 * GIB)
    bars = _bars(
        _drawn(
            _mapped(node, system_bytes=10 * GIB, promised_bytes=50 * GIB, container_bytes=30 * GIB, wrong_bytes=5 * GIB)
        )
    )
    assert bars["system"] == ("0.00%", "10.00%")
    assert bars["plan"] == ("10.00%", "50.00%")
    assert bars["other"] == ("0.00%", "30.00%")
    assert bars["resident"] == ("30.00%", "25.00%")
    assert bars["stray"] == ("55.00%", "5.00%")


def test_a_bar_never_leaves_the_map_and_few_bytes_can_still_be_seen() -> None:
    node = _node(total_bytes=100, free_bytes=99)
    bars = _bars(_drawn(_mapped(node, promised_bytes=500, container_bytes=500, wrong_bytes=500)))
    assert bars["plan"] == ("0.00%", "100.00%")
    assert bars["stray"] == ("0.00%", "1.00%")
    tiny = _bars(_drawn(_mapped(_node(total_bytes=GIB, free_bytes=GIB), promised_bytes=1)))
    assert tiny["plan"] == ("0.00%", "0.30%")


def test_a_node_of_which_nothing_is_known_has_an_empty_bar() -> None:
    drawing = _drawn(_mapped(_node(total_bytes=None, free_bytes=None, cpus=CpuSet()), cpus=()))
    assert set(_bars(drawing)) == {"track"}
    assert "? free of ?" in _words(drawing)
    assert "no CPUs" in _words(drawing)


def test_the_map_says_all_it_shows_to_who_cannot_see_it() -> None:
    runs = (CpuRun("reserved", 1), CpuRun("exclusive", 3, "a/b/c"), CpuRun("shared", 12))
    drawing = _drawn(_mapped(_node(), system_bytes=GIB, promised_bytes=40 * GIB, wrong_bytes=2 * GIB, cpus=runs))
    assert drawing.findtext("desc") == (
        "Node 0: 64Gi of memory, 1Gi reserved for the system, 40Gi promised, 44Gi used, 20Gi free, 2Gi outside a "
        "promise; CPUs 0-15 (1 reserved, 3 exclusive, 12 shared)."
    )


def test_nodes_of_a_socket_are_together_and_those_of_none_last() -> None:
    sockets = ((), (1,), (0,), (0,))
    nodes = [_mapped(_node(id_, sockets=of)) for id_, of in enumerate(sockets)]
    words = [one.text or one[0].text for one in _drawn(*nodes).iter("text") if one.get("x") != "100%"]
    assert words == ["Socket 0", "Node 2", "Node 3", "Socket 1", "Node 1", "Of no socket", "Node 0"]
    height, anchors = places(nodes)
    tops = [anchors[node].memory for node in (2, 3, 1, 0)]
    assert tops == sorted(tops)
    assert max(one.cpus for one in anchors.values()) < height


def test_where_no_socket_is_known_there_is_no_heading() -> None:
    assert "ocket" not in _words(_drawn(_mapped(_node(0)), _mapped(_node(1))))


# CPUs


def test_a_cpu_is_reserved_a_containers_own_or_of_the_shared_pool() -> None:
    of = _with_own(report(container(1, "a", "c", "ns")), "2-3")
    kubelet = replace(KUBELET, shared_cpus=CpuSet.parse("0-1,5"), reserved_cpus=CpuSet.parse("0"))
    runs = list(CpuOwners.of(replace(of, kubelet=kubelet)).runs(CpuSet.parse("0-5")))
    assert runs == [
        CpuRun("reserved", 1), CpuRun("shared", 1), CpuRun("exclusive", 2, "ns/a/c"), CpuRun("exclusive", 1),
        CpuRun("shared", 1),
    ]  # fmt: skip


def test_without_a_cpu_manager_a_cpu_is_just_a_cpu() -> None:
    assert list(CpuOwners.of(report(container())).runs(CpuSet.parse("0-3"))) == [CpuRun("any", 4)]


def test_many_cpus_of_one_owner_are_one_stretch() -> None:
    few = _drawn(_mapped(_node(cpus=CpuSet.parse("0-31")), cpus=(CpuRun("shared", 32),)))
    many_of = _drawn(_mapped(_node(cpus=CpuSet.parse("0-511")), cpus=(CpuRun("shared", 512),)))
    assert [sum(one.attrib["class"] == "cpu shared" for one in of.iter("rect")) for of in (few, many_of)] == [32, 1]


def _with_own(of: Report, cpus: str) -> Report:
    promise = Intended(NodeSet.of(0), None, CpuSet.parse(cpus), NodeSet.of(0), None)
    return replace(of, containers=tuple(replace(one, intended=promise) for one in of.containers))


# Arcs


def _held(*mebibytes: int) -> tuple[NodeBytes, ...]:
    return tuple(NodeBytes(node, amount << 20, 0, 0, 0, 0, 0) for node, amount in enumerate(mebibytes))


def _misaligned(number: int) -> list[ContainerReport]:
    return list(many(number, ("spilled",)).containers)


def test_an_arc_goes_from_where_a_misaligned_container_ran_to_its_bytes_elsewhere() -> None:
    ran = (NodeSeconds(1, 5.0), NodeSeconds(3, 9.0))
    one = replace(_misaligned(3)[0], cpu_seconds=ran)
    (arc,), more = arcs_of([one], range(4))
    held = {row.numa_node: row.judged for row in one.resident or ()}
    assert (arc.cpu_node, more) == (3, 0)
    assert arc.memory_node in set(held) - {3}
    assert arc.bytes == held[arc.memory_node]


def test_where_no_cpu_time_is_known_an_arc_begins_at_cpus_outside_the_promise() -> None:
    one = replace(_misaligned(2)[0], allowed_cpu_nodes=NodeSet.parse("0-2"))
    promised = one.intended.memory_nodes if one.intended else None
    (arc,), _ = arcs_of([one], range(4))
    assert promised is not None
    assert arc.cpu_node == min(set(range(3)) - set(promised))


def test_only_the_worst_get_an_arc_and_the_others_are_counted() -> None:
    containers = [one for one in _misaligned(40) if one.resident is not None]
    arcs, more = arcs_of([*containers, *many(8, ("aligned",)).containers], range(4))
    assert [arc.container for arc in arcs] == containers[:MOST]
    assert more == len(containers) - MOST


def test_a_container_of_unknown_bytes_or_of_a_node_that_is_not_there_has_no_arc_and_counts() -> None:
    one = _misaligned(2)[0]
    assert arcs_of([replace(one, resident=None)], range(4)) == ((), 1)
    assert arcs_of([one], (9,)) == ((), 1)


def test_arcs_of_one_lane_never_touch() -> None:
    nodes = [_mapped(node) for node in many(0, nodes=8).nodes]
    height, anchors = places(nodes)
    one = _misaligned(2)[0]
    pairs = ((0, 1), (1, 0), (0, 7), (3, 3), (4, 5), (6, 7))
    arcs = [Arc(one, cpu, memory, 1) for cpu, memory in pairs]
    drawing = ElementTree.fromstring(arcs_drawing(arcs, height, anchors))
    bends: dict[float, list[tuple[int, int]]] = {}
    circles = [circle for circle in drawing.iter("circle") if circle.get("r") == "9"]
    for arc, circle in zip(arcs, circles, strict=True):
        begin, end = sorted((anchors[arc.cpu_node].cpus, anchors[arc.memory_node].memory))
        bends.setdefault(float(circle.attrib["cx"]), []).append((begin, end))
    assert len(bends) > 1
    for spans in bends.values():
        assert all(a[1] < b[0] for a, b in pairwise(sorted(spans)))


def test_an_arc_says_in_words_where_cpus_and_bytes_are() -> None:
    assert Arc(_misaligned(2)[0], 0, 1, 12 << 20).words == "CPUs on node 0, 12Mi on node 1"


def test_an_arc_never_goes_from_a_node_to_itself() -> None:
    one = replace(_misaligned(2)[0], allowed_cpu_nodes=NodeSet.of(1), cpu_seconds=None, resident=_held(0, 5))
    assert arcs_of([one], range(4)) == ((), 1)


def test_memory_that_is_mostly_remote_has_an_arc_also_without_a_promise() -> None:
    without = replace(_misaligned(2)[0], intended=None, verdict=None, cpu_seconds=None, resident=_held(50, 50))
    remote = replace(without, judged_bytes=100 << 20, remote_bytes=(50 << 20) + 1, allowed_cpu_nodes=NodeSet.of(1))
    (arc,), more = arcs_of([remote], range(4))
    assert (arc.cpu_node, arc.memory_node, more) == (1, 0, 0)
    assert arcs_of([replace(remote, remote_bytes=50 << 20)], range(4)) == ((), 0)
    assert arcs_of([replace(remote, remote_bytes=None)], range(4)) == ((), 0)


# The whole part


@pytest.mark.parametrize("nodes", [4, 8])
def test_the_list_beside_the_map_names_each_arc_and_links_to_its_row(nodes: int) -> None:
    of = many(30, nodes=nodes)
    page = parse(_page(join(nodes_part(of, Addresses(frozenset())).section())))
    (listed,) = (one for one in page.iter("ol") if one.get("class") == "away")
    arcs, more = arcs_of(of.containers, range(nodes))
    links = [one.attrib["href"] for one in listed.iter("a")]
    assert len(links) == MOST
    assert links == [f"#row-{arc.container.id}" for arc in arcs]
    assert f"{more} more misaligned or mostly remote" in "".join(page.itertext())


def test_on_one_node_there_are_no_arcs_and_no_distances() -> None:
    part = join(nodes_part(many(30, nodes=1), Addresses()).section())
    assert 'class="arcs"' not in part
    assert "Distances" not in part
    assert "Distances" in join(nodes_part(many(30, nodes=2), Addresses()).section())


def test_a_plain_host_has_a_map_without_a_plan() -> None:
    part = join(nodes_part(report(container(), anon={0: 1 << 20, 1: 0}), Addresses()).section())
    for absent in ('"plan"', '"system"', "reserved", "exclusive", 'class="arcs"'):
        assert absent not in part


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_in_the_map_is_text(name: str) -> None:
    def shape(of: Report) -> Sequence[tuple[str, list[str]]]:
        kubelet = replace(KUBELET, shared_cpus=CpuSet())
        part = nodes_part(replace(_with_own(of, "0-1"), kubelet=kubelet), Addresses()).section()
        return [(str(one.tag), sorted(one.attrib)) for one in parse(_page(join(part))).iter()]

    assert shape(hostile(name)) == shape(hostile("plain"))


# Distances


def test_far_nodes_are_darker_than_near_ones_and_its_own_is_plain() -> None:
    cells = parse(_page(heat_map(many(0, nodes=4).nodes))).iter("td")
    shades = {int(text_of(one)): one.attrib["class"] for one in cells}
    assert shades[10] == "heat0"
    assert [shades[distance] for distance in sorted(shades)] == sorted(shades.values())
    assert shades[max(shades)] == "heat5"


def test_distances_that_the_firmware_does_not_give_are_said_to_be_missing() -> None:
    assert "The firmware gives no distances between nodes." in heat_map([_node(distances={})])


def test_a_distance_that_is_not_known_is_a_question_mark() -> None:
    nodes = [_node(0, distances={0: 10}), _node(1, distances={1: 10})]
    cells = [text_of(one) for one in parse(_page(heat_map(nodes))).iter("td")]
    assert cells == ["10", "?", "?", "10"]
