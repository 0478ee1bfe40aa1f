"""Tables of processes and ranks: of the containers that `report --processes` selects, and on a container's own page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from numaudit.errors import printable
from numaudit.report.processes.columns import LEGEND, notes, process_columns, process_rows
from numaudit.report.processes.rank_columns import MOST_RANKS, rank_columns, rank_rows
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name
from numaudit.views.page.addresses import Addresses
from numaudit.views.page.markup import Markup, PageSection, element, short, table

_MOST = 50
"""Containers whose tables are shown."""


def processes_part(report: Report, addresses: Addresses) -> PageSection | None:
    """The tables of each container whose processes were read, in full view: they were asked for. None = not asked."""
    found = [one for one in report.containers if one.processes is not None]
    if not found:
        return None
    return PageSection("processes", "Processes", _content([one for one in found if _has_some(one)], addresses))


def process_tables(one: ContainerReport) -> Iterator[Markup]:
    """Of one container, and what the columns mean; nothing where its processes were not read."""
    if _has_some(one):
        yield from _tables(one)
        yield from _facts(LEGEND)


def _content(shown: list[ContainerReport], addresses: Addresses) -> Iterator[Markup]:
    for one in shown[:_MOST]:
        name, address = short(display_name(one)), addresses.own(one)
        yield element("h3", name if address is None else element("a", name, href=address))
        yield from _tables(one)
    if len(shown) > _MOST:
        yield from _facts([f"and {len(shown) - _MOST} more containers with processes; -o json has all"])
    yield from _facts(LEGEND if shown else ["No processes: what was asked for has none."])


def _has_some(one: ContainerReport) -> bool:
    return one.processes is not None and one.processes.alive > 0


def _tables(one: ContainerReport) -> Iterator[Markup]:
    found = one.processes
    if found is None:
        return
    columns = process_columns(found)
    cells = ([column.text(row) for column in columns] for row in process_rows(found))
    yield table("Processes", [_heading(column.title) for column in columns], cells)
    yield from _facts(notes(found, one.expected_remote_ratio, one.expected_basis))
    if found.ranks:
        of_ranks = rank_columns(found.ranks)
        lines = ([column.text(rank) for column in of_ranks] for rank in rank_rows(found.ranks))
        yield element("p", printable(found.ranks_summary or ""))
        yield table("Ranks", [_heading(column.name) for column in of_ranks], lines)
        if len(found.ranks) > MOST_RANKS:
            yield from _facts([f"and {len(found.ranks) - MOST_RANKS} more; -o json has all"])


def _heading(title: str) -> str:
    """As sentences begin, but for abbreviations."""
    return re.sub("Pid|[Cc]pu", lambda found: found[0].upper(), title.capitalize())


def _facts(lines: Iterable[str]) -> Iterator[Markup]:
    for line in lines:
        yield element("p", printable(line), class_="facts")
