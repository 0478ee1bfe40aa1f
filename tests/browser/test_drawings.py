"""`topology -o svg`, opened alone: all words are in its boxes, beside each other, and said to who cannot see them."""

from __future__ import annotations

from itertools import combinations

import pytest

from numaudit.api import document
from numaudit.encoding.value import Origin, Timestamp
from numaudit.ranks.declaration import HeldDevice
from numaudit.topology.machine import Cache, HugePages, Machine, Node
from numaudit.topology.nodeset import CpuSet
from numaudit.views.page.topology_file import Hardware, topology_file
from screens.browser_pages import Opened, OpenPage
from screens.pages import TOP

ALTERNATE = ",".join(map(str, range(0, 512, 2)))
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def drawing(nodes: int, cpus: str = "0-127", distances: bool = True) -> str:
    pages = (HugePages(2 << 20, 51200, 50000), HugePages(1 << 30, 4, None))
    rows = {one: {to: 10 if to == one else 32 for to in range(nodes)} if distances else {} for one in range(nodes)}
    machine = Machine(tuple(Node(one, CpuSet.parse(cpus), 6 << 40, pages, rows[one]) for one in range(nodes)))
    caches = tuple(Cache(3, CpuSet.parse(f"{at}-{at + 15}"), 32 << 20) for at in range(0, 128, 16))
    devices = tuple(HeldDevice("network", f"0000:{one:02x}:00.0", one % nodes or None) for one in range(20))
    origin = Origin("worker-2", Timestamp(1_700_000_000.0))
    return topology_file(document.topology(machine), None, origin, Hardware(caches, devices))


def boxes(opened: Opened, selector: str) -> list[Box]:
    found: list[Box] = opened.page.evaluate(
        """selector => [...document.querySelectorAll(selector)].map(one => {
            const box = one.getBoundingClientRect();
            return [box.left, box.top, box.right, box.bottom];
        })""",
        selector,
    )
    return found


def inside(one: Box, other: Box) -> bool:
    return other[0] <= one[0] and other[1] <= one[1] and one[2] <= other[2] and one[3] <= other[3]


def overlap(one: Box, other: Box) -> bool:
    """By more than the pixel or two that lines of text share."""
    return min(one[2], other[2]) - max(one[0], other[0]) > 2 and min(one[3], other[3]) - max(one[1], other[1]) > 2


@pytest.mark.parametrize(
    ("nodes", "cpus", "distances"),
    [(1, "0-127", True), (1, "0-127", False), (2, ALTERNATE, True), (8, "", False), (16, "0-127", True)],
    ids=["one", "no-distances", "long-lists", "no-cpus", "many"],
)
def test_no_words_leave_the_drawing_or_lie_over_each_other(
    open_page: OpenPage, nodes: int, cpus: str, distances: bool
) -> None:
    opened = open_page(drawing(nodes, cpus, distances), width=1600)
    words = boxes(opened, "text")
    (paper,) = boxes(opened, ".paper")
    assert len(words) > 4 * nodes
    assert [one for one in words if not inside(one, paper)] == []
    assert [pair for pair in combinations(words, 2) if overlap(*pair)] == []


@pytest.mark.parametrize("name", ["misaligned-node", "tiered"])
def test_no_words_of_a_captured_host_lie_over_each_other(open_page: OpenPage, name: str) -> None:
    opened = open_page((TOP / f"tests/golden/{name}.topology.svg").read_text(encoding="utf-8"), width=1600)
    words, (paper,) = boxes(opened, "text"), boxes(opened, ".paper")
    assert [one for one in words if not inside(one, paper)] == []
    assert [pair for pair in combinations(words, 2) if overlap(*pair)] == []


def test_the_words_of_a_node_stay_in_its_box(open_page: OpenPage) -> None:
    opened = open_page(drawing(3, ALTERNATE))
    frames = boxes(opened, ".box")
    words = boxes(opened, "g text")
    assert (
        sum(any(inside(one, frame) for frame in frames) for one in words) == 3 * (5 + 8) + 13
    )  # 8 caches each; devices
    assert not any(overlap(one, frame) and not inside(one, frame) for one in words for frame in frames)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_drawing_has_paper_and_ink_that_differ(open_page: OpenPage, dark: bool) -> None:
    opened = open_page(drawing(2), dark=dark)
    fills = {opened.page.locator(one).first.evaluate("one => getComputedStyle(one).fill") for one in (".paper", ".ink")}
    assert fills == ({"rgb(23, 24, 28)", "rgb(232, 232, 234)"} if dark else {"rgb(255, 255, 255)", "rgb(28, 28, 30)"})


def test_a_drawing_is_one_image_with_a_name_and_all_it_shows_in_words(open_page: OpenPage) -> None:
    opened = open_page(drawing(2, "0-3"))
    assert opened.page.get_by_role("img", name="A machine with 2 NUMA nodes, 8 CPUs, 12Ti").count() == 1
    words = opened.page.locator("desc").text_content() or ""
    for said in (
        "Node 0: memory 6Ti; CPUs 0-3",
        "2Mi pages: 50000 free of 51200",
        "distances 32 to node 1",
        "Node 1: ",
    ):
        assert said in words
    assert [one for one in opened.violations() if one.startswith(("serious", "critical"))] == []
