"""`report -o html` as people meet it: at any width, in the dark, on paper, without script, by mouse and by keyboard."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from functools import cache
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from hosts.hostile_names import HOSTILE
from made_up.reports import report
from numaudit.api.redact import redact
from numaudit.api.selection import narrow
from numaudit.cli.observe.report_work import observe_whole
from numaudit.encoding.value import Origin, Timestamp
from numaudit.engine.observer import Observer
from numaudit.errors import printable
from numaudit.evaluation.verdicts import REMEDIES
from numaudit.kernel.host import Host
from numaudit.report.build import build
from numaudit.views.page.report_page import Tick, live_page, report_page
from screens.browser_pages import DESKTOP, PHONE, Opened, OpenPage
from screens.page_reports import hostile, many

TREES = (
    "cgroup-v1", "eight-nodes", "huge-pages", "kubernetes-four-nodes", "memory-only-node", "misaligned-node",
    "single-node-hybrid", "systemd-crio",
)  # fmt: skip
MOST_ELEMENTS = 20_000
ZOOMED, PAPER = 320, 718
"""Pixels of a desktop's window at 400 %, and of a sheet of A4 between the margins that browsers give it."""
CapturedHost = Callable[[str], Host]


@cache
def page_of(number: int) -> str:
    """The page of a busy node with as many containers."""
    return report_page(many(number))


def column(page: Page, title: str) -> list[str]:
    """The cells below a heading, from the top, without hidden rows."""
    cells: list[str] = page.evaluate(
        """title => {
            const table = document.getElementById("rows");
            const at = [...table.tHead.rows[0].cells].findIndex(head => head.textContent === title);
            return [...table.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[at].innerText.trim());
        }""",
        title,
    )
    return cells


def sorts(page: Page) -> dict[str, str]:
    """Which headings say that the rows are in their order."""
    heads = page.locator("#rows thead th[aria-sort]")
    return {head.inner_text().strip(" \n▲▼"): str(head.get_attribute("aria-sort")) for head in heads.all()}


def hides(page: Page, selector: str) -> bool:
    return all(not one.is_visible() for one in page.locator(selector).all())


# It fits, and can be read


def fits(opened: Opened) -> bool:
    """At each width, and on paper."""
    for width in (ZOOMED, PHONE, DESKTOP, PAPER):
        opened.show(width, "print" if width == PAPER else "screen")
        if opened.overflows:
            return False
    return True


@pytest.mark.parametrize("tree", TREES)
def test_the_page_of_a_captured_host_fits_every_window(captured: CapturedHost, open_page: OpenPage, tree: str) -> None:
    opened = open_page(report_page(build(Observer.of(captured(tree)).observe())))
    assert fits(opened)
    assert opened.page.locator("#rows tbody tr").count() > 0


@pytest.mark.parametrize(("number", "nodes"), [(0, 4), (5, 16), (1000, 4)])
def test_the_page_of_any_number_of_containers_and_nodes_fits_every_window(
    open_page: OpenPage, number: int, nodes: int
) -> None:
    opened = open_page(report_page(many(number, nodes=nodes)))
    assert fits(opened)
    assert opened.page.locator("#rows tbody tr").count() == number


@pytest.mark.parametrize(
    ("number", "width", "dark"),
    [
        *((5, width, dark) for width in (PHONE, DESKTOP) for dark in (False, True)),
        (1000, PHONE, True),
        (1000, DESKTOP, False),
    ],
)
def test_nothing_keeps_anybody_from_reading_the_page(open_page: OpenPage, number: int, width: int, dark: bool) -> None:
    assert open_page(page_of(number), width=width, dark=dark).violations() == []


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_title_of_a_column_stays_on_one_line(open_page: OpenPage, width: int) -> None:
    page = open_page(page_of(5), width=width).page
    boxes = [title.bounding_box() for title in page.locator("thead th").all()]
    assert len(boxes) > 20
    assert max(box["height"] for box in boxes if box is not None) < 35


def test_what_matters_most_is_on_the_first_screen(open_page: OpenPage) -> None:
    page = open_page(page_of(1000)).page
    for selector in (".summary", "time", "h2", "h3", ".remedy"):
        box = page.locator(selector).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 800


def test_every_part_can_be_reached_from_the_top_however_many_containers_there_are(open_page: OpenPage) -> None:
    page = open_page(page_of(1000)).page
    links = page.locator("nav a").all()
    titles = page.locator("main > section:not(.own) > h2").all_inner_texts()
    assert [link.inner_text() for link in links] == titles
    for link in links:
        link.click()
        assert page.locator("h2:target").inner_text() == link.inner_text()


# It sorts

NUMBERS = ("Judged", "Remote", "Accesses")
UNKNOWN = ("", "-", "?", "not measured")
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def amount(text: str) -> float:
    """What a cell of numbers begins with: 12.3Mi, 4.5%, 0."""
    number = text.split(maxsplit=1)[0].rstrip("%")
    return float(number.rstrip("KMGi")) * UNITS.get(number[-2:], 1)


def words(text: str) -> tuple[list[int], str]:
    """In which order words come: those that begin with a number by their numbers."""
    return ([int(part) for part in re.findall(r"\d+", text)] if text[0].isdecimal() else [], text)


@pytest.mark.parametrize("title", NUMBERS)
def test_a_column_of_amounts_is_sorted_with_the_largest_first_then_the_other_way_and_what_is_not_known_comes_last(
    open_page: OpenPage, title: str
) -> None:
    page = open_page(page_of(200)).page
    for direction in ("descending", "ascending"):
        page.get_by_role("button", name=title, exact=True).click()
        assert sorts(page) == {title: direction}
        cells = column(page, title)
        known = [cell for cell in cells if cell not in UNKNOWN]
        assert 0 < len(known) < len(cells)
        assert cells[: len(known)] == known
        amounts = [amount(cell) for cell in known]
        assert amounts == sorted(amounts, reverse=direction == "descending")
        assert len(set(amounts)) > 1


@pytest.mark.parametrize("title", ["Container", "QoS", "Promised", "Allowed", "CPU nodes"])
def test_a_column_of_words_is_sorted_both_ways(open_page: OpenPage, title: str) -> None:
    page = open_page(page_of(50)).page
    for direction in ("ascending", "descending"):
        page.get_by_role("button", name=title, exact=True).press("Enter")
        assert sorts(page) == {title: direction}
        known = [cell for cell in column(page, title) if cell not in UNKNOWN]
        assert column(page, title)[: len(known)] == known
        assert known == sorted(known, key=words, reverse=direction == "descending")


def test_verdicts_are_sorted_by_severity(open_page: OpenPage) -> None:
    page = open_page(page_of(50)).page
    severities = [str(name) for name in REMEDIES]
    for direction in ("ascending", "descending"):
        page.get_by_role("button", name="Verdict", exact=True).press("Space")
        assert sorts(page) == {"Verdict": direction}
        ranks = [severities.index(text.split()[-1]) for text in column(page, "Verdict")]
        assert ranks == sorted(ranks, reverse=direction == "descending")


def test_by_node_sorts_by_the_node_that_holds_most(open_page: OpenPage) -> None:
    page = open_page(page_of(50)).page

    def homes() -> list[str]:
        """Of each row the node with most bytes, in mebibytes."""
        rows = [dict(part.split(":") for part in text.split()) for text in column(page, "By node") if text != "?"]
        return [max(row, key=lambda node: amount(row[node])) for row in rows]

    for direction in ("ascending", "descending"):
        page.get_by_role("button", name="By node", exact=True).click()
        assert homes() == sorted(homes(), reverse=direction == "descending")
        assert column(page, "By node")[-1] == "?"


def test_the_keyboard_alone_sorts_and_stays_where_it_is(open_page: OpenPage) -> None:
    page = open_page(page_of(50)).page
    page.locator("#verdict").focus()
    focused = "document.activeElement.textContent"
    while page.evaluate(focused) != "Judged":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert sorts(page) == {"Judged": "descending"}
    assert page.evaluate(focused) == "Judged"


# Rows


def test_the_verdict_is_in_view_on_a_phone_without_scrolling_sideways(open_page: OpenPage) -> None:
    page = open_page(page_of(40), width=390).page
    page.locator("#rows").scroll_into_view_if_needed()
    for cell in page.locator("#rows tbody tr td:nth-child(2)").all()[:5]:
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] < 390


def test_the_titles_of_the_columns_stay_in_view_while_rows_scroll(open_page: OpenPage) -> None:
    page = open_page(page_of(200)).page
    page.locator("#rows tbody tr").nth(150).scroll_into_view_if_needed()
    assert page.locator("#rows thead th").first.is_visible()
    head = page.locator("#rows thead th").first.bounding_box()
    row = page.locator("#rows tbody tr").nth(150).bounding_box()
    assert head is not None
    assert row is not None
    assert 0 <= head["y"] < row["y"] < 800


def test_a_row_is_one_line_until_it_is_unfolded_by_keyboard_and_then_says_all(open_page: OpenPage) -> None:
    page = open_page(page_of(40)).page
    row = page.locator("#rows tbody tr").first
    words = row.locator(".nodes")

    def height() -> float:
        box = row.bounding_box()
        assert box is not None
        tall: float = box["height"]
        return tall

    assert height() < 40
    is_cut = "one => one.scrollWidth > one.clientWidth"
    assert words.evaluate(is_cut)
    row.locator("summary").press("Enter")
    assert height() > 40
    assert not words.evaluate(is_cut)


def test_a_long_name_is_whole_on_a_desktop_and_shows_its_two_ends_in_a_narrow_window(open_page: OpenPage) -> None:
    wide = open_page(page_of(40), width=1440).page.locator("#rows .name span").first
    assert not wide.evaluate("one => one.scrollWidth > one.clientWidth")
    page = open_page(page_of(40), width=1000).page
    name = page.locator("#rows .name").first
    head = name.locator("span")
    assert head.evaluate("one => one.scrollWidth > one.clientWidth")
    edges = name.evaluate("""one => {
        const tail = document.createRange();
        tail.selectNodeContents(one.lastChild);
        const [box, cell] = [tail, one.closest("th")].map(part => part.getBoundingClientRect());
        return [one.lastChild.data.length, box.left, box.right, cell.left, cell.right];
    }""")
    letters, left, right, begin, end = edges
    assert letters == 18
    assert begin < left < right <= end


@pytest.mark.parametrize("live", [True, False])
def test_the_page_of_1000_containers_has_at_most_20000_elements(open_page: OpenPage, live: bool) -> None:
    of = many(1000)
    page = live_page(Tick(of, Origin("worker-2", Timestamp(of.taken_at)), "tag", {})) if live else page_of(1000)
    opened = open_page(page, script=not live)  # a browser without scripts makes elements of what is in noscript
    assert 15_000 < opened.page.locator(":not(noscript *)").count() <= MOST_ELEMENTS


# A container's own page


def test_the_page_says_how_long_ago_its_report_was_taken_and_so_does_that_of_a_container(open_page: OpenPage) -> None:
    taken_at = Timestamp(time.time() - 2.5 * 86400)
    page = open_page(report_page(many(5), Origin("worker-2", taken_at))).page
    assert "UTC, 2 days ago; " in page.locator("#taken").inner_text()
    assert page.title() == "numaudit report of worker-2"
    own = page.locator("#rows a.name").first
    name = own.text_content() or "?"
    own.click()
    page.wait_for_function("document.title.endsWith(' - numaudit report of worker-2')")
    assert page.title().startswith(name)
    assert "UTC, 2 days ago; " in page.locator("#taken").inner_text()
    assert page.locator("h1").inner_text() == "numaudit report of worker-2"


def test_a_name_leads_to_a_page_about_that_container_alone_and_back(open_page: OpenPage) -> None:
    opened = open_page(page_of(20))
    page = opened.page
    name = page.locator("#rows a.name").first
    words = name.text_content()
    name.press("Enter")
    assert page.locator("main h2:visible").all_inner_texts() == [words]
    assert hides(page, "#rows, nav, .tiles, .map")
    assert page.locator(".own:target .flow").is_visible()
    assert opened.violations() == []
    assert fits(opened)
    page.emulate_media(media="print")
    assert page.locator("main h2:visible").all_inner_texts() == [words]
    page.emulate_media(media="screen")
    page.get_by_role("link", name="All containers").press("Enter")
    assert page.locator("#rows").is_visible()
    assert hides(page, ".own")


def test_an_arc_in_the_map_leads_to_its_container_without_script(open_page: OpenPage) -> None:
    page = open_page(page_of(20), script=False).page
    arc = page.locator(".away a").first
    words = arc.inner_text()
    arc.click()
    assert page.locator("main h2:visible").all_inner_texts() == [words]


# Processes


@cache
def _page_with_processes(host: Host, name: str) -> str:
    """As `report NAME --processes -o html` writes it."""
    found = observe_whole(Observer.of(host), 60.0, None, with_processes=True).report
    return report_page(narrow(found, name))


@pytest.mark.parametrize("script", [True, False])
def test_processes_that_were_asked_for_are_in_view_before_anything_is_opened(
    open_page: OpenPage, captured: CapturedHost, script: bool
) -> None:
    page = open_page(_page_with_processes(captured("ranks"), "vllm-0"), script=script).page
    page.get_by_role("link", name="Processes", exact=True).click()
    rows = page.get_by_role("table", name="Processes", exact=True).locator("tbody tr")
    assert [row.locator("th, td").nth(1).inner_text() for row in rows.all()] == [
        "VLLM::Worker_TP0", "VLLM::Worker_TP1", "VLLM::Worker_TP2", "1 thread: nccl-net", "VLLM::Worker_TP3",
    ]  # fmt: skip
    assert page.get_by_role("table", name="Ranks", exact=True).get_by_text("first-touch-before-bind").is_visible()
    box = rows.first.bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 800


def test_tables_of_processes_fit_every_window_and_keep_nobody_from_reading(
    open_page: OpenPage, captured: CapturedHost
) -> None:
    opened = open_page(_page_with_processes(captured("ranks"), "vllm-0"))
    assert opened.violations() == []
    assert fits(opened)
    assert opened.page.get_by_role("table", name="Processes", exact=True).is_visible()


def test_a_name_above_processes_leads_to_its_own_page_which_has_them_too(
    open_page: OpenPage, captured: CapturedHost
) -> None:
    page = open_page(_page_with_processes(captured("ranks"), "vllm-0")).page
    page.locator("#processes ~ h3").get_by_role("link").press("Enter")
    assert page.locator("main h2:visible").all_inner_texts() == ["ml/vllm-0/server"]
    assert page.get_by_role("table", name="Processes", exact=True).count() == 1


def test_a_report_that_was_not_asked_for_processes_has_no_section_for_them(open_page: OpenPage) -> None:
    assert open_page(page_of(5)).page.locator("#processes").count() == 0


# It filters


def test_filter_and_order_are_in_the_address_and_a_link_shows_what_its_sender_saw(open_page: OpenPage) -> None:
    page = open_page(page_of(80)).page
    page.get_by_label("Filter by name").fill("kube")
    page.get_by_label("Verdict").select_option("spilled")
    page.get_by_role("button", name="Judged", exact=True).click()
    assert page.url.endswith("?name=kube&verdict=spilled&sort=-Judged")
    seen = column(page, "Container")
    page.reload()
    assert column(page, "Container") == seen
    assert sorts(page) == {"Judged": "descending"}
    assert page.locator("#shown").inner_text() == '10 of 80 rows shown: name with "kube", verdict spilled'
    page.get_by_label("Filter by name").fill("")
    page.get_by_label("Verdict").select_option("all")
    assert page.url.endswith("?sort=-Judged")


def test_what_is_typed_is_in_the_address_without_leaving_the_field(open_page: OpenPage) -> None:
    page = open_page(page_of(5)).page
    page.get_by_label("Filter by name").press_sequentially("kube")
    page.wait_for_url("**?name=kube")
    assert page.evaluate("document.activeElement.id") == "name"


@pytest.mark.parametrize("choice", ["<img src=x onerror=alert(1)>", "\u202e" + "x" * 300, "nothing like that"])
def test_an_address_of_somebody_else_is_text_and_nothing_more(open_page: OpenPage, choice: str) -> None:
    opened = open_page(page_of(5))
    before = opened.page.evaluate("document.querySelectorAll('main *').length")
    opened.page.goto(f"{opened.page.url}?name={quote(choice)}&verdict={quote(choice)}&sort={quote(choice)}")
    assert column(opened.page, "Container") == []
    assert opened.page.evaluate("document.querySelectorAll('main *').length") == before + 1  # the chosen verdict
    assert fits(opened)


def test_a_name_and_a_verdict_choose_rows_together_and_the_count_is_right(open_page: OpenPage) -> None:
    page = open_page(page_of(80)).page
    assert page.locator("#shown").inner_text() == "80 of 80 rows shown"
    page.get_by_label("Filter by name").fill("  KUBE-system ")
    assert len(column(page, "Container")) == 40
    page.get_by_label("Verdict").select_option("aligned")
    names = column(page, "Container")
    assert names == [name for name in names if name.startswith("kube-system/")]
    assert set(column(page, "Verdict")) <= {"aligned"}
    assert page.locator("#shown").inner_text().startswith(f"{len(names)} of 80 rows shown")
    page.get_by_label("Filter by name").fill("")
    assert len(column(page, "Container")) == 10


def test_a_sorted_table_stays_filtered_and_a_filtered_one_sorted(open_page: OpenPage) -> None:
    page = open_page(page_of(80)).page
    page.get_by_label("Verdict").select_option("spilled")
    page.get_by_role("button", name="Container", exact=True).click()
    spilled = column(page, "Container")
    assert len(spilled) == 10
    assert spilled == sorted(spilled)
    page.get_by_label("Verdict").select_option("all")
    assert column(page, "Container") == sorted(column(page, "Container"))
    assert len(column(page, "Container")) == 80


def test_a_filter_that_fits_nothing_says_so(open_page: OpenPage) -> None:
    page = open_page(page_of(5)).page
    page.get_by_label("Filter by name").fill("no such name")
    assert page.locator("#shown").inner_text().startswith("0 of 5 rows shown")


# On paper, and without script


def test_paper_has_no_controls_and_says_what_a_filter_left_out(open_page: OpenPage) -> None:
    page = open_page(page_of(80)).page
    page.get_by_label("Filter by name").fill("kube")
    page.get_by_label("Verdict").select_option("aligned")
    page.emulate_media(media="print")
    assert hides(page, "input, select, nav")
    assert page.locator("#shown").is_visible()
    count = len(column(page, "Container"))
    assert page.locator("#shown").inner_text() == f'{count} of 80 rows shown: name with "kube", verdict aligned'


def test_paper_shows_every_finding(open_page: OpenPage) -> None:
    page = open_page(page_of(1000), media="print").page
    assert page.locator(".group li:visible").count() == page.locator(".group li").count() > 400


def test_paper_is_light_also_for_who_reads_in_the_dark(open_page: OpenPage) -> None:
    page = open_page(page_of(5), dark=True, media="print").page
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_script_everything_can_be_read_and_nothing_pretends_to_work(open_page: OpenPage) -> None:
    page = open_page(page_of(80), script=False).page
    assert page.locator("#rows tbody tr:visible").count() == 80
    assert page.locator("#rows .nodes svg:visible").count() == 80
    assert hides(page, "input, select, button")
    assert page.locator("main h2:visible").count() == page.locator("main > section:not(.own) h2").count()


# Names from outside


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 4096, "\u202e" + "\u05d0" * 300])
def test_a_hostile_name_is_text_and_the_page_keeps_its_shape(open_page: OpenPage, name: str) -> None:
    def shape(page: Page) -> Sequence[str]:
        names: list[str] = page.evaluate(
            "[...document.querySelectorAll('*:not(#rows .nodes *)')].map(one => one.tagName)"
        )
        return names

    opened = open_page(report_page(hostile(name)))
    assert shape(opened.page) == shape(open_page(report_page(hostile("p" * len(printable(name))))).page)
    assert fits(opened)
    assert opened.page.title() == "numaudit report"


def test_a_redacted_page_shows_no_name_of_the_original(open_page: OpenPage) -> None:
    original = many(20)
    html = open_page(report_page(redact(original, b"key", original))).page.content()
    assert "application" in report_page(original)
    assert not [
        word for word in ("application", "deployment-name", "kube-system", "database-0", "batch-0") if word in html
    ]


# Nothing to show


def test_a_host_without_containers_is_a_page_too(open_page: OpenPage) -> None:
    opened = open_page(report_page(report()))
    assert opened.page.locator(".summary").inner_text() == "No container or cgroup was found"
    assert opened.page.locator("#shown").inner_text() == "0 of 0 rows shown"
    assert opened.violations() == []
