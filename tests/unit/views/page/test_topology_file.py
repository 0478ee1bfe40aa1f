"""The drawing of the machine: what it says in words, and that every viewer can read it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from hosts.hostile_names import HOSTILE
from made_up.reports import MACHINE, container, report
from numaudit.api import document
from numaudit.api.document import Topology, TopologyNode
from numaudit.encoding.value import Origin, Timestamp
from numaudit.evaluation.verdicts import Verdict
from numaudit.ranks.declaration import HeldDevice
from numaudit.report.values import ContainerReport, Intended, NodeBytes, Report
from numaudit.topology.machine import Cache, Cpu, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemorySpeed
from numaudit.views.page.card import WIDE, Card, card_high, drawn_card
from numaudit.views.page.cpu_grid import cpu_grid
from numaudit.views.page.topology_file import Hardware, topology_file

ROOM = WIDE - 28
"""Pixels of a bar."""
MIB = 1 << 20
_SVG = "{http://www.w3.org/2000/svg}"


def _all(drawing: str, name: str) -> Iterator[ElementTree.Element]:
    tree = ElementTree.fromstring(drawing.encode())
    return (one for one in tree.iter() if one.tag.removeprefix(_SVG) == name)


def _words(drawing: str) -> list[str]:
    return [one.text or "" for one in _all(drawing, "text")]


def _widths(drawing: str, name: str) -> list[float]:
    """Of the parts of bars of a class that are as high as the bar of memory."""
    rects = (one for one in _all(drawing, "rect") if one.get("height") == "14")
    return [float(one.attrib["width"]) for one in rects if name in (one.get("class"), one.get("fill"))]


def _topology(machine: Machine = MACHINE) -> Topology:
    return document.topology(machine)


def _node(**change: object) -> TopologyNode:
    return replace(_topology().nodes[0], **change)


def _held(amounts: dict[int, int], promised: str | None, verdict: str | None = None) -> ContainerReport:
    """A container with these MiB by node."""
    (one,) = report(container(7)).containers
    intended = None
    if promised is not None:
        intended = Intended(NodeSet.parse(promised), None, CpuSet.parse("1"), NodeSet.parse("0"), None)
    return replace(
        one,
        resident=tuple(NodeBytes(node, amount * MIB, 0, 0, 0, None, None) for node, amount in amounts.items()),
        intended=intended,
        verdict=None if verdict is None else Verdict("spilled", "why", None, (), None),
    )


def _report(*containers: ContainerReport) -> Report:
    of = report()
    nodes = tuple(replace(one, total_bytes=100 * MIB, free_bytes=20 * MIB) for one in of.nodes)
    return replace(of, nodes=nodes, containers=containers)


def _small() -> Topology:
    of = _topology()
    return replace(of, nodes=tuple(replace(one, memory_bytes=100 * MIB) for one in of.nodes))


def test_a_bar_has_what_was_promised_here_and_elsewhere_and_to_nobody() -> None:
    held = [_held({0: 20}, "0"), _held({0: 10}, "1", "spilled"), _held({0: 30}, None)]
    drawing = topology_file(_small(), _report(*held))
    assert _widths(drawing, "held")[0] == pytest.approx(0.2 * ROOM, abs=0.01)
    assert _widths(drawing, "wrong")[0] == pytest.approx(0.1 * ROOM, abs=0.01)
    assert _widths(drawing, "loose")[0] == pytest.approx(0.3 * ROOM, abs=0.01)
    assert _widths(drawing, "url(#used)")[0] == pytest.approx(0.8 * ROOM, abs=0.01)


def test_a_bar_never_leaves_its_card() -> None:
    drawing = topology_file(_small(), _report(_held({0: 500}, "0"), _held({0: 500}, "1")))
    assert _widths(drawing, "held")[0] == pytest.approx(0.8 * ROOM, abs=0.01)
    assert _widths(drawing, "wrong") == []


def test_who_is_outside_its_promise_comes_first_and_is_marked_by_a_sign() -> None:
    held = [_held({0: number + 1}, "0") for number in range(8)]
    words = _words(topology_file(_small(), _report(*held, _held({0: 1}, "1", "spilled"))))
    at = words.index("! prod/db-0/db")
    assert words[at : at + 4] == ["! prod/db-0/db", "1Mi", "prod/db-0/db", "8Mi"]
    assert "3 more: 6Mi" in words
    assert "no memory of containers" in words, "node 1"


def test_a_container_that_is_not_aligned_is_marked_where_it_was_promised_too() -> None:
    assert "! prod/db-0/db" in _words(topology_file(_small(), _report(_held({0: 4}, "0", "spilled"))))


def test_an_exclusive_cpu_names_its_container() -> None:
    drawing = topology_file(_small(), _report(_held({0: 4}, "0")))
    (own,) = [one for one in _all(drawing, "rect") if one.get("class") == "own"]
    assert own.findtext(f"{_SVG}title") == "CPU 1: prod/db-0/db"
    assert len([one for one in _all(drawing, "rect") if one.get("class") == "cpu"]) == 7


def test_threads_of_a_core_are_side_by_side() -> None:
    cpus = CpuSet.parse("0-1,8-9")
    _, drawing = cpu_grid(cpus, (CpuSet.parse("0,8"), CpuSet.parse("1,9")), {}, 280)
    assert _words(f"<svg>{drawing}</svg>") == ["0", "8", "1", "9"]
    assert len([one for one in _all(f"<svg>{drawing}</svg>", "rect") if one.get("class") == "core"]) == 2
    _, alone = cpu_grid(cpus, (), {}, 280)
    assert _words(f"<svg>{alone}</svg>") == ["0", "1", "8", "9"], "whose core is not known"


def test_many_cpus_have_no_numbers_and_very_many_are_counted() -> None:
    high, drawing = cpu_grid(CpuSet.parse("0-1023"), (), {}, 280)
    assert _words(f"<svg>{drawing}</svg>") == ["and 512 more CPUs"]
    assert high < 600
    rects = [one for one in _all(f"<svg>{drawing}</svg>", "rect") if one.get("class") == "core"]
    assert all(float(one.attrib["x"]) + float(one.attrib["width"]) <= 280 for one in rects)


def test_nodes_are_in_the_frame_of_their_socket_and_those_without_cpus_apart() -> None:
    cpus = tuple(Cpu(number, number, number // 2) for number in range(4))
    nodes = (*(Node(number, CpuSet.of(number), MIB) for number in range(4)), Node(4, memory=MIB), Node(5))
    words = _words(topology_file(_topology(Machine(nodes, cpus))))
    shown = [one for one in words if one.startswith(("Socket", "Without", "Node", "memory only", "empty"))]
    assert shown == [
        "Socket 0", "Node 0", "Node 1", "Socket 1", "Node 2", "Node 3",
        "Without CPUs", "Node 4", "memory only", "Node 5", "empty",
    ]  # fmt: skip


def test_a_card_names_tier_speed_demotion_and_huge_pages() -> None:
    speed = MemorySpeed(NodeSet.of(0), 90, None, 200 << 30, None)
    pages = HugePages(2 * MIB, 16, 4, 0), HugePages(1 << 30, 0, 0, 0)
    node = _node(memory_tier=4, demotion_targets=NodeSet.of(1), memory_speed=speed, huge_pages=pages)
    words = _words(drawn_card(Card(node, (), demotes=True), 400))
    assert words[:2] == ["Node 0", "tier 4"]
    assert words[-3:] == [
        "2Mi pages: 4 free of 16",
        "cold pages move to node 1",
        "reads by the firmware: 90 ns, 200Gi/s",
    ]
    assert not any("cold pages" in one for one in _words(drawn_card(Card(node, (), demotes=False), 400)))


def test_a_node_of_which_nothing_is_known_has_no_bar() -> None:
    card = Card(_node(memory_bytes=None, cpus=CpuSet()), ())
    assert _words(drawn_card(card, card_high(card))) == ["Node 0", "empty", "memory ?", "no CPUs"]


def test_the_file_has_its_distances_and_loads_nothing() -> None:
    drawing = topology_file(_topology())
    words = _words(drawing)
    assert words[words.index("N0") :] == ["N0", "N1", "N0", "10", "20", "N1", "20", "10"]
    tree = ElementTree.fromstring(drawing.encode())
    assert tree.tag == f"{_SVG}svg"
    assert not [one for one in tree.iter() for key in one.attrib if key.endswith(("href", "src"))]
    assert "@import" not in drawing
    assert "<script" not in drawing


def test_a_farther_node_is_darker() -> None:
    distances = [{0: 10, 1: 12, 2: 32}, {0: 12, 1: 10, 2: 20}, {0: 32, 1: 20, 2: 10}]
    nodes = tuple(Node(number, CpuSet.of(number), MIB, distances=row) for number, row in enumerate(distances))
    drawing = topology_file(_topology(Machine(nodes)))
    shades = [float(one.attrib["fill-opacity"]) for one in _all(drawing, "rect") if one.get("fill-opacity")]
    own, near, far = shades[:3]
    assert near < far
    assert own < far


def test_distances_that_are_not_known_are_said_to_be() -> None:
    machine = Machine((Node(0, CpuSet.parse("0"), 1 << 30, distances={}),))
    assert "The firmware gives no distances between nodes." in _words(topology_file(_topology(machine)))
    nodes = (Node(0, CpuSet.of(0), 1, distances={0: 10}), Node(1, CpuSet.of(1), 1, distances={1: 10}))
    assert _words(topology_file(_topology(Machine(nodes))))[-6:] == ["N0", "10", "?", "N1", "?", "10"]


def _of_two_nodes(*caches: Cache, devices: tuple[HeldDevice, ...] = ()) -> str:
    nodes = (Node(0, CpuSet.parse("0-3"), MIB), Node(1, CpuSet.parse("4-7"), MIB))
    cpus = tuple(Cpu(cpu, cpu // 4, 0, cpu // 2, CpuSet.of(cpu & ~1, cpu | 1)) for cpu in range(8))
    return topology_file(_topology(Machine(nodes, cpus)), None, None, Hardware(caches, devices))


def test_the_cpus_of_each_last_cache_are_in_its_frame() -> None:
    sizes = {"0-1": 32 * MIB, "2-3": 32 * MIB, "4-9": None}
    caches = [Cache(3, CpuSet.parse(cpus), size) for cpus, size in sizes.items()]
    words = _words(_of_two_nodes(*caches))
    assert words.count("L3 32Mi") == 2
    assert "L3 of CPUs 4-9" in words
    assert [word for word in words if word.isdigit() and len(word) == 1][:8] == list("01234567")
    assert "L3 32Mi of CPUs 0-1" in "".join(next(_all(_of_two_nodes(*caches), "desc")).itertext())


def test_a_second_cache_is_named_only_where_several_cores_share_it() -> None:
    own, shared = Cache(2, CpuSet.parse("0-1")), Cache(2, CpuSet.parse("4-7"))
    assert [word for word in _words(_of_two_nodes(own, shared)) if "L2" in word] == ["L2 shared by CPUs 4-7"]
    assert not [word for word in _words(_of_two_nodes()) if word.startswith("L")]


def test_devices_are_on_their_node_and_those_of_an_unknown_one_below() -> None:
    devices = (HeldDevice("gpu", "0000:3b:00.0", 1), HeldDevice("storage", "0000:d8:00.0", None))
    words = _words(_of_two_nodes(devices=devices))
    assert words.index("GPU 0000:3b:00.0") > words.index("Node 1")
    assert "Of an unknown node: storage device 0000:d8:00.0" in words
    (node,) = Machine((Node(0, CpuSet.of(0), MIB),)).nodes
    alone = _words(topology_file(_topology(Machine((node,))), hardware=Hardware((), devices[1:])))
    assert "storage device 0000:d8:00.0" in alone


def test_a_node_with_many_devices_shows_eight_and_counts_the_others() -> None:
    def shown(number: int) -> list[str]:
        return _words(
            _of_two_nodes(devices=tuple(HeldDevice("network", f"0000:00:{n:02}.0", 0) for n in range(number)))
        )

    assert not [word for word in shown(8) if "more" in word]
    assert "and 1 more PCI devices" in shown(9)


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (Origin("worker-2", Timestamp(1_700_000_000.5)), "worker-2, 2023-11-14 22:13:20 UTC"),
        (Origin(None, None), "Host not named, captured at an unknown time"),
    ],
)
def test_the_drawing_ends_with_its_host_and_time(origin: Origin, said: str) -> None:
    assert _words(topology_file(_topology(), None, origin))[-1] == said


def test_an_arc_leads_from_the_cpus_to_memory_that_is_remote_also_without_a_promise() -> None:
    one = replace(
        _held({0: 60, 1: 40}, None), cpu_seconds=None, allowed_cpu_nodes=NodeSet.of(1), judged_bytes=100 * MIB,
        remote_bytes=60 * MIB,
    )  # fmt: skip
    drawing = topology_file(_small(), _report(one))
    (arc,) = (path for path in _all(drawing, "path") if path.get("class") == "arc")
    assert arc[0].text == "1: CPUs on node 1, 60Mi on node 0"
    assert "! prod/db-0/db" in _words(drawing)
    assert "prod/db-0/db: CPUs on node 1, 60Mi on node 0" in _words(drawing)
    assert _widths(drawing, "wrong")[0] == pytest.approx(0.6 * ROOM, abs=0.01)
    near = topology_file(_small(), _report(replace(one, remote_bytes=0, allowed_cpu_nodes=NodeSet.of(0, 1))))
    assert not [path for path in _all(near, "path") if path.get("class") == "arc"]
    assert _widths(near, "wrong") == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(name: str) -> None:
    one = replace(_held({0: 4, 1: 4}, "0", "spilled"), pod=name, container=name, namespace=name)
    drawing = topology_file(_small(), _report(one))
    assert {one.tag.removeprefix(_SVG) for one in ElementTree.fromstring(drawing.encode()).iter()} <= {
        "svg", "title", "desc", "style", "defs", "pattern", "path", "rect", "text", "g", "marker", "circle",
    }  # fmt: skip


def test_a_thousand_containers_and_a_thousand_nodes_make_no_large_file() -> None:
    held = [replace(_held({0: 1, 1: 1}, "0"), pod=f"{'x' * 200}-{number}") for number in range(1000)]
    assert len(topology_file(_small(), _report(*held))) < 40_000
    distances = dict.fromkeys(range(1000), 10)
    pages = (HugePages(2 * MIB, 4, 4),)
    nodes = tuple(Node(number, CpuSet.of(number), MIB, pages, distances) for number in range(1000))
    drawing = topology_file(_topology(Machine(nodes)))
    assert "and 936 more nodes" in _words(drawing)
    assert len(drawing) < 500_000
