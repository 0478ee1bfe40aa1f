"""Containers' own pages: their addresses, tables of processes, the flow of memory, and what `numaudit explain` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from msgspec import Struct

from numaudit.api.ranks_document import in_order, rank_row
from numaudit.errors import printable
from numaudit.report.cells import verdict_tone
from numaudit.report.columns import everywhere
from numaudit.report.process_columns import COLUMNS, notes, process_columns, process_rows
from numaudit.report.values import ContainerReport, NodeReport, Report
from numaudit.report.words import display_name, size
from numaudit.views.account import parts
from numaudit.views.page.lanes import flow, sparkline
from numaudit.views.page.markup import TONES, Markup, PageSection, columns_table, element, explanations, prose, short
from numaudit.views.rank_columns import MOST as MOST_RANKS
from numaudit.views.rank_columns import rank_columns
from numaudit.views.trends import KEPT, Trends


def key(one: ContainerReport) -> str:
    """Letters and digits: its cgroup's id; of a promised container that does not run, a hash of its names."""
    if one.id is not None:
        return str(one.id)
    name = "\0".join((one.pod_uid or "", one.namespace or "", one.pod or "", one.container or ""))
    return f"n{sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


class Addresses(Struct, frozen=True):
    """Addresses of the containers' own pages."""

    here: frozenset[str] | None = None
    """Keys of those that have a section on this page; None = the agent makes a page for each."""

    def own(self, one: ContainerReport) -> str | None:
        """Of its own page; None = it has none."""
        name = key(one)
        if self.here is None:
            return f"?container={name}"
        return f"#container-{name}" if name in self.here else None

    def nearest(self, one: ContainerReport) -> str:
        """Of its own page, else of its row in the table."""
        return self.own(one) or f"#row-{key(one)}"


_MOST = 50
"""Containers whose tables are shown."""


def processes_part(report: Report, addresses: Addresses) -> PageSection | None:
    """The tables of each container whose processes were read, in full view: they were asked for. None = not asked."""
    found = [one for one in report.containers if one.processes is not None]
    if not found:
        return None
    return PageSection("processes", "Processes", _of_each([one for one in found if _has_some(one)], addresses))


def process_tables(one: ContainerReport) -> Iterator[Markup]:
    """Of one container, and what the columns mean; nothing where its processes were not read."""
    if _has_some(one):
        yield from _tables(one)
        yield explanations(everywhere(COLUMNS))


def _of_each(shown: list[ContainerReport], addresses: Addresses) -> Iterator[Markup]:
    for one in shown[:_MOST]:
        name, address = short(display_name(one)), addresses.own(one)
        yield element("h3", name if address is None else element("a", name, href=address))
        yield from _tables(one)
    if len(shown) > _MOST:
        yield from _facts([f"and {len(shown) - _MOST} more containers with processes; -o json has all"])
    yield explanations(everywhere(COLUMNS)) if shown else element("p", "No processes: what was asked for has none.")


def _has_some(one: ContainerReport) -> bool:
    return one.processes is not None and one.processes.alive > 0


def _tables(one: ContainerReport) -> Iterator[Markup]:
    found = one.processes
    if found is None:
        return
    yield columns_table("Processes", everywhere(process_columns(found)), process_rows(found))
    yield from _facts(notes(found, one.expected_remote_ratio, one.expected_basis))
    if found.ranks:
        yield element("p", printable(found.ranks_summary or ""))
        placed = {process.pid: process for process in found.items}
        rows = in_order([rank_row(rank, placed[rank.pid], display_name(one)) for rank in found.ranks])
        yield columns_table("Ranks", rank_columns(rows), rows[:MOST_RANKS])
        if len(rows) > MOST_RANKS:
            yield from _facts([f"and {len(rows) - MOST_RANKS} more; -o json has all"])


def _facts(lines: Iterable[str]) -> Iterator[Markup]:
    for line in lines:
        yield element("p", printable(line), class_="facts")


MOST = 50
"""Containers that have a section in a page of one file: the worst, and of those the ones with most remote bytes."""
_SAID_ABOVE = ("verdict", "what to do")


def own_section(one: ContainerReport, nodes: Sequence[NodeReport], back: str, trends: Trends | None = None) -> Markup:
    """`back`: address of the table of all containers; `trends`: of the agent."""
    return element("section", _content(one, nodes, back, trends), id=f"container-{key(one)}", class_="own")


def waiting_section(one: ContainerReport, nodes: Sequence[NodeReport], back: str) -> Markup:
    """The same in a file, which has many: with scripts its elements are made when it is opened."""
    content = element("noscript", _content(one, nodes, back, None))
    return element("section", content, id=f"container-{key(one)}", class_="own")


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
        yield element("p", printable(line), class_=_kind(one) if number == 0 else "facts")
    todo, *commands = map(printable, said["what to do"])
    yield element("p", element("strong", "What to do: "), prose(todo), class_="remedy")
    yield from (element("p", element("code", command, class_="command")) for command in commands)
    yield flow(one)
    if trends is not None:
        yield _trend("Bytes outside", sparkline(trends.outside(one), KEPT, size))
        yield _trend("Measured remote share", sparkline(trends.remote_accesses(one), KEPT, "{}%".format, 100))
    yield element("dl", _account(said))
    yield from process_tables(one)
    if one.pod_uid is not None:
        command = element("code", f"numaudit explain {short(display_name(one))}")
        yield element("p", "How the kubelet chose these nodes: ", command, " on the host.", class_="facts")


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


def _kind(one: ContainerReport) -> str:
    """Classes of its first sentence: without a promise it has no colour."""
    tone = verdict_tone(one)
    return "summary" if tone is None else f"summary {TONES[tone]}"
