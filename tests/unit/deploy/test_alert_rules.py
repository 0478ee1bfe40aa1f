"""The rules in deploy/rules: what they ask for is in the catalogue, and every alert has its page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import _jsonnet
import promql_parser as promql
import pytest
import yaml

import generate_rules
from documentation.journey import commands, section
from documentation.marked_places import fill
from monitoring import alert_cases
from numaudit.evaluation.findings import RULES as FINDINGS
from numaudit.evaluation.ranks.rank import RANK_VERDICTS
from numaudit.evaluation.verdicts import VerdictName
from numaudit.exporters.catalogue import LABELS, METRICS, labels_of
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.probes.migrations import REASONS

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]
PAGE = "docs/alerts.md"
GROUPS = generate_rules.groups()
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
CATALOGUE = {metric.full_name: metric for metric in METRICS}
OF_THE_TARGET = {"job", "instance", "nodename", "cluster"}
OF_OTHERS = {"up": set[str](), "kube_daemonset_status_desired_number_scheduled": {"namespace", "daemonset"}}
"""Series of Prometheus itself and of kube-state-metrics, with their labels."""
OF_GAUGES = {"last_over_time", "max_over_time", "avg_over_time", "count_over_time", "changes"}
OF_COUNTERS = {"rate", "increase"}
BORN_WITH_A_VALUE = "numaudit_admission_workload_rejections_total"
KNOWN_VALUES = {
    "verdict": {*get_args(VerdictName), *RANK_VERDICTS},
    "finding": {rule.name for rule in FINDINGS},
    "reason": set(REASONS),
    "outcome": {one.value for one in AdmissionOutcome} | {"delivered", "failed"},
}

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])


@pytest.mark.parametrize("name", generate_rules.files())
def test_the_generated_rules_are_those_of_the_source(name: str, matches_golden: MatchesGolden) -> None:
    matches_golden(f"deploy/rules/{name}", generate_rules.files()[name])


def test_the_generated_table_has_every_alert(matches_golden: MatchesGolden) -> None:
    lines = ["| alert | severity | fires when | for |", "| --- | --- | --- | --- |"]
    lines += [
        f"| [{one['alert']}](runbooks/{one['alert']}.md) | {one['labels']['severity']} "
        f"| {one['annotations']['summary']} | {one.get('for', '')} |"
        for one in ALERTS
    ]
    page = (TOP / PAGE).read_text(encoding="utf-8")
    matches_golden(PAGE, fill(page, "alerts", "\n".join(lines) + "\n"))


def test_every_setting_is_used() -> None:
    text = (TOP / "deploy/rules/source.yaml").read_text(encoding="utf-8")
    assert {name for name in yaml.safe_load(text)["settings"] if f"%({name})s" not in text} == {"runbooks"}


@each_alert
def test_an_alert_says_what_is_wrong_how_bad_it_is_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert re.fullmatch(r"Numaudit([A-Z][a-z]+)+", alert["alert"])
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert re.fullmatch(r"[A-Z][^{}]*\.", alert["annotations"]["summary"])
    assert re.fullmatch(r"([A-Z]|\{\{).*\.", alert["annotations"]["description"])
    assert alert["annotations"]["runbook_url"].endswith(f"runbooks/{alert['alert']}.md")


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    pages = {page.stem for page in (TOP / "docs/runbooks").glob("*")}
    assert pages == {alert["alert"] for alert in ALERTS}


@each_alert
def test_a_page_says_what_it_means_and_what_to_do(alert: dict[str, Any]) -> None:
    page = (TOP / f"docs/runbooks/{alert['alert']}.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#.*", page, re.MULTILINE)
    assert headings == [f"# {alert['alert']}", "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"]
    assert "" not in [text.strip() for text in re.split(r"^#.*", page, flags=re.MULTILINE)[2:]]
    diagnosis = section(page, "Diagnosis")
    assert "numaudit" in diagnosis
    assert commands(diagnosis)[0].startswith("kubectl ")


@pytest.mark.parametrize("verdict", ["Drifted", "Spilled", "CpuRemote", "RemoteAccess"])
def test_the_page_of_a_verdict_ends_with_the_command_that_proves_the_fix(verdict: str) -> None:
    page = (TOP / f"docs/runbooks/NumauditContainer{verdict}.md").read_text(encoding="utf-8")
    assert "kubectl numaudit report POD -n NAMESPACE --fail-on misaligned" in commands(section(page, "Mitigation"))


@each_alert
def test_an_alert_counts_one_thing_as_one(alert: dict[str, Any]) -> None:
    for name in ("summary", "description"):
        text = alert["annotations"][name]
        assert not re.search(r"\b[Nn]odes \{\{ range", text), "a single node reads `node 2`"
        assert not re.search(r"\$value( \| printf \S+)? \}\} (nodes|pods|steps|containers|hosts)\b(?! of)", text)


@each_rule
def test_a_rule_asks_for_series_that_are_exported(rule: dict[str, Any]) -> None:
    for one in _selectors(rule):
        if one.name in RECORDED:
            continue
        known = _labels_of(str(one.name))
        for matcher in one.matchers.matchers:
            assert matcher.name in known | OF_THE_TARGET
            values = KNOWN_VALUES.get(matcher.name)
            assert values is None or set(matcher.value.split("|")) <= values


@each_rule
def test_a_rule_names_labels_that_there_are(rule: dict[str, Any]) -> None:
    named = {label for node in _nodes(rule) for label in _labels(node)}
    assert named <= set(LABELS) | OF_THE_TARGET


@each_alert
def test_a_text_asks_for_series_that_are_exported(alert: dict[str, Any]) -> None:
    asked = re.findall(r"(numaudit_\w+)\{([^}]*)\}", "".join(alert["annotations"].values()))
    for name, matchers in asked:
        assert set(re.findall(r"(\w+)=", matchers)) <= _labels_of(name) | OF_THE_TARGET


@each_rule
def test_a_counter_is_seen_by_its_rate_and_a_gauge_over_some_scrapes(rule: dict[str, Any]) -> None:
    """A value of one scrape would be gone with the next one that fails."""
    in_ranges = [
        (str(selector.name), call.func.name)
        for call in _nodes(rule)
        if isinstance(call, promql.Call)
        for argument in call.args
        for selector in _in_range(argument)
    ]
    asked = [str(one.name) for one in _selectors(rule) if one.name in CATALOGUE]
    assert sorted(name for name, _ in in_ranges if name in CATALOGUE) == sorted(asked)
    for name, function in in_ranges:
        if name != BORN_WITH_A_VALUE:
            is_counter = name in CATALOGUE and CATALOGUE[name].is_counter
            assert function in (OF_COUNTERS if is_counter else OF_GAUGES)


def test_the_mixin_has_every_rule_once() -> None:
    mixin = f"import '{TOP}/deploy/rules/mixin.libsonnet'"
    kinds = [json.loads(_jsonnet.evaluate_snippet("", f"({mixin}).prometheus{kind}")) for kind in ("Rules", "Alerts")]
    assert [group for kind in kinds for group in kind["groups"]] == GROUPS


def test_a_recorded_series_is_named_by_level_metric_and_operation_and_explained() -> None:
    page = (TOP / PAGE).read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+:\w+:\w+)` \| .", page, re.MULTILINE)) == RECORDED
    assert all(re.fullmatch(r"(container|node|cluster):numa_\w+:\w+", name) for name in RECORDED)


@pytest.mark.parametrize("alert", [alert["alert"] for alert in ALERTS])
def test_every_alert_is_tried_where_it_fires_and_where_it_is_quiet(alert: str) -> None:
    assert {one.fires is None for one in alert_cases.cases() if one.about == alert} == {True, False}


def test_every_recorded_series_is_tried() -> None:
    assert {query.partition("{")[0] for case in alert_cases.cases() for query in case.records} == RECORDED


def test_a_wrong_setting_is_an_error_that_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (generate_rules.HERE / "source.yaml").read_text(encoding="utf-8")
    monkeypatch.setattr(generate_rules, "HERE", tmp_path)
    for right, wrong in (("%(hint_faults)s", "%(hintfaults)s"), ("its OTLP pushes fail.", "9% of its pushes fail.")):
        assert right in source
        (tmp_path / "source.yaml").write_text(source.replace(right, wrong))
        with pytest.raises(ValueError, match=r"source\.yaml: .*a percent sign is %%"):
            generate_rules.groups()


def test_the_series_of_the_cases_are_those_that_an_agent_exports() -> None:
    for one in (series for case in alert_cases.cases() for series in case.series):
        assert set(one.labels) - OF_THE_TARGET == _labels_of(one.name), one


def _in_range(argument: promql.Expr) -> Iterator[promql.VectorSelector]:
    if isinstance(argument, promql.MatrixSelector):
        yield argument.vector_selector
    elif isinstance(argument, promql.SubqueryExpr) and isinstance(argument.expr, promql.VectorSelector):
        yield argument.expr


def _labels_of(name: str) -> set[str]:
    return OF_OTHERS[name] if name in OF_OTHERS else set(labels_of(CATALOGUE[name]))


def _selectors(rule: dict[str, Any]) -> Iterator[promql.VectorSelector]:
    return (node for node in _nodes(rule) if isinstance(node, promql.VectorSelector))


def _nodes(rule: dict[str, Any]) -> list[promql.Expr]:
    """All parts of a rule's query."""
    nodes: list[promql.Expr] = []
    promql.walk(promql.parse(rule["expr"]), nodes.append)
    return nodes


def _labels(node: promql.Expr) -> list[str]:
    """Those by which it groups or matches."""
    if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
        return node.modifier.labels
    if isinstance(node, promql.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
        return node.modifier.matching.labels
    return []
