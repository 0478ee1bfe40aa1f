"""The page's table of containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.report.cells import Tone, verdict
from numaudit.report.columns import Column, columns_of
from numaudit.report.sums.remainders import is_small_remainder, small_remainders
from numaudit.report.values import ContainerReport, Report
from numaudit.views.page.addresses import key
from numaudit.views.page.drawings.lanes import lanes
from numaudit.views.page.markup import Markup, element, short
from numaudit.views.page.part import PageSection
from numaudit.views.page.tables import box

_SIGNS = {"aligned": "✓", "split": "÷", "unknown": "?", **dict.fromkeys(MISALIGNED, "!")}
"""Signs that repeat the colour of a verdict, for readers who do not see colours."""
_TONES: dict[Tone, str] = {"good": "aligned", "bad": "bad", "unknown": "unknown"}
"""Classes of the style sheet."""
_LONGEST = 12
"""Characters of a cell that is not broken into lines."""


def containers_part(report: Report) -> PageSection:
    """Words, legend, controls (shown by the script) and the table, the worst container first."""
    nodes = [one.numa_node for one in report.nodes]
    rows = [one for one in report.containers if not is_small_remainder(one)]
    left_out = len(report.containers) - len(rows)
    content = (
        element("p", " ".join(_explained())),
        _legend(),
        _controls(rows),
        _not_asked_for(report),
        box(_table(rows, nodes), aria_labelledby="containers"),
        element("p", f"Left out: {small_remainders(left_out)}; -o json has all.") if left_out else "",
    )
    return PageSection("containers", "Containers", content)


def _not_asked_for(report: Report) -> Markup | str:
    """Options such as --top leave out rows, and nothing of the summary."""
    shown, whole = len(report.containers), report.summary.containers
    return (
        element("p", f"The options of this report selected {shown} of {whole} rows (containers and cgroups).")
        if shown < whole
        else ""
    )


def _explained() -> Iterator[str]:
    for column, place in columns_of("page"):
        if column.help:
            yield f"{column.heading(place)} = {column.help}."
    yield "? = not known."


def _table(rows: Sequence[ContainerReport], nodes: Sequence[int]) -> Markup:
    columns = columns_of("page")
    heads = (element("th", column.heading(place), scope="col") for column, place in columns)
    return element(
        "table",
        element("caption", "Memory of each container, service and cgroup"),
        element("thead", element("tr", heads)),
        element("tbody", (_row(one, [column for column, _ in columns], nodes) for one in rows)),
        id="rows",
    )


def _row(one: ContainerReport, columns: Sequence[Column[ContainerReport]], nodes: Sequence[int]) -> Markup:
    """Its name is the head of the row; the script filters by name and verdict."""
    name, *others = columns
    head = element("th", short(name.text(one)), scope="row", class_="long")
    return element(
        "tr", head, (_cell(column, one, nodes) for column in others), id=f"row-{key(one)}", data_verdict=verdict(one)
    )


def _cell(column: Column[ContainerReport], one: ContainerReport, nodes: Sequence[int]) -> Markup:
    text = column.text(one)
    tone = None if column.tone is None else column.tone(one)
    sign = element("span", f"{_SIGNS[text]} ", aria_hidden="true") if column.tone is not None and text in _SIGNS else ""
    drawn = (lanes(one, nodes), " ") if column.of_node is not None else ""
    kind = _class(column, tone, text)
    if column.value is None:
        return element("td", drawn, sign, text, class_=kind)
    value = column.value(one)
    return element("td", drawn, sign, text, class_=kind, data_v="" if value is None else repr(value))


def _class(column: Column[ContainerReport], tone: Tone | None, text: str) -> str | None:
    """Of the style sheet; None = it needs none."""
    if column.of_node is not None:
        return "nodes"
    if column.is_number:
        return "n"
    if tone is not None:
        return _TONES[tone]
    return "long" if len(text) > _LONGEST else None


def _legend() -> Markup:
    lanes_of = (
        ("promised", "M2 3h18v5h-18z", "promised nodes"),
        ("cpus", "M2 4h18v4h-18z", "nodes of its CPUs"),
        ("resident", "M2 3h18v6h-18z", "where its bytes are, as a share of them"),
        ("stray", "M2 3h18v6h-18z", "outside its promise; without a promise, away from its CPUs"),
    )
    items = (
        element(
            "li",
            element("svg", element("path", d=path, class_=kind), width=22, height=12, aria_hidden="true"),
            f" {text}",
        )
        for kind, path, text in lanes_of
    )
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
