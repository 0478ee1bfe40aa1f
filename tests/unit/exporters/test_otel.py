"""OpenTelemetry: the same numbers as Prometheus, by the conventions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint
from opentelemetry.sdk.resources import Resource
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from made_up.reports import LIVE, NOW, STARTED, container, exposition, report
from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.exposition import Exposition, evaluate_live
from numaudit.exporters.otel import MOST_POINTS, SCHEMA, PushPart, attributes, instance_id, points, requests, resource
from numaudit.exporters.prometheus import end_of, render

Point = tuple[str, frozenset[tuple[str, object]], float, float | None]
SENDER = Resource({"service.name": "numaudit"})


@pytest.fixture
def numbers() -> list[Exposition]:
    return [exposition(report(container(1), container(2, pod=None))), evaluate_live(LIVE, STARTED)]


def _metrics(parts: Iterable[PushPart]) -> Iterator[Metric]:
    for part in parts:
        request = ExportMetricsServiceRequest.FromString(part.body)
        (sender,) = request.resource_metrics
        (scope,) = sender.scope_metrics
        assert (sender.schema_url, scope.schema_url, scope.scope.name) == (SCHEMA, SCHEMA, "numaudit")
        yield from scope.metrics


def _points(metric: Metric) -> Iterable[NumberDataPoint]:
    return metric.sum.data_points if metric.HasField("sum") else metric.gauge.data_points


def _of_otel(parts: Iterable[PushPart]) -> list[Point]:
    return [
        (
            metric.name,
            frozenset((one.key, getattr(one.value, one.value.WhichOneof("value") or "")) for one in point.attributes),
            point.as_int if point.HasField("as_int") else point.as_double,
            round(point.start_time_unix_nano / 1e9, 3) if metric.sum.is_monotonic else None,
        )
        for metric in _metrics(parts)
        for point in _points(metric)
    ]


def _of_prometheus(numbers: list[Exposition]) -> set[Point]:
    instruments = {metric.full_name: metric.instrument for metric in METRICS if metric.is_pushed}
    text = b"".join(render(one, "openmetrics") for one in numbers) + end_of("openmetrics")
    samples = [one for family in text_string_to_metric_families(text.decode()) for one in family.samples]
    created = {
        (one.name.removesuffix("_created"), frozenset(one.labels.items())): one.value
        for one in samples
        if one.name.endswith("_created")
    }
    return {
        (
            instruments[one.name],
            frozenset(attributes(one.labels).items()),
            one.value,
            created.get((one.name.removesuffix("_total"), frozenset(one.labels.items()))),
        )
        for one in samples
        if one.name in instruments
    }


@pytest.mark.parametrize("most_points", [MOST_POINTS, 7, 1])
def test_both_exports_of_one_snapshot_agree_number_for_number(numbers: list[Exposition], most_points: int) -> None:
    parts = list(requests(numbers, SENDER, NOW, most_points))
    ours = _of_otel(parts)
    assert set(ours) == _of_prometheus(numbers)
    assert len(ours) == points(numbers) == sum(part.points for part in parts)
    assert all(part.points == most_points for part in parts[:-1])


def test_a_whole_number_stays_one(numbers: list[Exposition]) -> None:
    by_name = {metric.name: metric for metric in _metrics(requests(numbers, SENDER, NOW))}
    assert by_name["numaudit.ticks"].sum.data_points[0].as_int == 12
    assert by_name["process.cpu.time"].sum.data_points[0].as_double == 1.5


def test_what_adds_up_is_a_sum_and_what_does_not_is_a_gauge(numbers: list[Exposition]) -> None:
    by_name = {metric.name: metric for metric in _metrics(requests(numbers, SENDER, NOW))}
    kinds = {
        name: (metric.sum.is_monotonic, metric.sum.aggregation_temporality) if metric.HasField("sum") else "gauge"
        for name, metric in by_name.items()
    }
    assert kinds["numaudit.container.cpu"] == (True, 2)
    assert kinds["numaudit.container.resident"] == (False, 2)
    assert kinds["numaudit.web.connections"] == (False, 2)
    assert kinds["process.memory.usage"] == (False, 2)
    for name in ("numaudit.node.distance", "numaudit.build.info", "numaudit.snapshot.age"):
        assert kinds[name] == "gauge"
    assert kinds["numaudit.node.memory"] == (False, 2)


def test_every_sum_says_since_when_and_no_gauge_does(numbers: list[Exposition]) -> None:
    starts = {
        (metric.name, metric.HasField("sum"), point.start_time_unix_nano / 1e9)
        for metric in _metrics(requests(numbers, SENDER, NOW))
        for point in _points(metric)
    }
    assert [name for name, is_sum, start in starts if is_sum != bool(start)] == []
    assert ("numaudit.node.memory", True, STARTED) in starts
    begun = {start for name, _, start in starts if name == "numaudit.container.resident"}
    assert begun == {start for name, _, start in starts if name == "numaudit.container.cpu"}


def test_a_counter_does_not_begin_in_the_future(numbers: list[Exposition]) -> None:
    """The clock was set back."""
    earlier = STARTED - 3600
    sent = [point for metric in _metrics(requests(numbers, SENDER, earlier)) for point in _points(metric)]
    assert {point.time_unix_nano for point in sent} == {int(earlier * 1e9)}
    assert all(point.start_time_unix_nano <= point.time_unix_nano for point in sent)


def test_a_node_that_is_not_known_has_no_attribute() -> None:
    assert attributes({"numa_node": "unknown", "pod": "", "container": "c", "cpu_numa_node": "1"}) == {
        "k8s.container.name": "c",
        "numaudit.numa.cpu_node.id": 1,
    }


def test_the_resource_is_detected_and_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=a,deployment.environment=test")
    found = resource("n1", {"k8s.cluster.name": "b"}, "i-1").attributes
    assert found["service.name"] == "numaudit"
    assert found["service.instance.id"] == "i-1"
    assert found["k8s.node.name"] == "n1"
    assert found["k8s.cluster.name"] == "b"
    assert found["deployment.environment"] == "test"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=chosen")
    assert resource(None, {}, "i-1").attributes["service.instance.id"] == "chosen"
    assert resource(None, {"service.instance.id": "own"}, "i-1").attributes["service.instance.id"] == "own"


def test_an_instance_is_the_same_after_a_restart_and_differs_by_host_and_address() -> None:
    machine, listen = "0" * 32, ("127.0.0.1", 9746)
    ids = [
        instance_id(machine, "node-1", listen),
        instance_id(machine, "node-1", ("127.0.0.1", 9747)),
        instance_id("1" * 32, "node-1", listen),
        instance_id(machine, "node-2", listen),
        instance_id(machine, None, listen),
        instance_id(None, "node-1", listen),
        instance_id(None, None, listen),
    ]
    assert len(set(ids)) == len(ids)
    assert instance_id(machine, "node-1", listen) == ids[0]
    assert {uuid.UUID(one).version for one in ids} == {5}


def test_a_point_has_the_time_at_which_it_was_measured() -> None:
    tick = exposition(report(container(), taken_at=NOW - 12))
    found = _metrics(requests([tick, evaluate_live(LIVE, STARTED)], SENDER, NOW))
    times = {
        metric.name: {round(point.time_unix_nano / 1e9, 3) for point in _points(metric)}
        for metric in found
        if metric.name in ("numaudit.container.judged", "numaudit.snapshot.age")
    }
    assert times == {"numaudit.container.judged": {NOW - 12}, "numaudit.snapshot.age": {NOW}}
