"""What Grafana does with the JSON of a dashboard before it asks Prometheus: variables, and what is asked."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dashboards.model import Dashboard
from dashboards.pages import PAGES
from documentation.json_lines import written

Json = dict[str, Any]

_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}")
"""$name, ${name} and ${name:format}; ${__data.fields.x} and the like are filled in the browser."""


def file_text(page: Dashboard) -> str:
    """What Grafana imports: one panel a line."""
    return written(page.to_json(), lists=1)


def dashboards() -> dict[str, Json]:
    """uid -> what is in its file."""
    return {page.uid: json.loads(file_text(page)) for page in PAGES}


def panels(dashboard: Json) -> list[Json]:
    """All but headings, those below a closed heading too."""
    return [panel for panel in with_headings(dashboard) if panel["type"] != "row"]


def with_headings(dashboard: Json) -> list[Json]:
    return [one for panel in dashboard["panels"] for one in (panel, *panel.get("panels", ()))]


def variables(dashboard: Json) -> list[Json]:
    """Those whose values come from a query."""
    return [one for one in dashboard["templating"]["list"] if one["type"] == "query"]


def links(dashboard: Json) -> Iterator[str]:
    """Every address that a click may lead to."""
    for link in dashboard["links"]:
        if link["type"] == "link":
            yield link["url"]
    for panel in panels(dashboard):
        config = panel["fieldConfig"]
        properties = [one for override in config["overrides"] for one in override["properties"]]
        ways = [config["defaults"]["links"], *(one["value"] for one in properties if one["id"] == "links")]
        yield from (link["url"] for way in ways for link in way)


def placeholders(text: str) -> set[str]:
    """Names of the variables in a text."""
    return {one or other for one, other in _VARIABLE.findall(text)}


def filled(text: str, values: Mapping[str, str | list[str]], rate_interval: str = "", time_range: str = "") -> str:
    """A query as it is sent: several chosen values are alternatives of a regular expression."""
    known: dict[str, str] = {"__rate_interval": rate_interval, "__range": time_range}
    for name, value in values.items():
        known[name] = value if isinstance(value, str) else _alternatives(value)
    return _VARIABLE.sub(lambda found: known[found[1] or found[2]], text)


def _alternatives(values: list[str]) -> str:
    escaped = [re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\\\1", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"


Chosen = Mapping[str, "str | list[str]"]
"""The values of the variables: several are a list."""


@dataclass(frozen=True, slots=True)
class Window:
    """The time range of a dashboard."""

    end: float
    step: int = 5
    """Seconds from point to point; not less than from scrape to scrape."""
    steps: int = 12

    @property
    def begin(self) -> float:
        return self.end - self.step * self.steps

    @classmethod
    def now(cls) -> Window:
        return cls(time.time())

    def fill(self, text: str, chosen: Chosen) -> str:
        return filled(text, chosen, f"{4 * self.step}s", f"{self.step * self.steps}s")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query of a panel got."""

    panel: str
    ref: str
    series: list[Json]
    legends: list[str]
    """What tells the series apart on the panel."""


class Asks(Protocol):
    """A server that answers PromQL."""

    def get(self, path: str, **parameters: str) -> Any: ...  # noqa: ANN401 (a JSON document)


def choices(dashboard: Json, server: Asks, window: Window) -> Iterator[Chosen]:
    """Every way to choose one value of each variable, and all of those that can take all."""
    yield from _choices(variables(dashboard), {}, server, window)


def _choices(left: list[Json], chosen: dict[str, str | list[str]], server: Asks, window: Window) -> Iterator[Chosen]:
    if not left:
        yield chosen
        return
    variable, rest = left[0], left[1:]
    offered = offers(variable, chosen, server, window)
    values: list[str | list[str]] = [[one] if variable["multi"] else one for one in offered] or [""]
    if variable["name"] == "nodelabel":
        values = values[:1]
    if variable["includeAll"]:
        values = [".*"] if variable["name"] != "nodename" else [".*", *values]
    for value in values:
        yield from _choices(rest, {**chosen, variable["name"]: value}, server, window)


def offers(variable: Json, chosen: Chosen, server: Asks, window: Window) -> list[str]:
    """The values that Grafana offers."""
    query = filled(variable["query"]["query"], chosen)
    if asked := re.fullmatch(r"label_values\((.*), (\w+)\)", query):
        selector, label = asked.groups()
        span = {"start": str(window.begin), "end": str(window.end)}
        found = server.get(f"/api/v1/label/{label}/values", **{"match[]": selector, **span})["data"]
    elif asked := re.fullmatch(r"query_result\((.*)\)", query):
        rows = server.get("/api/v1/query", query=asked[1], time=str(window.end))["data"]["result"]
        texts = [_row(one) for one in rows]
        pattern = re.compile(variable["regex"].strip("/"))
        found = [match[1] for match in map(pattern.search, texts) if match]
    else:
        raise AssertionError(query)
    return sorted(set(found), reverse=variable["sort"] == 2)


def _row(one: Json) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in one["metric"].items() if name != "__name__")
    return f"{one['metric'].get('__name__', '')}{{{labels}}} {one['value'][1]} {one['value'][0] * 1000}"


def answers(dashboard: Json, chosen: Chosen, server: Asks, window: Window) -> Iterator[Answer]:
    """What each query of each panel gets."""
    for panel in panels(dashboard):
        for query in panel["targets"]:
            promql = window.fill(query["expr"], chosen)
            if query["instant"]:
                found = server.get("/api/v1/query", query=promql, time=str(window.end))
            else:
                span = {"start": str(window.begin), "end": str(window.end), "step": str(window.step)}
                found = server.get("/api/v1/query_range", query=promql, **span)
            series = found["data"]["result"]
            name = window.fill(query["legendFormat"], chosen)
            yield Answer(panel["title"], query["refId"], series, [_legend(one["metric"], name) for one in series])


def _legend(labels: Mapping[str, str], name: str) -> str:
    if not name:
        return json.dumps(labels, sort_keys=True)
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), name)
