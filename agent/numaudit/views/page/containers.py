"""The page's table of containers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.report import cells
from numaudit.report.cells import Tone, verdict
from numaudit.report.columns import Column, columns_of
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name, is_small_remainder, small_remainders
from numaudit.views.page.lanes import lanes, lanes_width
from numaudit.views.page.markup import TONES, Markup, PageSection, box, element, explanations, legend_item, prose, short
from numaudit.views.page.own_page import MOST as MOST_OWN_PAGES
from numaudit.views.page.own_page import Addresses, key

_SIGNS = {"aligned": "✓", "split": "÷", "unknown": "?", **dict.fromkeys(MISALIGNED, "!")}
"""Signs that repeat the colour of a verdict, for readers who do not see colours; the style sheet shows them."""
_LETTER, _SIGN, _PADDING = 8, 10, 17
"""Pixels of a letter of a heading, of the sign that rows are sorted by it, and beside the text of a cell."""
_NARROWEST, _WIDEST_WORD, _WIDEST_TONED, _WIDEST_SHARE, _WIDEST_WORDS = 60, 88, 108, 142, 122
"""Pixels of an amount, a word, a verdict, an amount with its share, and the first words of a sentence."""
_SPLIT, _TAIL = 30, 18
"""Of a name that is longer than this the tail is always shown, where names of a workload differ."""
_UNFOLD = element("details", element("summary", aria_label="Whole row"))
"""Opens the row: the style sheet shows the rest of its words while it is open."""


def containers_part(report: Report, addresses: Addresses) -> PageSection:
    """Words, legend, controls (shown by the script) and the table, the worst container first."""
    nodes = [one.numa_node for one in report.nodes]
    rows = [one for one in report.containers if not is_small_remainder(one)]
    left_out = len(report.containers) - len(rows)
    content = (
        _legend(),
        element("details", element("summary", "What the columns mean"), explanations(columns_of("page"))),
        _controls(rows),
        _not_asked_for(report),
        box(_table(rows, nodes, addresses), aria_labelledby="containers"),
        _without_own_page(rows, addresses),
        element("p", f"Left out: {small_remainders(left_out)}; -o json has all.") if left_out else "",
    )
    return PageSection("containers", "Containers", content)


def _without_own_page(rows: Sequence[ContainerReport], addresses: Addresses) -> Markup | str:
    """A file has a page for so many; the agent for all."""
    if addresses.here is None or len(rows) <= MOST_OWN_PAGES:
        return ""
    said = f"Select a name for its page (the {MOST_OWN_PAGES} worst); `numaudit explain` covers the rest."
    return element("p", prose(said))


def _not_asked_for(report: Report) -> Markup | str:
    """Options such as --top leave out rows, and nothing of the summary."""
    shown, whole = len(report.containers), report.summary.containers
    return (
        element("p", f"The options of this report selected {shown} of {whole} rows (containers and cgroups).")
        if shown < whole
        else ""
    )


def _table(rows: Sequence[ContainerReport], nodes: Sequence[int], addresses: Addresses) -> Markup:
    columns = columns_of("page")
    heads = (_head(column, column.heading(place)) for column, place in columns)
    widths = (_column(column, column.heading(place), len(nodes)) for column, place in columns)
    return element(
        "table",
        element("caption", "Memory of each container, service and cgroup"),
        element("colgroup", widths),
        element("thead", element("tr", heads)),
        element("tbody", (_row(one, [column for column, _ in columns], nodes, addresses.own(one)) for one in rows)),
        id="rows",
    )


def _head(column: Column[ContainerReport], title: str) -> Markup:
    """The script sorts amounts with the largest first."""
    first = "descending" if _is_amount(column) else None
    kind = "who" if column.text is display_name else "n" if column.is_number else None
    return element("th", title, scope="col", class_=kind, data_first=first)


def _column(column: Column[ContainerReport], title: str, nodes: int) -> Markup:
    """Its width in pixels; names have what the others leave."""
    if column.text is display_name:
        return element("col", class_="who")
    if column.of_node is not None:
        return element("col", width=lanes_width(nodes) + _PADDING)
    room = _NARROWEST if column.is_number else _WIDEST_WORD
    if column.text is cells.remote_with_share:
        room = _WIDEST_SHARE
    elif not column.is_number and column.value is not None:
        room = _WIDEST_WORDS if column.tone is None else _WIDEST_TONED
    return element("col", width=max(room, _LETTER * len(title) + _SIGN) + _PADDING)


def _is_amount(column: Column[ContainerReport]) -> bool:
    return column.value is not None and (column.is_number or (column.tone is None and column.of_node is None))


def _row(
    one: ContainerReport, columns: Sequence[Column[ContainerReport]], nodes: Sequence[int], address: str | None
) -> Markup:
    """One line, until its details are opened. Its name is its head; the script filters by name and verdict."""
    name, *others = columns
    head = element("th", _UNFOLD, _name(short(name.text(one)), address), scope="row", class_="who")
    return element(
        "tr", head, (_cell(column, one, nodes) for column in others), id=f"row-{key(one)}", data_verdict=verdict(one)
    )


def _name(name: str, address: str | None) -> Markup:
    """In a narrow column a long name loses its middle: its head shrinks, the text after it does not."""
    head = len(name) - (_TAIL if len(name) > _SPLIT else 0)
    ends = (element("span", name[:head]), name[head:])
    return element("span", ends, class_="name") if address is None else element("a", ends, href=address, class_="name")


def _cell(column: Column[ContainerReport], one: ContainerReport, nodes: Sequence[int]) -> Markup:
    text = column.text(one)
    value = None if column.value is None else column.value(one)
    sorted_by = None if column.value is None else "" if value is None else repr(value)
    if column.of_node is not None:
        drawing = element("noscript", lanes(one, nodes))  # with scripts it is made when it comes into view
        return element("td", drawing, " ", text, class_="nodes", data_v=sorted_by)
    tone = None if column.tone is None else column.tone(one)
    return _plain_cell(text, tone, column.is_number, sorted_by)


@lru_cache(2048)
def _plain_cell(text: str, tone: Tone | None, is_number: bool, sorted_by: str | None) -> Markup:
    """Many containers have the same."""
    sign = _SIGNS[text] if tone and text in _SIGNS else None
    kinds = " ".join(filter(None, ("n" if is_number else None, None if tone is None else TONES[tone])))
    return element("td", text, class_=kinds or None, data_v=sorted_by, data_sign=sign)


def _legend() -> Markup:
    lanes_of = (
        ("promised", "M2 3h18v5h-18z", "promised nodes"),
        ("cpus", "M2 4h18v4h-18z", "nodes of its CPUs"),
        ("resident", "M2 3h18v6h-18z", "where its bytes are, as a share of them"),
        ("stray", "M2 3h18v6h-18z", "outside its promise; without a promise, away from its CPUs"),
    )
    items = (legend_item(element("path", d=path, class_=kind), text) for kind, path, text in lanes_of)
    return element("ul", element("li", "Lanes, one field for each node:"), items, class_="legend")


def _controls(rows: Sequence[ContainerReport]) -> Markup:
    present = {one.verdict.name for one in rows if one.verdict is not None}
    options = (element("option", name) for name in REMEDIES if name in present)
    return element(
        "p",
        element("label", "Filter by name ", element("input", type="search", id="name", autocomplete="off")),
        " ",
        element("label", "Verdict ", element("select", element("option", "all", value=""), options, id="verdict")),
        " ",
        element("output", id="shown", aria_live="polite"),
        id="controls",
        hidden=True,
    )
