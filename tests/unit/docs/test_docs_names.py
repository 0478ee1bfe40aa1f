"""Every metric, label, setting and conclusion that the documents name is there."""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import get_args

import yaml

from monitoring.documented_queries import documented_queries
from numaudit.config.settings import KEYS
from numaudit.evaluation.findings import RULES
from numaudit.evaluation.verdicts import CauseName, VerdictName
from numaudit.exporters.catalogue import LABELS, METRICS, labels_of
from numaudit.exporters.metric import PREFIX
from numaudit.memorymanager.outcome import AdmissionOutcome
from screens.pages import PAGES, TOP, code_of

FOREIGN_LABELS = {"cluster", "instance", "job", "node"}
"""Of the scrape, not of the agent."""
NAMES = {
    "verdict": set(get_args(VerdictName)),
    "cause": set(get_args(CauseName)),
    "finding": {rule.name for rule in RULES},
    "outcome": {one.value for one in AdmissionOutcome},
}
"""Kind of conclusion -> the names there are."""
LABEL_VALUES = {
    **NAMES,
    "outcome": NAMES["outcome"] | {"delivered", "failed", "rejected"},
    "locality": {"local", "remote", "unknown"},
    "source": {"pmu", "hint_faults", "expected"},
    "state": {"reserved", "free"},
    "resource": {"memory", "cpu", "device"},
    "reboot": {"true", "false"},
}


def test_every_metric_that_a_page_names_is_exported() -> None:
    named = {name for page in PAGES for span in code_of(page) for name in re.findall(rf"\b{PREFIX}[a-z_]+\b", span)}
    families = {metric.full_name for metric in METRICS}
    assert {name for name in named if name not in families and name.removesuffix("_total") not in families} == set()


def _wrong_selectors(query: str) -> list[str]:
    """Labels that a metric of ours does not carry, and values that a label never has."""
    grouped = {
        label
        for labels in re.findall(r"\b(?:by|on|without|ignoring) \(([^)]*)\)", query)
        for label in labels.split(", ")
    }
    found = [f"there is no label {label}" for label in sorted(grouped - {*LABELS, *FOREIGN_LABELS})]
    for name, matchers in re.findall(rf"\b({PREFIX}[a-z_]+)\{{([^}}]*)\}}", query):
        own = {*FOREIGN_LABELS, *(label for one in METRICS if one.full_name == name for label in labels_of(one))}
        for label, operator, value in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers):
            if label not in own:
                found.append(f"{name} has no label {label}")
            wrong = set(value.split("|")) - LABEL_VALUES.get(label, set(value.split("|"))) - {""}
            found += [f"{label} is never {one!r}" for one in sorted(wrong) if operator in ("=", "!=") or one.isalpha()]
    return found


def test_every_label_of_a_documented_query_is_one_of_the_metrics() -> None:
    queries = documented_queries().items()
    assert {place: wrong for place, query in queries if (wrong := _wrong_selectors(query))} == {}


def _unknown_conclusions(text: str) -> set[str]:
    """Names in code that are called a verdict, a cause, a finding or an outcome and are none, or nearly are one."""
    called = re.findall(r"\b(verdict|cause|finding|outcome)s?\s+`([a-z]+(?:-[a-z]+)*)`", text)
    called += [
        (kind, name) for name, kind in re.findall(r"`([a-z]+(?:-[a-z]+)*)`\s+(verdict|cause|finding|outcome)\b", text)
    ]
    everything = _every_name()
    spans = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", text)) - everything
    nearly = {span for span in spans if difflib.get_close_matches(span, everything, n=1, cutoff=0.9)}
    return {name for kind, name in called if name not in NAMES[kind] and name not in everything} | nearly


@cache
def _every_name() -> frozenset[str]:
    """Those of conclusions, and whatever else docs/findings.md, docs/state.md and docs/simulate.md list in a table."""
    listed = set()
    for page in ("findings", "state", "simulate"):
        text = (TOP / f"docs/{page}.md").read_text(encoding="utf-8")
        listed |= set(re.findall(r"^\| `([a-z]+(?:-[a-z]+)*)` \|", text, re.MULTILINE))
    return frozenset(listed.union(*NAMES.values()))


def test_every_conclusion_that_a_page_names_is_one() -> None:
    assert {page: wrong for page in PAGES if (wrong := _unknown_conclusions(page.read_text(encoding="utf-8")))} == {}


def test_every_setting_that_a_page_names_is_one() -> None:
    sections = {path.partition(".")[0] for path in KEYS if "." in path}
    dotted = {span for page in PAGES for span in code_of(page) if re.fullmatch(r"[a-z]+\.[a-z_]+", span)}
    named = {span for span in dotted if span.partition(".")[0] in sections and not (TOP / span).exists()}
    assert named - set(KEYS) == set()


def test_the_pod_monitor_keeps_the_labels_of_the_measured_containers() -> None:
    monitor = yaml.safe_load((TOP / "deploy/components/monitoring/podmonitor.yaml").read_text(encoding="utf-8"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True
    assert endpoint["path"] == "/metrics"
