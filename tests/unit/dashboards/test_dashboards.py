"""The dashboards by the rules of Grafana's own linter, as far as they fit, and by ours."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from dashboards.model import WIDTH, Dashboard
from dashboards.pages import PAGES, file_name
from monitoring.grafana import dashboards, file_text, filled, links, panels, placeholders, variables, with_headings
from numaudit.evaluation.findings import RULES
from numaudit.exporters.catalogue import METRICS, labels_of
from numaudit.memorymanager.outcome import AdmissionOutcome
from screens.pages import anchors

Json = dict[str, Any]

TOP = Path(__file__).resolve().parents[3]
ALL = dashboards()
PANELS = [pytest.param(panel, id=f"{uid}-{panel['title']}") for uid, one in ALL.items() for panel in panels(one)]
UNITS = {"none", "bytes", "Bps", "percentunit", "s", "cps", "short"}
CLUSTERS = "label_values(numaudit_build_info, cluster)"
OF_THE_SCRAPE = {"cluster", "nodename", "instance", "job"}
"""Labels that Prometheus adds."""
FROM_RULES = {"ALERTS": {"alertname", "alertstate", "severity", "workload"}}
ALERTS = [
    rule["alert"]
    for group in yaml.safe_load((TOP / "deploy/rules/numaudit.rules.yaml").read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
]
COUNTERS = {metric.full_name for metric in METRICS if metric.is_counter}
LABELS = {metric.full_name: set(labels_of(metric)) | OF_THE_SCRAPE for metric in METRICS}
VALUES = dict.fromkeys(("cluster", "nodename", "namespace", "pod", "container"), "x") | {"nodelabel": "nodename"}

each_dashboard = pytest.mark.parametrize("dashboard", ALL.values(), ids=ALL)
each_panel = pytest.mark.parametrize("panel", PANELS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.uid)
def test_the_generated_file_is_up_to_date(page: Dashboard, matches_golden: Callable[[str, str], None]) -> None:
    matches_golden(f"dashboards/{file_name(page)}", file_text(page))


def test_uids_and_titles_are_unique_and_no_file_is_left_over() -> None:
    assert all(re.fullmatch(r"[a-z0-9-]{1,40}", uid) for uid in ALL)
    assert len(ALL) == len(PAGES) == len({one["title"] for one in ALL.values()})
    assert {file.name for file in (TOP / "dashboards").glob("*.json")} == {file_name(page) for page in PAGES}


def test_each_dashboard_is_a_config_map_that_the_sidecar_takes_and_kubectl_can_apply() -> None:
    found = yaml.safe_load((TOP / "dashboards/kustomization.yaml").read_text())
    files = [one["files"] for one in found["configMapGenerator"]]
    assert files == [[file_name(page)] for page in PAGES]
    assert found["generatorOptions"]["labels"]["grafana_dashboard"] == "1"
    limit = 262_144  # of all annotations: `kubectl apply` keeps a copy in one
    assert all(len(json.dumps(file_text(page))) < limit for page in PAGES)


@each_dashboard
def test_each_panel_has_a_number_and_a_place_of_its_own(dashboard: Json) -> None:
    everything = with_headings(dashboard)
    assert [panel["id"] for panel in everything] == list(range(1, len(everything) + 1))
    taken: Counter[tuple[int, int]] = Counter()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        taken.update((place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"]))
    assert max(taken.values()) == 1
    rows = {y for _, y in taken}
    assert rows == set(range(max(rows) + 1)), "a gap"
    holes = {y: WIDTH - sum(1 for at in taken if at[1] == y) for y in rows}
    assert not any(holes.values()), "panels do not fill the width"


@each_dashboard
def test_panels_below_a_closed_heading_are_where_they_are_when_it_is_opened(dashboard: Json) -> None:
    for row in (one for one in dashboard["panels"] if one["type"] == "row"):
        assert row["collapsed"] == bool(row["panels"])
        assert [panel["gridPos"]["y"] > row["gridPos"]["y"] for panel in row["panels"]] == [True] * len(row["panels"])


def test_each_page_shows_few_panels_before_a_heading_is_opened() -> None:
    shown = {uid: sum(panel["type"] != "row" for panel in one["panels"]) for uid, one in ALL.items()}
    assert shown == {"numaudit-fleet": 19, "numaudit-node": 20, "numaudit-container": 20, "numaudit-agent": 12}


@each_dashboard
def test_nobody_edits_a_provisioned_dashboard_and_the_data_source_is_a_choice(dashboard: Json) -> None:
    assert dashboard["editable"] is False
    source = dashboard["templating"]["list"][0]
    assert (source["type"], source["name"], source["label"]) == ("datasource", "datasource", "Data source")
    assert all(variable["refresh"] == 2 for variable in variables(dashboard))
    users = [*variables(dashboard), *panels(dashboard), *(t for panel in panels(dashboard) for t in panel["targets"])]
    assert all(one["datasource"] == {"type": "prometheus", "uid": "${datasource}"} for one in users)


@each_dashboard
def test_every_variable_is_used_and_every_used_one_is_there(dashboard: Json) -> None:
    there = {one["name"] for one in dashboard["templating"]["list"]}
    before = {"datasource"}
    for variable in variables(dashboard):
        assert placeholders(variable["query"]["query"]) <= before, "a variable may use only those to its left"
        assert variable["description"]
        before.add(variable["name"])
    used = {name for panel in panels(dashboard) for query in panel["targets"] for name in placeholders(query["expr"])}
    used |= {
        name
        for panel in panels(dashboard)
        for query in panel["targets"]
        for name in placeholders(query["legendFormat"])
    }
    assert there == (used - {"__rate_interval", "__range"}) | {"datasource", "docs"}


@each_panel
def test_a_panel_says_what_it_asks_and_in_which_unit(panel: Json) -> None:
    assert panel["targets"]
    assert len({query["refId"] for query in panel["targets"]}) == len(panel["targets"])
    assert re.fullmatch(r"[A-Z].*[^.]", panel["title"])
    assert re.fullmatch(r"[A-Z].{20,}\.", panel["description"], re.DOTALL)
    units = [
        one["value"] for name in panel["fieldConfig"]["overrides"] for one in name["properties"] if one["id"] == "unit"
    ]
    assert {panel["fieldConfig"]["defaults"]["unit"], *units} <= UNITS


def _is_matrix(panel: Json) -> bool:
    return "groupingToMatrix" in [one["id"] for one in panel.get("transformations", ())]


@each_panel
def test_lines_have_names_and_tables_show_columns_that_exist(panel: Json) -> None:
    if _is_matrix(panel):
        (query,) = panel["targets"]
        options = panel["transformations"][1]["options"]
        assert f"by ({options['rowField']}, {options['columnField']})" in query["expr"]
        assert (query["instant"], options["valueField"]) == (True, "Value")
    elif panel["type"] == "table":
        rename = panel["transformations"][-1]["options"]["renameByName"]
        values = {"Value"}
        if len(panel["targets"]) > 1:
            values |= {f"Value #{query['refId']}" for query in panel["targets"]}
        assert {name for name in rename if name.startswith("Value")} <= values
        assert all(not query["legendFormat"] and query["instant"] for query in panel["targets"])
        titles = set(rename.values())
        assert {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]} <= titles
        assert {one["displayName"] for one in panel["options"]["sortBy"]} <= titles
    elif panel["type"] != "stat":
        assert all(query["legendFormat"] for query in panel["targets"])


@each_dashboard
def test_titles_within_a_dashboard_are_unique(dashboard: Json) -> None:
    titles = Counter(panel["title"] for panel in panels(dashboard))
    assert max(titles.values()) == 1


def _is_in_docs(target: str) -> bool:
    name, _, anchor = target.partition("#")
    page = TOP / "docs" / name
    return page.is_file() and (not anchor or anchor in anchors(page))


@each_dashboard
def test_a_link_leads_to_a_dashboard_or_a_place_in_the_docs_that_exists(dashboard: Json) -> None:
    found = list(links(dashboard))
    assert found
    for url in found:
        inside = re.match(r"/d/([a-z-]+)\?(.*)", url)
        if inside:
            target = ALL[inside[1]]
            there = {one["name"] for one in target["templating"]["list"]}
            given = set(re.findall(r"var-(\w+)=", inside[2])) | set(re.findall(r"\$\{(\w+):queryparam\}", inside[2]))
            assert given == there
        else:
            page = re.fullmatch(r"\$\{docs:raw\}/(.*)", url)
            assert page
            targets = [page[1].replace("${__data.fields.Alert}", name) for name in ALERTS]
            assert [one for one in targets if not _is_in_docs(one)] == []


@each_panel
def test_a_page_that_a_description_names_exists(panel: Json) -> None:
    for page in re.findall(r"docs/([\w/.-]+\.md)", panel["description"]):
        assert _is_in_docs(page)


@each_dashboard
def test_a_link_takes_columns_that_its_table_has(dashboard: Json) -> None:
    for panel in panels(dashboard):
        wanted = set(re.findall(r"\$\{__data\.fields\.(\w+)\}", json.dumps(panel["fieldConfig"])))
        if wanted:
            assert not _is_matrix(panel)
            assert wanted <= set(panel["transformations"][-1]["options"]["renameByName"].values())


# What comes first, and what a reader may take from it.


def _panel(uid: str, title: str) -> Json:
    return next(panel for panel in panels(ALL[uid]) if panel["title"] == title)


def _ranks(panel: Json, column: str) -> list[str]:
    """The texts of a column's numbers, the largest first."""
    properties = next(one for one in panel["fieldConfig"]["overrides"] if one["matcher"]["options"] == column)
    (mapping,) = next(one["value"] for one in properties["properties"] if one["id"] == "mappings")
    return [mapping["options"][key]["text"] for key in sorted(mapping["options"], key=int, reverse=True)]


def test_of_the_alerts_critical_ones_come_before_all_others() -> None:
    first = _panel("numaudit-fleet", "Alerts")
    assert _ranks(first, "Severity") == ["critical", "warning", "info", "other"]
    assert first["options"]["sortBy"] == [{"displayName": "Severity", "desc": True}]
    severities = {
        rule["labels"]["severity"]
        for group in yaml.safe_load((TOP / "deploy/rules/numaudit.rules.yaml").read_text())["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    assert severities <= set(_ranks(first, "Severity"))


@each_panel
def test_refusals_that_have_nothing_to_do_with_numa_do_not_count(panel: Json) -> None:
    for query in panel["targets"]:
        for selector, _ in _selectors(promql_parser.parse(_promql(query))):
            if selector.name == "numaudit_admission_rejections_total":
                (outcomes,) = (one.value for one in selector.matchers.matchers if one.name == "outcome")
                assert set(outcomes.split("|")) == {
                    one for one in AdmissionOutcome if one.startswith("rejected-") and one != "rejected-other"
                }


def test_every_finding_has_a_severity_on_the_fleet() -> None:
    panel = _panel("numaudit-fleet", "Containers with findings")
    asked = panel["targets"][0]["expr"]
    for rule in RULES:
        rank = {"critical": 3, "warning": 2, "info": 1}[rule.severity]
        assert re.search(rf'{rank} \* [^*]*finding=~"([\w-]+\|)*{rule.name}(\|[\w-]+)*"', asked), rule.name


# What is asked.


def _asked() -> Iterator[Any]:
    for uid, dashboard in ALL.items():
        for panel in panels(dashboard):
            for query in panel["targets"]:
                yield pytest.param(query, id=f"{uid}-{panel['title']}-{query['refId']}")
        for variable in variables(dashboard):
            yield pytest.param({"expr": variable["query"]["query"], "variable": True}, id=f"{uid}-{variable['name']}")


def _promql(query: Json) -> str:
    text = filled(query["expr"], VALUES, "4m", "1h")
    if "variable" in query:
        inner = re.fullmatch(r"(?:query_result|label_values)\((.*?)(?:, \w+)?\)", text)
        assert inner
        return inner[1]
    return text


def _selectors(
    expression: promql_parser.Expr,
) -> Iterator[tuple[promql_parser.VectorSelector, list[promql_parser.Expr]]]:
    """Each selector with what is around it, the innermost last."""
    found: list[tuple[promql_parser.VectorSelector, list[promql_parser.Expr]]] = []
    around: list[promql_parser.Expr] = []

    def enter(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.append((node, list(around)))
        around.append(node)
        return True

    def leave(_: promql_parser.Expr) -> bool:
        around.pop()
        return True

    promql_parser.walk(expression, enter, leave)
    return iter(found)


each_query = pytest.mark.parametrize("query", list(_asked()))


@each_query
def test_every_series_and_label_is_in_the_catalogue(query: Json) -> None:
    known = LABELS | {
        name: set(labels) | OF_THE_SCRAPE | {"namespace", "pod", "container"} for name, labels in FROM_RULES.items()
    }
    expression = promql_parser.parse(_promql(query))
    selectors = list(_selectors(expression))
    assert selectors
    assert {str(selector.name) for selector, _ in selectors} <= set(known)
    for selector, _ in selectors:
        assert {matcher.name for matcher in selector.matchers.matchers} <= known[str(selector.name)]
    possible = set.union(*(known[str(selector.name)] for selector, _ in selectors), {"nodelabel"})
    grouped: list[str] = []

    def collect(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            grouped.extend(node.modifier.labels)
        return True

    promql_parser.walk(expression, collect)
    assert set(grouped) <= possible


@each_query
def test_counters_are_asked_for_their_growth_in_intervals_that_fit_the_scrape(query: Json) -> None:
    if "variable" in query:
        return
    for selector, around in _selectors(promql_parser.parse(_promql(query))):
        call = next((node for node in reversed(around) if isinstance(node, promql_parser.Call)), None)
        growth = call is not None and call.func.name in {"rate", "increase"}
        if selector.name in COUNTERS and selector.name != "numaudit_admission_workload_rejections_total":
            assert growth
        else:
            assert not growth
    spans = set(re.findall(r"(?:rate|increase)\([^\[]*\[([^\]]+)\]", query["expr"]))
    assert spans <= {"$__rate_interval", "$__range"}


@each_query
def test_every_query_keeps_to_the_cluster_that_was_chosen(query: Json) -> None:
    for selector, _ in _selectors(promql_parser.parse(_promql(query))):
        names = {matcher.name for matcher in selector.matchers.matchers}
        assert "cluster" in names or query["expr"] == CLUSTERS
