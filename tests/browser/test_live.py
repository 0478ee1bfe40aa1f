"""The agent's page in a browser: newer figures disturb nobody who reads, and figures that are old say so."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

import bcrypt
import msgspec
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from hosts.hostile_names import HOSTILE
from hosts.node_tree import MIB, NodeTree
from made_up.reports import LIVE, STARTED, container, report
from numaudit.daemon.web.auth import AccessRules
from numaudit.daemon.web.connections import Connections
from numaudit.daemon.web.pages import LINKS, AgentSite, Health
from numaudit.daemon.web.server import Server
from numaudit.daemon.web.tick_document import TickDocuments
from numaudit.encoding.value import Origin, Timestamp
from numaudit.errors import printable
from numaudit.evaluation.verdicts import REMEDIES, Verdict, VerdictName
from numaudit.exporters.exposition import evaluate_live
from numaudit.exporters.prometheus import MetricPages
from numaudit.report.values import ContainerReport
from numaudit.report.words import in_utc
from processes.agent_process import PATIENCE, running_agent
from screens.browser_pages import DESKTOP, PHONE, Opened, OpenPage

JUDGED = "Judged"
GOOD, BAD = Health(True, "ok: 9 ticks"), Health(False, "the newest 3 ticks failed; the log says why")
FIGURES = re.compile(r"[Ff]igures of \d+ s ago")
expect.set_options(timeout=PATIENCE * 1000)


@dataclass
class Site:
    """The agent's pages without an agent: a tick comes when a test says so."""

    access: AccessRules = field(default_factory=AccessRules)
    newest: TickDocuments | None = None
    health: Health = GOOD
    ticks: int = 0
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        metrics = MetricPages(lambda: evaluate_live(LIVE, STARTED))
        newest, is_current, health = lambda: self.newest, lambda: self.health.good, lambda: self.health
        site = AgentSite(metrics, newest, is_current, health, health, self.access)
        self.server = Server(("127.0.0.1", 0), site, self.access, Connections(128))
        self.server.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/"

    @property
    def taken_at(self) -> float:
        """Each tick has a second of its own."""
        return STARTED + self.ticks

    def tick(self, containers: Sequence[ContainerReport], age: float = 0.0, interval: float = 1.0) -> None:
        self.ticks += 1
        of = msgspec.structs.replace(report(taken_at=self.taken_at), containers=tuple(containers))
        self.newest = TickDocuments.of(
            of, time.monotonic() - age, interval, LINKS, Origin(None, Timestamp(self.taken_at))
        )

    def tick_and_see(self, page: Page, containers: Sequence[ContainerReport]) -> None:
        """A tick, until the page shows it."""
        self.tick(containers)
        expect(page.locator("time")).to_have_text(in_utc(self.taken_at))


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.stop()


def _one(name: str, mib: int, verdict: VerdictName = "aligned") -> ContainerReport:
    """`ns/NAME/c`, with so many MiB."""
    id_ = 1 + crc32(name.encode(errors="surrogatepass"))
    (one,) = report(container(id_, name, "c", "ns"), anon={0: mib << 20, 1: 0}).containers
    return msgspec.structs.replace(one, verdict=Verdict(verdict, "a reason", None, (), REMEDIES[verdict]))


def _many(more: int = 0) -> list[ContainerReport]:
    return [_one(f"pod-{number:02}", number + 1 + more) for number in range(80)]


def _row(page: Page, name: str) -> Locator:
    return page.locator("#rows tbody tr").filter(has_text=f"ns/{name}/c")


def _judged(page: Page, name: str) -> Locator:
    return _row(page, name).locator(".n").first


def _names(page: Page) -> list[str]:
    """Of the rows that are to be seen, in their order."""
    cells = "Array.from(document.querySelectorAll('#rows tbody tr:not([hidden]) th'), one => one.textContent)"
    return [str(one).split("/")[1] for one in page.evaluate(cells)]


def _forget_failed_loads(opened: Opened) -> int:
    """Chromium itself says on the console that an address could not be loaded. How often it did."""
    before = len(opened.complaints)
    opened.complaints[:] = [one for one in opened.complaints if "Failed to load resource" not in one]
    return before - len(opened.complaints)


# Newer figures


def test_newer_figures_come_without_loading_the_page_again(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    opened = open_page(site.address)
    page = opened.page
    page.evaluate("window.same = true")
    for mib in (2, 3):
        site.tick_and_see(page, [_one("db", mib)])
        expect(_judged(page, "db")).to_have_text(f"{mib}Mi")
    assert page.evaluate("window.same")
    assert {one.removeprefix(site.address) for one in opened.requests} == {"", "report.json"}


def test_what_the_reader_entered_and_where_they_are_stays(site: Site, open_page: OpenPage) -> None:
    site.tick([*_many(), _one("other", 1)])
    page = open_page(site.address).page
    page.get_by_role("button", name=JUDGED).click()
    page.get_by_label("Filter by name").fill("pod")
    page.keyboard.press("ArrowLeft")
    page.evaluate("scrollTo(0, 900)")
    before = page.evaluate("[scrollY, document.getElementById('name').selectionStart]")
    # In reverse: each row moves.
    site.tick_and_see(page, [_one(f"pod-{number:02}", 100 - number) for number in range(80)])
    assert _names(page) == [f"pod-{number:02}" for number in range(80)]
    assert page.evaluate("[scrollY, document.getElementById('name').selectionStart]") == before
    assert page.evaluate("document.activeElement.id") == "name"
    expect(page.locator("#rows [aria-sort]")).to_have_text(JUDGED)
    expect(page.locator("#shown")).to_have_text('80 of 80 rows shown: name with "pod"')


def test_only_what_differs_is_touched(site: Site, open_page: OpenPage) -> None:
    site.tick(_many())
    page = open_page(site.address).page
    page.evaluate(
        """async () => {
          for (const _ of [1, 2]) await new Promise(requestAnimationFrame);  // what is in view is drawn
          window.touched = new Set();
          const rows = document.getElementById("rows");
          new MutationObserver((records) => {
            for (const { target } of records) {
              const row = (target.closest ? target : target.parentElement).closest("tr");
              window.touched.add(row === null ? "elsewhere" : row.cells[0].textContent);
            }
          }).observe(rows, { subtree: true, childList: true, characterData: true, attributes: true });
        }"""
    )
    containers = _many()
    containers[7] = _one("pod-07", 1000)
    site.tick_and_see(page, containers)
    assert page.evaluate("Array.from(window.touched)") == ["ns/pod-07/c"]


def test_a_rows_drawing_is_made_when_it_comes_into_view_and_those_of_all_to_be_printed(
    site: Site, open_page: OpenPage
) -> None:
    site.tick(_many())
    page = open_page(site.address).page
    drawn, waiting = page.locator("#rows .nodes svg"), page.locator("#rows .nodes noscript")
    last = page.locator("#rows tbody tr").last
    expect(last.locator("svg")).to_have_count(0)
    first = page.locator("#rows tbody tr").first
    first.scroll_into_view_if_needed()
    expect(first.locator("svg path.resident")).to_be_visible()
    site.tick_and_see(page, _many(more=3))
    expect(first.locator("svg path.resident")).to_be_visible()
    expect(last.locator("svg")).to_have_count(0)
    last.scroll_into_view_if_needed()
    expect(last.locator("svg path.resident")).to_be_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(drawn).to_have_count(80)
    expect(waiting).to_have_count(0)


def test_selected_text_stays_selected(site: Site, open_page: OpenPage) -> None:
    site.tick(_many())
    page = open_page(site.address).page
    page.evaluate(
        """() => {
          const rows = document.getElementById("rows").tBodies[0].rows;
          const first = rows[3].querySelector(".name span").firstChild;
          getSelection().setBaseAndExtent(first, 0, rows[5].cells[5].firstChild, 3);
        }"""
    )
    before = page.evaluate("getSelection().toString()")
    assert before.startswith("ns/pod-03/c")
    assert before.endswith("6Mi")
    site.tick_and_see(page, [*_many(more=3)[:40], *_many()[60:]])
    after = page.evaluate("getSelection().toString()")
    assert (after[:11], after[-3:]) == ("ns/pod-03/c", "9Mi")


def test_containers_that_come_and_go_obey_the_filter_at_once(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db-0", 1, "drifted"), _one("web-0", 2)])
    page = open_page(site.address).page
    page.get_by_label("Filter by name").fill("db")
    page.get_by_label("Verdict").select_option("drifted")
    assert _names(page) == ["db-0"]
    site.tick_and_see(page, [_one("web-1", 5, "drifted"), _one("db-1", 3, "drifted"), _one("db-0", 1, "drifted")])
    assert _names(page) == ["db-1", "db-0"]
    site.tick_and_see(page, [_one("db-1", 3), _one("db-0", 1)])
    assert _names(page) == []
    expect(page.get_by_label("Verdict")).to_have_value("drifted")
    site.tick_and_see(page, [_one("db-1", 3, "drifted")])
    assert _names(page) == ["db-1"]
    assert page.locator("#verdict option").all_inner_texts() == ["all", "drifted"]


def test_a_list_that_was_unfolded_stays_so_when_others_come_before_it(site: Site, open_page: OpenPage) -> None:
    drifted = [_one(f"db-{number}", 1, "drifted") for number in range(9)]
    site.tick(drifted[:8])
    page = open_page(site.address).page
    page.get_by_text("5 more").click()
    expect(page.locator("details[open]")).to_have_count(1)
    spilled = [_one(f"web-{number}", 1, "spilled") for number in range(7)]
    site.tick_and_see(page, [*spilled, *drifted])
    expect(page.locator(".group details")).to_have_count(2)
    expect(page.locator("details[open] summary")).to_have_text("6 more")


def test_a_hostile_name_that_comes_later_is_a_name(site: Site, open_page: OpenPage) -> None:
    site.tick([_one(f"{number:02}".ljust(len(printable(name)), "p"), 1) for number, name in enumerate(HOSTILE)])
    page = open_page(site.address).page
    shape = "Array.from(document.querySelectorAll(':not(.nodes *)'), e => e.tagName + e.getAttributeNames().sort())"
    before = page.evaluate(shape)
    site.tick_and_see(page, [_one(name, 1) for name in HOSTILE])
    assert page.evaluate(shape) == before


def test_below_a_path_of_a_proxy_the_page_finds_its_agent(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    page = open_page(site.address).page
    below = f"{site.address}nodes/a/"

    def proxy(route: Route) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace(below, site.address)))

    page.route(f"{below}**", proxy)
    page.goto(below)
    expect(_judged(page, "db")).to_have_text("1Mi")
    site.tick_and_see(page, [_one("db", 2)])
    page.get_by_role("link", name="/report.json").click()
    assert page.url == f"{below}report.json"


def test_a_newer_agent_brings_its_own_page(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    page = open_page(site.address).page
    page.evaluate("document.querySelector('meta[name=generator]').content = 'numaudit 0.0.1'")
    site.tick([_one("db", 2)])
    with page.expect_event("load"):
        pass
    expect(_judged(page, "db")).to_have_text("2Mi")


# When it asks


def test_a_paused_page_asks_nothing_and_is_up_to_date_when_it_goes_on(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    opened = open_page(site.address)
    page = opened.page
    pause = page.get_by_role("button", name="Pause")
    expect(pause).to_have_attribute("aria-pressed", "false")
    pause.focus()
    page.keyboard.press("Space")
    expect(pause).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#age")).to_contain_text("Paused")
    page.wait_for_timeout(200)  # for an answer that was on its way
    asked = len(opened.requests)
    site.tick([_one("db", 2)])
    page.wait_for_timeout(3000)
    assert len(opened.requests) == asked
    expect(_judged(page, "db")).to_have_text("1Mi")
    page.keyboard.press("Space")
    expect(pause).to_have_attribute("aria-pressed", "false")
    expect(_judged(page, "db")).to_have_text("2Mi")


def test_a_page_that_nobody_sees_asks_nothing(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    opened = open_page(site.address)
    page = opened.page
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => window.unseen, configurable: true })")
    page.evaluate("window.unseen = true; document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_timeout(200)
    asked = len(opened.requests)
    site.tick([_one("db", 2)])
    page.wait_for_timeout(3000)
    assert len(opened.requests) == asked
    page.evaluate("window.unseen = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(_judged(page, "db")).to_have_text("2Mi")


def test_while_there_is_no_newer_tick_answers_have_no_body(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    page = open_page(site.address).page
    for _ in range(2):
        with page.expect_response("**/report.json") as answer:
            pass
        assert (answer.value.status, answer.value.request.method) == (304, "HEAD")


def test_the_page_of_one_container_stays_with_it_and_says_when_it_is_gone(site: Site, open_page: OpenPage) -> None:
    web = msgspec.structs.replace(_one("web", 9), id=77)
    site.tick([web, _one("db", 1)])
    opened = open_page(site.address)
    page = opened.page
    _row(page, "db").get_by_role("link").click()
    expect(page.locator("main h2")).to_have_text("ns/db/c")
    site.tick([web, _one("db", 3)])
    expect(page.locator("main figcaption")).to_contain_text("3Mi on node 0")
    expect(page.locator("main h2")).to_have_text("ns/db/c")
    site.tick([web])
    expect(page.locator("#trouble")).to_have_text("The newest tick does not have this container any more.")
    assert _forget_failed_loads(opened) >= 1


# Figures that are old


def test_before_the_first_tick_the_page_waits_and_then_shows_it(site: Site, open_page: OpenPage) -> None:
    opened = open_page(site.address)
    expect(opened.page.locator("#trouble")).to_have_text("There is no report yet.")
    site.tick([_one("db", 1)])
    expect(_judged(opened.page, "db")).to_have_text("1Mi")
    expect(opened.page.locator("#trouble")).to_have_text("")
    assert _forget_failed_loads(opened) >= 2


def test_figures_of_failed_ticks_stay_and_are_marked_until_one_succeeds(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    opened = open_page(site.address)
    page, status = opened.page, opened.page.locator("#trouble")
    expect(status).to_have_text("")
    site.health = BAD
    expect(status).to_have_text(f"The agent has no current report: {BAD.text}.")
    expect(page.locator("#age")).to_contain_text("Stale: figures of")
    expect(_judged(page, "db")).to_have_text("1Mi")
    site.health = GOOD
    site.tick([_one("db", 2)])
    expect(_judged(page, "db")).to_have_text("2Mi")
    expect(status).to_have_text("")
    assert _forget_failed_loads(opened) >= 1


def test_a_page_that_is_opened_on_old_figures_says_how_old(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)], age=300)
    site.health = BAD
    opened = open_page(site.address)
    expect(opened.page.locator("#age")).to_have_text("Stale: figures of 5 min ago")
    expect(_judged(opened.page, "db")).to_have_text("1Mi")
    assert _forget_failed_loads(opened) >= 2


def test_the_age_is_that_of_the_tick_whatever_the_clocks_say(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)], age=20, interval=60)
    page = open_page(site.address).page
    page.evaluate("Date.now = () => 0")
    expect(page.locator("#age")).to_have_text("Figures of 22 s ago")
    expect(page.locator("#trouble")).to_have_text("")


def test_a_computer_that_slept_has_old_figures_at_once(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    page = open_page(site.address).page
    expect(page.locator("#age")).to_have_text(FIGURES)
    page.get_by_role("button", name="Pause").click()
    page.evaluate("const before = Date.now; Date.now = () => before() + 3 * 3600e3")
    expect(page.locator("#age")).to_have_text("Paused and stale: figures of 3 h ago")


def test_who_answers_in_place_of_the_agent_is_not_shown(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    page = open_page(site.address).page
    expect(page.locator("#age")).to_have_text(FIGURES)
    page.route("**", lambda route: route.fulfill(content_type="text/html", body="<main>Sign in</main>"))
    expect(page.locator("#trouble")).to_have_text("Something else answers in place of the agent.")
    expect(_judged(page, "db")).to_have_text("1Mi")
    page.unroute("**")
    site.tick_and_see(page, [_one("db", 2)])
    expect(page.locator("#trouble")).to_have_text("")


def test_a_user_who_may_not_see_it_any_more_is_told_and_asked_once(open_page: OpenPage, tmp_path: Path) -> None:
    rules = tmp_path / "web.yaml"

    def allow(password: bytes) -> None:
        new = tmp_path / "new.yaml"
        new.write_text(f"basic_auth_users:\n  ali: {bcrypt.hashpw(password, bcrypt.gensalt(4)).decode()}\n")
        new.replace(rules)

    allow(b"sesame")
    site = Site(AccessRules.by(rules))
    try:
        site.tick([_one("db", 1)])
        opened = open_page(site.address, login={"username": "ali", "password": "sesame"})
        status = opened.page.locator("#trouble")
        expect(_judged(opened.page, "db")).to_have_text("1Mi")
        allow(b"another")
        expect(status).to_have_text("The agent asks for a user and a password: load the page again to sign in.")
        expect(opened.page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")
        asked = len(opened.requests)
        opened.page.wait_for_timeout(3000)
        assert len(opened.requests) == asked
        allow(b"sesame")
        opened.page.get_by_role("button", name="Pause").click()
        expect(status).to_have_text("")
        _forget_failed_loads(opened)
    finally:
        site.server.stop()


def test_an_agent_that_hangs_or_dies_is_noticed_and_so_is_its_successor(open_page: OpenPage, tmp_path: Path) -> None:
    tree = NodeTree(tmp_path / "node")
    db = tree.container(tree.pod("ns", "db"), "c", anon=(5 * MIB, 2 * MIB))
    options = ("--root", str(tree.root), "--interval", "1s")
    with running_agent(*options, log=tmp_path / "log") as agent:
        opened = open_page(f"http://127.0.0.1:{agent.port}/")
        page, status = opened.page, opened.page.locator("#trouble")
        expect(_judged(page, "db")).to_have_text("7.0Mi")
        tree.hold(db, (MIB, 2 * MIB))
        expect(_judged(page, "db")).to_have_text("3.0Mi")
        os.kill(agent.process.pid, signal.SIGSTOP)
        expect(status).to_have_text("The agent has not answered for 10 s.")
        expect(page.locator("#age")).to_contain_text("Stale: figures of")
        os.kill(agent.process.pid, signal.SIGCONT)
        expect(status).to_have_text("")
    expect(status).to_have_text("The agent cannot be reached.")
    expect(_judged(page, "db")).to_have_text("3.0Mi")
    tree.hold(db, (4 * MIB, 0))
    with running_agent(*options, "--listen", f"127.0.0.1:{agent.port}", log=tmp_path / "log"):
        expect(_judged(page, "db")).to_have_text("4.0Mi")
        expect(status).to_have_text("")
    _forget_failed_loads(opened)


# For everybody


@pytest.mark.parametrize(
    ("width", "dark", "health"),
    [(PHONE, False, GOOD), (PHONE, True, BAD), (DESKTOP, False, BAD), (DESKTOP, True, GOOD)],
)
def test_everybody_can_read_and_use_it(site: Site, open_page: OpenPage, width: int, dark: bool, health: Health) -> None:
    site.tick([_one("db", 1), _one("web", 2, "drifted")])
    site.health = health
    opened = open_page(site.address, width=width, dark=dark)
    expect(opened.page.locator("#age")).to_have_text(FIGURES)
    assert not opened.overflows
    found = opened.violations()
    assert not [one for one in found if one.startswith(("serious", "critical"))], found
    _forget_failed_loads(opened)


def test_without_scripts_the_page_is_there_and_says_that_it_stays_as_it_is(site: Site, open_page: OpenPage) -> None:
    site.tick([_one("db", 1)])
    page = open_page(site.address, script=False).page
    expect(page.locator("#age")).to_have_text("The figures are those of one tick. Load the page again for newer ones.")
    expect(page.get_by_role("button")).to_have_count(0)
