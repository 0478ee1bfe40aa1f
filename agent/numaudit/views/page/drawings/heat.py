"""Distances between nodes as a heat map: a table whose cells are darker the farther apart two nodes are."""

from __future__ import annotations

from collections.abc import Sequence

from numaudit.report.values import NodeReport
from numaudit.report.words import UNKNOWN
from numaudit.views.page.markup import Markup, box, element

_SHADES = 5
"""Classes of the style sheet: heat0 is a node's own memory, heat5 the longest way."""
_CAPTION = "Distances by the firmware: 10 = its own memory"


def heat_map(nodes: Sequence[NodeReport]) -> Markup:
    """From each node (rows) to each node (columns)."""
    if not any(node.distances for node in nodes):
        return element("p", "The firmware gives no distances between nodes.")
    ids = [node.numa_node for node in nodes]
    longest = max(distance for node in nodes for distance in node.distances.values())
    corner = element("th", "From node", scope="col")
    heads = (element("th", f"to {id_}", scope="col") for id_ in ids)
    rows = (
        element("tr", element("th", str(node.numa_node), scope="row"), (_cell(node, to, longest) for to in ids))
        for node in nodes
    )
    table = element(
        "table",
        element("caption", _CAPTION),
        element("thead", element("tr", corner, heads)),
        element("tbody", rows),
        class_="heat",
    )
    return box(table, aria_label=_CAPTION)


def _cell(node: NodeReport, to: int, longest: int) -> Markup:
    distance = node.distances.get(to)
    if distance is None:
        return element("td", UNKNOWN)
    own = node.distances.get(node.numa_node, 10)
    shade = 0 if longest <= own else round(_SHADES * max(distance - own, 0) / (longest - own))
    return element("td", str(distance), class_=f"heat{min(max(shade, 1 if distance > own else 0), _SHADES)}")
