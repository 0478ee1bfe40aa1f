"""A dashboard as values, and as the JSON of Grafana's classic model (schema 39, for Grafana 10.4 and later)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboards.panels import SOURCE, Json, Link, Panel

WIDTH = 24
"""Columns of Grafana's grid."""
_SCHEMA = 39


@dataclass(frozen=True, slots=True)
class Section:
    """Panels below a heading: rows of panels of the same height, from left to right."""

    title: str
    panels: Sequence[Panel]
    height: int = 7
    collapsed: bool = False
    """Its panels ask nothing until somebody opens it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of the dashboard, whose values a query gives."""

    name: str
    label: str
    query: str
    """As Grafana writes it: label_values(series, label) or query_result(promql)."""
    description: str
    several: bool = False
    """Several may be chosen, or all; all also means series that do not have the label."""
    all_only: bool = False
    """One, or all."""
    regex: str = ""
    """What to take from each row of a query_result."""
    sort: int = 1
    """1 = by name, 2 = by name backwards."""

    def to_json(self) -> Json:
        all_too = self.several or self.all_only
        return {
            "type": "query",
            "name": self.name,
            "label": self.label,
            "description": self.description,
            "datasource": SOURCE,
            "query": {"query": self.query, "refId": self.name},
            "regex": self.regex,
            "refresh": 2,
            "sort": self.sort,
            "hide": 0,
            "multi": self.several,
            "includeAll": all_too,
            **({"allValue": ".*", "current": {"text": "All", "value": "$__all"}} if all_too else {}),
        }


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page."""

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    sections: Sequence[Section]
    links: Sequence[Link] = ()
    since: str = "now-1h"

    def to_json(self) -> Json:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["numaudit"],
            "schemaVersion": _SCHEMA,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "1m",
            "time": {"from": self.since, "to": "now"},
            "timezone": "browser",
            "annotations": {"list": []},
            "templating": {"list": [_DATASOURCE, *(variable.to_json() for variable in self.variables), _DOCS]},
            "links": [_OTHERS, *(_page(link) for link in self.links)],
            "panels": list(self._panels()),
        }

    def _panels(self) -> Iterator[Json]:
        number = y = 0
        for section in self.sections:
            number += 1
            row = {
                "id": number,
                "type": "row",
                "title": section.title,
                "collapsed": section.collapsed,
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
            y += 1
            inside = list(_placed(section, number, y))
            number += len(inside)
            yield {**row, "panels": inside if section.collapsed else []}
            if not section.collapsed:
                yield from inside
                y = inside[-1]["gridPos"]["y"] + section.height


def _placed(section: Section, number: int, y: int) -> Iterator[Json]:
    """Its panels below its heading, which has this number."""
    x = 0
    for at, panel in enumerate(section.panels, start=number + 1):
        if x + panel.width > WIDTH:
            x, y = 0, y + section.height
        yield panel.to_json(at, x, y, section.height)
        x += panel.width


_DATASOURCE: Json = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "description": "A Prometheus that scrapes the agents.",
    "query": "prometheus",
    "regex": "",
    "refresh": 1,
    "hide": 0,
    "multi": False,
    "includeAll": False,
}

_NOWHERE = "https://numaudit.example/docs"
_DOCS: Json = {
    "type": "textbox",
    "name": "docs",
    "label": "Docs at",
    "description": "The address of your copy of numaudit's docs, for links to pages and runbooks.",
    "query": _NOWHERE,
    "current": {"text": _NOWHERE, "value": _NOWHERE},
    "options": [{"text": _NOWHERE, "value": _NOWHERE, "selected": True}],
    "hide": 0,
}

_OTHERS: Json = {
    "type": "dashboards",
    "title": "numaudit",
    "tags": ["numaudit"],
    "asDropdown": False,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "icon": "external link",
    "tooltip": "",
    "url": "",
}


def _page(link: Link) -> Json:
    found = {**_OTHERS, "type": "link", "title": link.title, "url": link.url, "tags": [], "icon": "doc"}
    return {**found, "includeVars": False, "keepTime": False, "targetBlank": True}
