"""Panels as values, and as the JSON of Grafana's classic model. Only what our dashboards use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]

_FIRST = "Value #A"
SOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query of a panel."""

    promql: str
    legend: str = ""
    """`{{label}}`; empty in tables."""
    now: bool = False
    """One value at the end of the time range instead of a line over all of it."""

    def to_json(self, ref: str, table: bool) -> Json:
        return {
            "refId": ref,
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": self.promql,
            "legendFormat": self.legend,
            "instant": self.now,
            "range": not self.now,
            "format": "table" if table else "time_series",
        }


@dataclass(frozen=True, slots=True)
class Link:
    """A way from a value to a page."""

    title: str
    url: str
    new_tab: bool = False

    def to_json(self) -> Json:
        return {"title": self.title, "url": self.url, "targetBlank": self.new_tab}


@dataclass(frozen=True, slots=True)
class Value:
    """What a number means, and its colour."""

    number: int
    text: str
    color: str


def mappings(values: Sequence[Value]) -> list[Json]:
    options = {
        str(value.number): {"text": value.text, "color": value.color, "index": index}
        for index, value in enumerate(values)
    }
    return [{"type": "value", "options": options}] if options else []


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: a label of the series, or the value of a query."""

    fields: str | tuple[str, ...]
    """The label, or the first of these that is there; `Value #A` for the value of query A."""
    title: str
    unit: str = ""
    link: Link | None = None
    values: Sequence[Value] = ()
    colored: bool = False
    """The background has the colour of the value."""
    decimals: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.fields,) if isinstance(self.fields, str) else self.fields

    def override(self) -> Json | None:
        properties: list[Json] = []
        if self.unit:
            properties.append({"id": "unit", "value": self.unit})
        if self.decimals is not None:
            properties.append({"id": "decimals", "value": self.decimals})
        if self.link is not None:
            properties.append({"id": "links", "value": [self.link.to_json()]})
        if self.values:
            properties.append({"id": "mappings", "value": mappings(self.values)})
        if self.colored:
            properties.append({"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}})
        return {"matcher": {"id": "byName", "options": self.title}, "properties": properties} if properties else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: one question. `description` says how to read it."""

    title: str
    description: str
    queries: Sequence[Query]
    empty: str
    """What an empty panel means: shown in place of Grafana's "No data"."""
    width: int = 6
    unit: str = "none"
    links: Sequence[Link] = ()
    colors: Mapping[str, str] = field(default_factory=dict)
    """Legend -> colour, where a name has a meaning."""
    minimum: float | None = None
    maximum: float | None = None
    kind: str = ""

    @property
    def table(self) -> bool:
        return False

    def defaults(self) -> Json:
        """What holds for each of its series."""
        limits = {"min": self.minimum, "max": self.maximum}
        return {
            "unit": self.unit,
            "color": {"mode": "palette-classic"},
            "links": [link.to_json() for link in self.links],
            "noValue": self.empty,
            **{name: value for name, value in limits.items() if value is not None},
        }

    def overrides(self) -> list[Json]:
        return [_colored(name, color) for name, color in self.colors.items()]

    def options(self) -> Json:
        return {}

    def transformations(self) -> list[Json]:
        return []

    def to_json(self, number: int, x: int, y: int, height: int) -> Json:
        found: Json = {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": height},
            "datasource": SOURCE,
            "targets": [query.to_json(chr(ord("A") + index), self.table) for index, query in enumerate(self.queries)],
            "fieldConfig": {"defaults": self.defaults(), "overrides": self.overrides()},
            "options": self.options(),
        }
        transformations = self.transformations()
        return {**found, "transformations": transformations} if transformations else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat(Panel):
    """A few numbers, large. Coloured from `good` to `bad` if there is one."""

    kind: str = "stat"
    bad: float | None = None
    """From this value on it is red."""
    warn: float | None = None
    """From this value on it is orange."""
    values: Sequence[Value] = ()
    decimals: int | None = None

    def defaults(self) -> Json:
        steps: list[Json] = [{"value": None, "color": "green" if self.judged else "text"}]
        steps += [{"value": self.warn, "color": "orange"}] if self.warn is not None else []
        steps += [{"value": self.bad, "color": "red"}] if self.bad is not None else []
        return {
            **Panel.defaults(self),
            "color": {"mode": "thresholds"},
            "thresholds": {"mode": "absolute", "steps": steps},
            "mappings": mappings(self.values),
            **({} if self.decimals is None else {"decimals": self.decimals}),
        }

    @property
    def judged(self) -> bool:
        return self.bad is not None or self.warn is not None

    def options(self) -> Json:
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "background" if self.judged else "value",
            "graphMode": "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "auto",
            "wideLayout": True,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Panel):
    """Values over time, stacked if they are parts of a whole."""

    kind: str = "timeseries"
    stacked: bool = False

    def defaults(self) -> Json:
        return {
            **Panel.defaults(self),
            "custom": {
                "drawStyle": "line",
                "lineInterpolation": "stepAfter" if self.stacked else "linear",
                "lineWidth": 1,
                "fillOpacity": 60 if self.stacked else 5,
                "showPoints": "auto",
                "spanNulls": False,
                "stacking": {"mode": "normal" if self.stacked else "none", "group": "A"},
            },
        }

    def options(self) -> Json:
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Panel):
    """Values now, side by side."""

    kind: str = "bargauge"

    def defaults(self) -> Json:
        return {**Panel.defaults(self), "min": 0 if self.minimum is None else self.minimum}

    def options(self) -> Json:
        return {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "horizontal",
            "displayMode": "basic",
            "valueMode": "color",
            "namePlacement": "left",
            "showUnfilled": True,
            "sizing": "auto",
            "minVizWidth": 8,
            "minVizHeight": 16,
            "maxVizHeight": 300,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class States(Panel):
    """What state something was in, over time."""

    kind: str = "state-timeline"
    values: Sequence[Value]

    def defaults(self) -> Json:
        return {
            **Panel.defaults(self),
            "color": {"mode": "thresholds"},
            "mappings": mappings(self.values),
            "custom": {"fillOpacity": 80, "lineWidth": 0},
        }

    def options(self) -> Json:
        return {
            "mergeValues": True,
            "showValue": "auto",
            "alignValue": "left",
            "rowHeight": 0.8,
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
            "tooltip": {"mode": "single", "sort": "none"},
        }


@dataclass(frozen=True, slots=True)
class Matrix:
    """The values of one query by two of its labels."""

    row: str
    column: str
    title: str
    """Of the first column, which has the rows' names."""

    def transformations(self) -> list[Json]:
        # Grafana calls the first column of a matrix after both labels.
        by_both = {"rowField": self.row, "columnField": self.column, "valueField": "Value", "emptyValue": "null"}
        corner = {f"{self.row}\\{self.column}": self.title}
        order = {"excludeByName": {}, "indexByName": {}, "renameByName": corner}
        columns = {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": self.column}]}}
        return [columns, {"id": "groupingToMatrix", "options": by_both}, {"id": "organize", "options": order}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Panel):
    """One row for each set of labels; queries meet in the row of the labels that they share."""

    kind: str = "table"
    columns: Sequence[Column] = ()
    sort: str = ""
    """The title of the column, largest first; `-` before it: smallest first."""
    matrix: Matrix | None = None
    """None = one row for each set of labels."""

    @property
    def table(self) -> Literal[True]:
        return True

    def defaults(self) -> Json:
        cells = {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": True}
        return {**Panel.defaults(self), "color": {"mode": "thresholds"}, "custom": cells}

    def overrides(self) -> list[Json]:
        return [one for one in (column.override() for column in self.columns) if one is not None]

    def options(self) -> Json:
        order = [{"displayName": self.sort.removeprefix("-"), "desc": not self.sort.startswith("-")}]
        return {"showHeader": True, "cellHeight": "sm", "frameIndex": 0, "sortBy": order if self.sort else []}

    def transformations(self) -> list[Json]:
        if self.matrix is not None:
            return self.matrix.transformations()
        names = {name: column.title for column in self.columns for name in column.names}
        if _FIRST in names:  # which Grafana calls Value where the other queries find nothing
            names["Value"] = names[_FIRST]
        keep = {"id": "filterFieldsByName", "options": {"include": {"names": list(names)}}}
        order = {
            "id": "organize",
            "options": {
                "excludeByName": {},
                "indexByName": {name: index for index, name in enumerate(names)},
                "renameByName": names,
            },
        }
        merge = [{"id": "merge", "options": {}}] if len(self.queries) > 1 else []
        return [*merge, keep, order]


def _colored(name: str, color: str) -> Json:
    properties = [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}]
    return {"matcher": {"id": "byName", "options": name}, "properties": properties}
