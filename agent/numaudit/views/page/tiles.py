"""The first row of the page: four numbers at first sight, each a link to the part that says more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.report.kubelet import RestartReport
from numaudit.report.values import Report
from numaudit.report.words import UNKNOWN
from numaudit.topology.sizes import plural
from numaudit.views.page.drawings.sparkline import sparkline
from numaudit.views.page.markup import Markup, element
from numaudit.views.trends import KEPT, Trends

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
