"""The page's table of containers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES, severity
from numaudit.report.names import display_name
from numaudit.report.values import ContainerReport, Report
from numaudit.views.page.bars import HEIGHT, bars
from numaudit.views.page.markup import Attribute, Markup, element, join, short
from numaudit.views.page.part import Part
from numaudit.views.page.tables import box
from numaudit.views.remainders import is_small_remainder, small_remainders
from numaudit.views.words import UNKNOWN, judged_bytes, node_list, promised_nodes, share, size

_SIGNS = {"aligned": "✓", "split": "÷", "unknown": "?", **dict.fromkeys(MISALIGNED, "!")}
_LONGEST_LIST = 12
"""Characters of a list of nodes that is not broken into lines."""
_COLUMNS = (
    "Container",
    "QoS",
    "Verdict",
    "Promised",
    "Allowed",
    "CPUs on",
    "Judged",
    "By node",
    "Remote",
    "Accesses",
)
_HELP = (
    "Promised = nodes that the kubelet gave it. Allowed = nodes its memory may be on. CPUs on = nodes of the CPUs it "
    "may use. Judged = anonymous and shared memory and huge pages. Remote = judged bytes on nodes that have none of "
    "its CPUs. Sizes are binary (M = 2^20). ? = not known."
)


def containers_part(report: Report) -> Part:
    """Words, legend, controls (shown by the script) and the table, the worst container first."""
    nodes = [one.numa_node for one in report.nodes]
    rows = [one for one in report.containers if not is_small_remainder(one)]
    left_out = len(report.containers) - len(rows)
    content = (
        element("p", _HELP),
        _legend(),
        _controls(rows),
        _not_asked_for(report),
        box(_table(rows, nodes), aria_labelledby="containers"),
        element("p", f"Left out: {small_remainders(left_out)}; -o json has all.") if left_out else "",
    )
    return Part("containers", "Containers", content)


def _not_asked_for(report: Report) -> Markup | str:
    """Options such as --top leave out rows, and nothing of the summary."""
    shown, whole = len(report.containers), report.summary.containers
    return element("p", f"{shown} of {whole} containers are here, as was asked for.") if shown < whole else ""


def _table(rows: Sequence[ContainerReport], nodes: Sequence[int]) -> Markup:
    return element(
        "table",
        element("caption", "Memory of each container, service and cgroup"),
        element("thead", element("tr", (element("th", name, scope="col") for name in _COLUMNS))),
        element("tbody", (element("tr", _row(one, nodes)) for one in rows)),
        id="rows",
    )


def _row(one: ContainerReport, nodes: Sequence[int]) -> Iterator[Markup]:
    yield element("th", short(display_name(one)), scope="row", class_="long")
    yield element("td", one.qos or "")
    yield _verdict(one)
    for nodes_of in (promised_nodes(one), node_list(one.allowed_memory_nodes), node_list(one.allowed_cpu_nodes)):
        yield element("td", nodes_of, class_="long" if len(nodes_of) > _LONGEST_LIST else None)
    yield element("td", size(one.judged_bytes), class_="n", data_v=_number(one.judged_bytes))
    yield element("td", bars(one, nodes), " ", _by_node(one), class_="nodes", data_v=_number(_home(one)))
    part = share(one.remote_bytes, one.judged_bytes)
    remote = size(one.remote_bytes) if part in (UNKNOWN, "-") else f"{size(one.remote_bytes)} ({part})"
    yield element("td", remote, class_="n", data_v=_number(one.remote_bytes))
    lower = None if one.measured is None else one.measured.lower
    yield element("td", _accesses(one), class_="long", data_v=_number(lower))


def _number(value: float | None) -> Attribute:
    """What the script sorts a cell by; nothing = not known, which comes last."""
    return "" if value is None else repr(value)


def _home(one: ContainerReport) -> int | None:
    """The node that holds most of it."""
    held = [(judged_bytes(row), -row.numa_node) for row in one.resident or ()]
    most, node = max(held, default=(0, 0))
    return -node if most else None


def _verdict(one: ContainerReport) -> Markup:
    if one.verdict is None:
        return element("td", data_v=severity(None))
    name = one.verdict.name
    kind = "bad" if name in MISALIGNED else name if name in ("aligned", "unknown") else None
    sign = element("span", f"{_SIGNS[name]} ", aria_hidden="true") if name in _SIGNS else ""
    return element("td", sign, name, class_=kind, data_v=severity(one.verdict))


def _by_node(one: ContainerReport) -> str:
    if one.resident is None:
        return UNKNOWN
    rows = [(row.numa_node, judged_bytes(row)) for row in one.resident]
    return ", ".join(f"N{node} {size(value)}" for node, value in rows if value) or "-"


def _accesses(one: ContainerReport) -> str:
    found = one.measured
    if found is None:
        return "not measured"
    if found.pages is None:
        return f"{100 * found.lower:.1f}% of accesses remote, counted"
    memory = "" if found.pages.memory_bytes is None else f" of {size(found.pages.memory_bytes)}"
    return f"{100 * found.lower:.1f}% at least used remotely: {size(found.pages.remote_bytes)}{memory}, sampled pages"


def _legend() -> Markup:
    lanes = (
        (element("path", d="M2 11h32v4h-32z", class_="promised"), "promised nodes"),
        (element("path", d="M2 12h32v2h-32z", class_="allowed"), "allowed nodes"),
        (element("path", d="M2 11h32v5h-32z", class_="resident"), "where its bytes are, as a share of them"),
        (
            join((element("path", d="M0 13h36", class_="used"), element("path", d="M18 11h18v5h-18z", class_="far"))),
            "measured remote share, at least, from the right: of its accesses, or of its memory by sampled pages",
        ),
    )
    items = (
        element("li", element("svg", drawn, width=36, height=HEIGHT, aria_hidden="true"), f" {text}")
        for drawn, text in lanes
    )
    return element("ul", element("li", "Bars, one field for each node:"), items, class_="legend")


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
