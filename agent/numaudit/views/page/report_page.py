"""The report as a page: of `report -o html`, which needs nothing else, and of the agent, with a script that renews it.

The agent's says where its figures are from also without the script: of one tick, or of the last one that succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from numaudit.encoding.value import Origin
from numaudit.evaluation.setup.rule import Setup
from numaudit.report.kubelet import KubeletReport, RestartReport
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import UNKNOWN, display_name, in_utc, is_small_remainder, kinds_in_words
from numaudit.topology.quantity import plural
from numaudit.views.page.containers import containers_part
from numaudit.views.page.lanes import sparkline
from numaudit.views.page.markup import Frame, Markup, PageSection, element, frame, links, nested, short
from numaudit.views.page.nodes import nodes_part
from numaudit.views.page.notes import findings_part, headroom_part, refused_part, state_part, unknown_part
from numaudit.views.page.own_page import MOST, Addresses, key, own_section, processes_part, waiting_section
from numaudit.views.page.setup import TONES, setup_part
from numaudit.views.trends import KEPT, Trends

_STALE = "The agent's newest ticks failed or are late: the figures are stale."
_NONE_YET = "There is no report yet: the agent's first tick is under way, or it failed."


def policy() -> str:
    """The live page's policy as an HTTP header, which also keeps it out of the frames of other pages."""
    return f"{_live_frame().policy}; frame-ancestors 'none'"


class Tick(Struct, frozen=True):
    """A tick of the agent, of which it makes pages."""

    report: Report
    origin: Origin
    tag: str
    """Its ETag."""
    links: Mapping[str, str]
    """The agent's other pages: path -> what it has."""
    trends: Trends | None = None


def live_page(tick: Tick, stale: bool = False) -> str:
    """The report of a tick."""
    content = _report_content(tick.report, tick.origin, is_alone=False, trends=tick.trends)
    return _live(tick, stale, _title(tick.origin), SKIP, content)


def live_container_page(tick: Tick, one: ContainerReport, stale: bool = False) -> str:
    """The page of one container of a tick."""
    header = element("header", _heading(tick.origin), _taken(tick.origin, _kubelet(tick.report.kubelet)))
    main = nested("main", own_section(one, tick.report.nodes, "./", tick.trends))
    return _live(tick, stale, f"{short(display_name(one))} - {_title(tick.origin)}", "", [header, *main])


def _live(tick: Tick, stale: bool, title: str, skip: str, content: list[Markup]) -> str:
    return _live_frame().page(title, skip, _bar(tick.tag, _STALE if stale else ""), content, _footer(tick.links))


def waiting_page(links: Mapping[str, str]) -> str:
    """Before the first report. The script shows that one as soon as it is there."""
    header = element("header", element("h1", _REPORT))
    return _live_frame().page(_REPORT, _bar("", _NONE_YET), header, element("main"), _footer(links))


@cache
def _live_frame() -> Frame:
    # Scripts may not make markup of text: live.js gets a parsed page from the browser, and needs no such way.
    return frame(
        ("report.css", "drawings.css", "live.css"),
        ("report.js", "morph.js", "live.js"),
        "connect-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )


def _bar(tag: str, words: str) -> Markup:
    """Return the bar with the age of the page. The script shows the button."""
    return element(
        "section",
        element("button", "Pause", type="button", id="pause", aria_pressed="false", hidden=True),
        " ",
        element("span", "The figures are those of one tick. Load the page again for newer ones.", id="age"),
        element("p", words, id="trouble", role="status"),
        id="live",
        aria_label="How new the figures are",
        data_tag=tag,
        class_="stale" if words else None,
    )


def _footer(links: Mapping[str, str]) -> Markup:
    """Relative addresses, for the agent may be behind a proxy that has it below a path of its own."""
    items = (element("li", element("a", path, href=f".{path}"), f": {what}") for path, what in links.items())
    return element("footer", element("h2", "Other pages of this agent"), element("ul", items))


_STARTS = {"yes": "starts", "no": "does not start", "at risk": "at risk", "once": "starts once", "unknown": UNKNOWN}
_TONES = {"yes": "aligned", "no": "bad", "unknown": "unknown"}
"""Classes of the style sheet; other answers are doubtful."""


def tiles(report: Report, trends: Trends | None = None) -> Markup:
    """Aligned, misaligned, refused, and what a restart of the kubelet would do. `trends`: of the agent."""
    return element("ul", _tiles(report, trends), class_="tiles")


def _tiles(report: Report, trends: Trends | None) -> Iterator[Markup]:
    summary, before = report.summary, trends or Trends()
    tone = "aligned" if summary.aligned == summary.promised > 0 else None
    yield _tile("containers", f"{summary.aligned} of {summary.promised}", "aligned", tone, before.aligned)
    more = f", {summary.unknown} unknown" if summary.unknown else ""
    tone = "bad" if summary.misaligned else None
    yield _tile("findings", str(summary.misaligned), f"misaligned{more}", tone, before.misaligned)
    refused = summary.refused_pods
    part, tone = "refused" if report.rejections else "findings", "unknown" if refused else None
    yield _tile(part, str(refused), "refused", tone, before.refused)
    restart = next((one for one in report.restarts or () if not one.reboot), None)
    if restart is not None:
        yield _restart(restart)


def _restart(restart: RestartReport) -> Markup:
    refused = restart.refused_pods
    what = f"kubelet, after a restart; it refuses {plural(refused, 'pod')}" if refused else "kubelet, after a restart"
    tone = "unknown" if refused else _TONES.get(restart.starts, "unknown")
    return _tile("state", _STARTS[restart.starts], what, tone)


def _tile(part: str, number: str, what: str, tone: str | None, trend: Sequence[int] = ()) -> Markup:
    drawn = sparkline(trend, KEPT, str)
    return element("li", element("a", element("strong", number, class_=tone), " ", what, drawn, href=f"#{part}"))


SKIP = element("a", "Skip to the containers", href="#containers", class_="skip")


def report_page(report: Report, origin: Origin | None = None) -> str:
    """The whole page. `origin`: host and time; None = a host without a name, at the time of the report."""
    of = origin or Origin(None, report.taken_at)
    return _frame().page(_title(of), SKIP, _report_content(report, of))


@cache
def _frame() -> Frame:
    return frame(("report.css", "drawings.css"), ("report.js",))


def _report_content(
    report: Report, origin: Origin, *, is_alone: bool = True, trends: Trends | None = None
) -> list[Markup]:
    """All that a report says, for any page that shows one. `is_alone`: there is no agent that makes other pages."""
    rows = [one for one in report.containers if not is_small_remainder(one)][:MOST] if is_alone else []
    addresses = Addresses(frozenset(map(key, rows)) if is_alone else None)
    parts = list(filter(None, _parts(report, addresses)))
    header = element(
        "header",
        _heading(origin),
        element("p", report.summary.text, class_=f"summary {_tone(report)}"),
        tiles(report, trends),
        element("p", f"Rows: {kinds_in_words(report.summary.kinds)}", class_="facts"),
        _taken(origin, _kubelet(report.kubelet)),
        links(parts),
    )
    own = (waiting_section(one, report.nodes, "#containers") for one in rows)
    return [header, *nested("main", (piece for part in parts for piece in part.section()), own)]


_REPORT = "numaudit report"


def setup_page(found: Setup, origin: Origin) -> str:
    """All rules about how a node is set up."""
    part = setup_part(found.rules)
    states = {one.state for one in found.rules}
    tone = next((kind for state, kind in TONES.items() if state in states), "aligned")
    counts = element("p", found.in_words, class_=f"summary {tone}")
    title = _title(origin, "numaudit setup")
    header = element("header", element("h1", title), counts, _taken(origin))
    return _frame().page(title, header, element("main", part.section() if part else ""))


def _title(origin: Origin, what: str = _REPORT) -> str:
    return what if origin.host is None else f"{what} of {short(origin.host)}"


def _heading(origin: Origin) -> Markup:
    return element("h1", _title(origin))


def _taken(origin: Origin, more: str = "") -> Markup:
    """Whose figures these are and of when; the script adds how long ago that is, where no bar says it."""
    at: tuple[str, ...] = ("Captured at an unknown time",)
    if origin.taken_at is not None:
        at = ("Taken at ", _time(origin.taken_at), element("span", id="ago"))
    host = "; the host is not named" if origin.host is None else ""
    return element("p", at, host, more, class_="facts", id="taken")


def _tone(report: Report) -> str:
    """The class of one coloured state for the whole host: bad, unknown or aligned."""
    summary = report.summary
    if summary.misaligned or any(one.severity == "critical" for one in report.findings):
        return "bad"
    return "unknown" if summary.unknown or summary.refused_pods or report.findings else "aligned"


def _parts(report: Report, addresses: Addresses) -> Iterator[PageSection | None]:
    """Parts of the page. Remedies come first; the machine comes before a table of perhaps a thousand rows."""
    yield findings_part(report, addresses)
    yield setup_part(report.setup)
    yield nodes_part(report, addresses)
    yield containers_part(report, addresses)
    yield processes_part(report, addresses)
    yield headroom_part(report)
    yield refused_part(report)
    yield state_part(report.checkpoints)
    yield unknown_part(report)


def _time(seconds: float) -> Markup:
    """For people, and in the form that HTML asks for."""
    return element("time", in_utc(seconds), datetime=in_utc(seconds).replace(" UTC", "Z"))


def _kubelet(kubelet: KubeletReport | None) -> str:
    if kubelet is None:
        return "; no kubelet on this host"
    policies = (
        ("Memory Manager", kubelet.memory_manager_policy),
        ("CPU Manager", kubelet.cpu_manager_policy),
        ("Topology Manager", kubelet.topology_manager_policy),
        ("scope", kubelet.topology_manager_scope),
    )
    named = ", ".join(f"{name} {value or 'not known'}" for name, value in policies)
    return f"; kubelet {kubelet.version or 'of unknown version'}: {named}"
