"""The catalogue's names, kinds and units in OpenTelemetry."""

from __future__ import annotations

import re
from typing import Any

from opentelemetry.semconv._incubating.metrics import process_metrics

from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.metric import Metric

SENT = [metric for metric in METRICS if metric.is_pushed]


def test_units_are_of_ucum_and_never_empty() -> None:
    units = {metric.instrument: metric.ucum for metric in SENT}
    assert units["numaudit.container.cpu"] == "s"
    assert units["numaudit.container.resident"] == "By"
    assert units["numaudit.container.aligned_ratio"] == "1"
    assert units["numaudit.build.info"] == "{state}"
    assert units["numaudit.container.hint_faults"] == "{page}"
    assert all(units.values())
    assert all(metric.item for metric in SENT if metric.is_counter and not metric.unit)


def test_no_instrument_is_the_namespace_of_another() -> None:
    names = [metric.instrument for metric in SENT]
    assert len(set(names)) == len(names)
    assert [(one, other) for one in names for other in names if other.startswith(f"{one}.")] == []


def test_a_pushed_metric_has_the_name_that_is_scraped() -> None:
    """By the rules of OpenTelemetry's compatibility page; tests/integration compares them with a real database."""
    ours = [metric for metric in SENT if not metric.instrument.startswith("process.")]
    assert len(ours) > 80
    assert {metric.full_name: _in_prometheus(metric) for metric in ours} == {
        metric.full_name: metric.full_name for metric in ours
    }


def _in_prometheus(metric: Metric[Any]) -> str:
    """Dots become underscores; unit and `total` come last, unless the name has them."""
    words = re.split(r"[._]", metric.instrument)
    unit = {"By": "bytes", "s": "seconds", "1": "" if metric.is_counter else "ratio"}.get(metric.ucum, "")
    return "_".join([*words, *[end for end in (unit, "total" * metric.is_counter) if end and end not in words]])


def test_nothing_of_the_process_is_there_twice() -> None:
    ours = [metric.name for metric in METRICS if metric.name.startswith("process_") and not metric.is_standard]
    assert ours == ["process_threads"]


def test_what_the_conventions_name_has_their_name_and_unit() -> None:
    ours = {metric.instrument: metric for metric in SENT if metric.instrument.startswith("process.")}
    known = {
        name: getattr(process_metrics, f"create_{name.replace('.', '_')}")
        for constant, name in vars(process_metrics).items()
        if constant.startswith("PROCESS_")
    }
    assert set(ours) == {
        process_metrics.PROCESS_CPU_TIME,
        process_metrics.PROCESS_MEMORY_USAGE,
        process_metrics.PROCESS_THREAD_COUNT,
        process_metrics.PROCESS_UNIX_FILE_DESCRIPTOR_COUNT,
    }
    for name, row in ours.items():
        asked = _Meter()
        known[name](asked)
        assert asked.asked == {("counter" if row.is_counter else "up_down_counter", name, row.ucum)}


class _Meter:
    """Remembers what it was asked to create."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str, str]] = set()

    def create_counter(self, name: str, description: str, unit: str) -> None:
        self.asked.add(("counter", name, unit))

    def create_up_down_counter(self, name: str, description: str, unit: str) -> None:
        self.asked.add(("up_down_counter", name, unit))
