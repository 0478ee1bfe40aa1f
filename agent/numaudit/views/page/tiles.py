"""The first row of the page: four numbers at first sight, each a link to the part that says more."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.report.kubelet import RestartReport
from numaudit.report.values import Report
from numaudit.report.words import UNKNOWN
from numaudit.topology.sizes import plural
from numaudit.views.page.markup import Markup, element

_STARTS = {"yes": "starts", "no": "does not start", "at risk": "at risk", "once": "starts once", "unknown": UNKNOWN}
_TONES = {"yes": "aligned", "no": "bad", "unknown": "unknown"}
"""Classes of the style sheet; other answers are doubtful."""


def tiles(report: Report) -> Markup:
    """Aligned, misaligned, refused, and what a restart of the kubelet would do."""
    return element("ul", _tiles(report), class_="tiles")


def _tiles(report: Report) -> Iterator[Markup]:
    summary = report.summary
    is_whole = summary.aligned == summary.promised > 0
    yield _tile("containers", f"{summary.aligned} of {summary.promised}", "aligned", "aligned" if is_whole else None)
    more = f", {summary.unknown} unknown" if summary.unknown else ""
    yield _tile("findings", str(summary.misaligned), f"misaligned{more}", "bad" if summary.misaligned else None)
    refused = summary.refused_pods
    yield _tile("refused" if report.rejections else "findings", str(refused), "refused", "unknown" if refused else None)
    restart = next((one for one in report.restarts or () if not one.reboot), None)
    if restart is not None:
        yield _restart(restart)


def _restart(restart: RestartReport) -> Markup:
    refused = restart.refused_pods
    what = f"after a restart; it refuses {plural(refused, 'pod')}" if refused else "after a restart"
    tone = "unknown" if refused else _TONES.get(restart.starts, "unknown")
    return _tile("state", _STARTS[restart.starts], what, tone)


def _tile(part: str, number: str, what: str, tone: str | None) -> Markup:
    return element("li", element("a", element("strong", number, class_=tone), " ", what, href=f"#{part}"))
