"""The cases of alert_cases.yaml, as files for promtool and for vmalert-tool."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

TOP = Path(__file__).resolve().parents[3]
RULES = TOP / "deploy/rules/numaudit.rules.yaml"
TARGET = {"job": "numaudit", "instance": "node-a:9746"}
ALWAYS = {
    "up": "1x400",
    'numaudit_build_info{version="0.1.0", python="3.11.2"}': "1x400",
    "numaudit_snapshot_age_seconds": "5x400",
    "numaudit_ticks_total": "0+1x400",
}
"""What every agent exports, on whose account nothing fires."""
FAILED_SCRAPES = 0.03
SEEDS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    labels: Mapping[str, str]
    values: str

    @classmethod
    def of(cls, text: str, values: str) -> Series:
        name, _, labels = text.partition("{")
        return cls(name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), values)

    def expanded(self) -> list[str]:
        """A value for each scrape, of promtool's notation."""
        found = []
        for part in self.values.split():
            match = re.fullmatch(r"(_|-?[0-9.]+?)(?:([+-][0-9.]+))?(?:x([0-9]+))?", part)
            if match is None or match[1] == "_" or match[3] is None:
                found += [part] if match is None or match[1] != "_" else ["_"] * int(match[3] or 1)
            else:
                begin, step = float(match[1]), float(match[2] or 0)
                found += [f"{begin + number * step:.17g}" for number in range(int(match[3]) + 1)]
        return found

    def scraped(self) -> str:
        """As Prometheus stores it: with the labels of its target, and without empty ones."""
        labels = {name: value for name, value in {**TARGET, **self.labels}.items() if value}
        return f"{self.name}{{{','.join(f'{name}={json.dumps(value)}' for name, value in labels.items())}}}"


@dataclass(frozen=True, slots=True)
class Case:
    about: str
    series: tuple[Series, ...]
    at: str
    every: str
    fires: Mapping[str, Any] | None
    records: Mapping[str, float]
    """Query of recorded series -> the sum of what it gives."""
    beside: tuple[str, ...] = ()
    """Alerts that may fire, too."""

    def input(self) -> list[dict[str, str]]:
        return [{"series": one.scraped(), "values": one.values} for one in self.series]

    def with_failed_scrapes(self, seed: int) -> Case:
        """The same where some scrapes of each target fail: Prometheus then ends its series, and `up` is 0."""
        chance, made = random.Random(f"{self.about} {seed}"), []
        values = [one.expanded() for one in self.series]
        failed = {number for number in range(max(map(len, values))) if chance.random() < FAILED_SCRAPES}
        for one, known in zip(self.series, values, strict=True):
            lost = "0" if one.name == "up" else "stale"
            left = [lost if number in failed and value != "_" else value for number, value in enumerate(known)]
            made.append(replace(one, values=" ".join(left)))
        return replace(self, series=tuple(made))

    def expectations(self, alert: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Time, and what fires then; nothing a minute before the alert has waited long enough."""
        if alert["alert"] not in self.beside:
            yield self.at, self._expected(alert)
        if self.fires is not None and alert["alert"] == self.about and "for" in alert:
            yield f"{_minutes(alert['for']) - 1}m", []

    def _expected(self, alert: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self.fires is None or alert["alert"] != self.about:
            return []
        labels = {**TARGET, **alert["labels"], **self.fires["labels"]}
        annotations = {**alert["annotations"], "description": self.fires["description"]}
        return [
            {
                "exp_labels": {name: value for name, value in labels.items() if value is not None},
                "exp_annotations": annotations,
            }
        ]


def cases() -> list[Case]:
    return [_case(one) for one in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))]


def _case(one: Mapping[str, Any]) -> Case:
    without = one.get("without", ())
    given = [(text, values) for text, values in ALWAYS.items() if text.partition("{")[0] not in without]
    series = tuple(Series.of(text, str(values)) for text, values in (*given, *one["series"].items()))
    return Case(
        one["about"],
        series,
        one["at"],
        one.get("every", "15s"),
        one.get("fires"),
        one.get("records", {}),
        tuple(one.get("beside", ())),
    )


def _minutes(duration: str) -> int:
    return int(duration[:-1]) * {"m": 1, "h": 60}[duration[-1]]


def rules() -> list[tuple[str, Mapping[str, Any]]]:
    """Group and rule of each."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [(group["name"], rule) for group in groups for rule in group["rules"]]


def alerts() -> list[tuple[str, Mapping[str, Any]]]:
    return [(group, rule) for group, rule in rules() if "alert" in rule]


def test_file_of_failed_scrapes() -> dict[str, Any]:
    """A test file in which each case that fires does so although scrapes fail now and then."""
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": case.every,
                "input_series": case.with_failed_scrapes(seed).input(),
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{case.about}", alertstate="firing"}})',
                        "eval_time": case.at,
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                ],
            }
            for case in cases()
            if case.fires is not None
            for seed in SEEDS
        ],
    }


def test_file(*, for_vmalert: bool) -> dict[str, Any]:
    """A test file in which each case expects its alert and no other.

    vmalert-tool wants an alert's group, too. It makes a database for each case, so it gets only those with a result.
    """
    chosen = [case for case in cases() if not for_vmalert or case.fires is not None or case.records]
    queries = "metricsql_expr_test" if for_vmalert else "promql_expr_test"
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": case.every,
                "input_series": case.input(),
                "alert_rule_test": [
                    {
                        "eval_time": time,
                        **({"groupname": group} if for_vmalert else {}),
                        "alertname": alert["alert"],
                        "exp_alerts": expected,
                    }
                    for group, alert in alerts()
                    for time, expected in case.expectations(alert)
                ],
                queries: [
                    {
                        "expr": f"round(sum({query}), 0.001)",
                        "eval_time": case.at,
                        "exp_samples": [{"labels": "{}", "value": value}],
                    }
                    for query, value in case.records.items()
                ],
            }
            for case in chosen
        ],
    }
