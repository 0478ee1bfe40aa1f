"""Label values come from sets that no tenant and no path can make larger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from numaudit.doctor.checks import examine
from numaudit.engine.observer import Observer
from numaudit.engine.overhead import STEPS
from numaudit.exporters.catalogue import TICK_METRICS
from numaudit.exporters.facts import ExportedTick, Feature
from numaudit.kernel.host import Host
from numaudit.probes.session import Session
from numaudit.report.build import build
from numaudit.report.kubelet import RestartReport
from numaudit.snapshot.counted import Overhead

_WORD = re.compile(r"[a-z][a-z0-9-]*")


def test_no_name_of_a_closed_set_has_a_blank_where_it_is_a_label(fixtures: Path) -> None:
    report = build(Observer.of(Host.under(fixtures / "kubernetes-four-nodes")).observe())
    steps = tuple(step.name for step in STEPS)
    report = replace(
        report, overhead=Overhead(0.02, 0.01, steps, 0.25, ()), restarts=(RestartReport(True, "at risk", None, None),)
    )
    tick = ExportedTick(report, "0", "3", 1.0)
    labels = {
        f"{metric.name}: {value}" for metric in TICK_METRICS for labels, _ in metric.values(tick) for value in labels
    }
    assert {"collector_success: memory-checkpoint", "restart_starts: at-risk", "overhead_step: watch-list"} <= labels
    assert [one for one in labels if " " in one.partition(": ")[2]] == []


@pytest.mark.parametrize("host", ["kubernetes-four-nodes", "cgroup-v1", "misaligned-node"])
def test_the_reason_of_a_feature_is_a_word(fixtures: Path, host: str) -> None:
    features = [Feature.of(one) for one in examine(Host.under(fixtures / host), Session({}))]
    reasons = {one.name: one.reason for one in features if one.reason is not None}
    assert reasons
    assert all(_WORD.fullmatch(reason) for reason in reasons.values()), reasons
    assert all((one.reason is None) <= one.enabled for one in features)
