"""docs/incident.md: its alert and its figures are what the agent exports of the two captured trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from textwrap import fill as wrapped

from documentation.marked_places import fill
from fixture_trees import FIXTURES
from monitoring import alert_cases
from monitoring.alert_cases import Case
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.exporters.exposition import evaluate_containers
from numaudit.exporters.series import SeriesTracker
from numaudit.kernel.host import Host
from screens.pages import TOP

MatchesGolden = Callable[[str, str], None]
Labels = Mapping[str, str]
PAGE = "docs/incident.md"
BEFORE, AFTER = "misaligned-node", "kubernetes-four-nodes"
DRIFTED, MOVED = "gu-init-numanode", "gu-small-numanode"
FIGURES: tuple[tuple[str, str, str, Labels], ...] = (
    (DRIFTED, "numaudit_container_verdict", "verdict", {}),
    (DRIFTED, "numaudit_container_allowed_node", "numa_node", {"resource": "memory"}),
    (MOVED, "numaudit_container_verdict", "verdict", {}),
    (MOVED, "numaudit_container_allowed_node", "numa_node", {"resource": "cpu"}),
)
"""Pod, metric, the label that says it, and labels that are given."""


@cache
def exported(tree: str, pod: str, metric: str) -> tuple[dict[str, str], ...]:
    """The labels of a pod's series of this metric, beside those of the container."""
    report = Engine(Observer.of(Host.under(FIXTURES / tree))).tick().report
    found = evaluate_containers(SeriesTracker().update(report.containers, report.taken_at, (0,)))
    return tuple(
        dict(zip(family.metric.labels, labels, strict=True))
        for family in found.families
        if family.metric.full_name == metric
        for key, labels, value in family.points
        if key and tuple(key) == ("default", pod, "app") and value == 1
    )


def shown(tree: str, pod: str, metric: str, label: str, given: Labels) -> str:
    chosen = [one for one in exported(tree, pod, metric) if given.items() <= one.items()]
    return ",".join(sorted(one[label] for one in chosen))


def the_case() -> Case:
    """What Prometheus is tested with: tests/integration/test_alert_rules.py."""
    (case,) = [one for one in alert_cases.cases() if one.fires and one.fires["labels"].get("pod") == DRIFTED]
    return case


def test_the_alert_is_fired_by_what_the_agent_exports_of_the_captured_node() -> None:
    case = the_case()
    of_the_case = {
        (
            one.name,
            tuple(
                sorted(
                    (name, value) for name, value in one.labels.items() if name not in ("namespace", "pod", "container")
                )
            ),
        )
        for one in case.series
        if one.labels.get("pod") == DRIFTED
    }
    names = {name for name, _ in of_the_case}
    assert of_the_case == {
        (name, tuple(sorted(labels.items()))) for name in names for labels in exported(BEFORE, DRIFTED, name)
    }


def test_the_page_shows_that_alert_and_the_figures_before_and_after(matches_golden: MatchesGolden) -> None:
    case = the_case()
    (alert,) = [one for _, one in alert_cases.alerts() if one["alert"] == case.about]
    assert case.fires is not None
    text = [
        f"{alert['alert']} ({alert['labels']['severity']})",
        alert["annotations"]["summary"],
        wrapped(case.fires["description"], 110),
        alert["annotations"]["runbook_url"],
    ]
    page = (TOP / PAGE).read_text(encoding="utf-8")
    page = fill(page, f"alert: {DRIFTED}", "\n".join(["```", *text, "```", ""]))
    rows = [
        f"| {pod} | `{metric}` | {', '.join([label, *given.values()])} "
        f"| {shown(BEFORE, pod, metric, label, given)} | {shown(AFTER, pod, metric, label, given)} |"
        for pod, metric, label, given in FIGURES
    ]
    head = ["| pod | metric | label | before | after |", "| --- | --- | --- | --- | --- |"]
    matches_golden(PAGE, fill(page, "figures", "\n".join([*head, *rows, ""])))
