"""What Grafana does with the JSON of a dashboard before it asks Prometheus: variables, and what is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dashboards.pages import PAGES, written

Json = dict[str, Any]

_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}")
"""$name, ${name} and ${name:format}; ${__data.fields.x} and the like are filled in the browser."""


def dashboards() -> dict[str, Json]:
    """uid -> what is in its file."""
    return {page.uid: json.loads(written(page)) for page in PAGES}


def panels(dashboard: Json) -> list[Json]:
    """All but headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


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


def filled(text: str, values: Mapping[str, str | list[str]], rate_interval: str, time_range: str) -> str:
    """A query as it is sent: several chosen values are alternatives of a regular expression."""
    known: dict[str, str] = {"__rate_interval": rate_interval, "__range": time_range}
    for name, value in values.items():
        known[name] = value if isinstance(value, str) else _alternatives(value)
    return _VARIABLE.sub(lambda found: known[found[1] or found[2]], text)


def _alternatives(values: list[str]) -> str:
    escaped = [re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\\\1", value) for value in values]
    return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"
