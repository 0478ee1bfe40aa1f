"""A container's own page: verdict and remedy, the flow of its memory, and what `numaudit explain` says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.errors import printable
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.cells import verdict
from numaudit.report.values import ContainerReport, NodeReport, Report
from numaudit.report.words import display_name, size
from numaudit.views.account import parts
from numaudit.views.page.addresses import key
from numaudit.views.page.drawings.flow import flow
from numaudit.views.page.drawings.lanes import sparkline
from numaudit.views.page.markup import Markup, element, short
from numaudit.views.page.processes import process_tables
from numaudit.views.trends import KEPT, Trends

MOST = 50
"""Containers that have a section in a page of one file: the worst, and of those the ones with most remote bytes."""
_SAID_ABOVE = ("verdict", "what to do")


def own_section(one: ContainerReport, nodes: Sequence[NodeReport], back: str, trends: Trends | None = None) -> Markup:
    """`back`: address of the table of all containers; `trends`: of the agent."""
    return element("section", _content(one, nodes, back, trends), id=f"container-{key(one)}", class_="own")


def find(report: Report, name: str) -> ContainerReport | None:
    """The container of an address; None = there is none any more."""
    return next((one for one in report.containers if key(one) == name), None)


def _content(
    one: ContainerReport, nodes: Sequence[NodeReport], back: str, trends: Trends | None
) -> Iterator[Markup | str]:
    said = dict(parts(one, nodes))
    yield element("p", element("a", "All containers", href=back), class_="facts")
    yield element("h2", short(display_name(one)))
    for number, line in enumerate(said["verdict"]):
        yield element("p", printable(line), class_=f"summary {_tone(one)}" if number == 0 else "facts")
    yield element("p", element("strong", "What to do: "), *map(printable, said["what to do"]), class_="remedy")
    yield flow(one)
    if trends is not None:
        yield _trend("Bytes outside", sparkline(trends.outside(one), KEPT, size))
        yield _trend("Measured remote share", sparkline(trends.remote_share(one), KEPT, "{}%".format, 100))
    yield element("dl", _account(said))
    yield from process_tables(one)
    yield element("p", _admission(one), class_="facts")


def _trend(title: str, drawn: Markup | str) -> Markup | str:
    return (
        element("p", element("strong", title), " ", drawn, f" over the last {KEPT} ticks", class_="trends")
        if drawn
        else ""
    )


def _account(said: dict[str, list[str]]) -> Iterator[Markup]:
    for heading, lines in said.items():
        if heading not in _SAID_ABOVE:
            yield element("dt", heading)
            yield element("dd", _lines(lines))


def _lines(lines: Sequence[str]) -> Iterator[Markup | str]:
    for number, line in enumerate(lines):
        if number:
            yield element("br")
        yield printable(line)


def _admission(one: ContainerReport) -> str:
    if one.pod_uid is None:
        return "It is of no pod, so no kubelet promised it anything."
    return f"`numaudit explain {short(display_name(one))}` says on its host how the kubelet chose these nodes."


def _tone(one: ContainerReport) -> str:
    name = verdict(one)
    return "bad" if name in MISALIGNED else "aligned" if name == "aligned" else "unknown"
