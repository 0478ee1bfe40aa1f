"""OpenTelemetry: the same numbers as Prometheus, and what is counted when a receiver misbehaves."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics.export import MetricsData, NumberDataPoint, Sum
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from agent_process import PATIENCE
from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.exposition import Exposition, evaluate_live
from numaudit.exporters.otel import Push, Receiver, attributes, endpoint_of, metrics_data, resource
from numaudit.exporters.prometheus import end_of, render
from otlp_receiver import Answer, OtlpReceiver
from reports import LIVE, NOW, STARTED, container, exposition, report

Point = tuple[str, frozenset[tuple[str, object]], float, float | None]


@pytest.fixture
def numbers() -> list[Exposition]:
    return [exposition(report(container(1), container(2, pod=None))), evaluate_live(LIVE, STARTED)]


def _of_otel(data: MetricsData) -> set[Point]:
    return {
        (
            metric.name,
            frozenset((point.attributes or {}).items()),
            point.value,
            round(point.start_time_unix_nano / 1e9, 3) or None,
        )
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
    }


def _of_prometheus(numbers: list[Exposition]) -> set[Point]:
    instruments = {metric.full_name: metric.instrument for metric in METRICS if not metric.is_standard}
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


def _to_be_sent(numbers: list[Exposition]) -> int:
    families = [family for one in numbers for family in one.families if not family.metric.is_standard]
    return sum(map(len, families))


def test_both_exports_of_one_snapshot_agree_number_for_number(numbers: list[Exposition]) -> None:
    ours = _of_otel(metrics_data(numbers, resource({}, {}, "i"), NOW))
    assert ours == _of_prometheus(numbers)
    assert len(ours) == _to_be_sent(numbers)


def test_counters_are_cumulative_sums_and_units_are_ucum(numbers: list[Exposition]) -> None:
    metrics = metrics_data(numbers, resource({}, {}, "i"), 5.0).resource_metrics[0].scope_metrics[0].metrics
    by_name = {metric.name: metric for metric in metrics}
    cpu = by_name["numaudit.container.cpu"]
    assert isinstance(cpu.data, Sum)
    assert (cpu.unit, cpu.data.is_monotonic, cpu.data.aggregation_temporality.name) == ("s", True, "CUMULATIVE")
    assert by_name["numaudit.container.resident"].unit == "By"


def test_a_node_that_is_not_known_has_no_attribute() -> None:
    assert attributes({"numa_node": "unknown", "pod": "", "container": "c", "cpu_numa_node": "1"}) == {
        "k8s.container.name": "c",
        "numaudit.numa.cpu_node.id": 1,
    }


def test_the_resource_is_detected_and_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=a,deployment.environment=test")
    found = resource({"NODE_NAME": "n1"}, {"k8s.cluster.name": "b"}, "i-1").attributes
    assert found["service.name"] == "numaudit"
    assert found["service.instance.id"] == "i-1"
    assert found["k8s.node.name"] == "n1"
    assert found["k8s.cluster.name"] == "b"
    assert found["deployment.environment"] == "test"


@pytest.mark.parametrize(
    ("setting", "endpoint"),
    [
        ("http://c:4318", "http://c:4318/v1/metrics"),
        ("http://c:4318/", "http://c:4318/v1/metrics"),
        ("https://c/opentelemetry/v1/metrics", "https://c/opentelemetry/v1/metrics"),
    ],
)
def test_an_endpoint_without_a_path_means_the_standard_one(setting: str, endpoint: str) -> None:
    assert endpoint_of(setting) == endpoint


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as running:
        yield running


def _push(collector: OtlpReceiver, numbers: list[Exposition], timeout: float = PATIENCE) -> Push:
    receiver = Receiver(collector.url, timeout, headers={"x-token": "secret"})
    return Push(receiver, resource({}, {}, "i"), lambda: numbers, interval=60)


def test_what_arrives_is_what_was_sent(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    push = _push(collector, numbers)
    assert push.push()
    points = collector.points()
    assert len(points) == _to_be_sent(numbers)
    assert points["numaudit.snapshot.age", frozenset()] == 3.5
    assert collector.headers[0]["x-token"] == "secret"
    assert push.counts().points == {"delivered": len(points), "rejected": 0, "failed": 0}


@pytest.mark.parametrize(
    "answer",
    [Answer(400), Answer(503), Answer(302), Answer(429, retry_after="3600"), Answer(reset=True), Answer(hangs=True)],
)
def test_a_receiver_that_does_not_take_it_is_counted(
    collector: OtlpReceiver, numbers: list[Exposition], answer: Answer
) -> None:
    collector.answers = [answer] * 20
    push = _push(collector, numbers, timeout=0.7)
    assert not push.push()  # what hangs does so until the end of the test
    assert push.counts().batches == {"delivered": 0, "failed": 1}
    assert push.deliveries == 0


def test_a_receiver_that_comes_back_gets_the_numbers_of_then(
    collector: OtlpReceiver, numbers: list[Exposition]
) -> None:
    collector.answers = [Answer(429, retry_after="0"), Answer(503), Answer(200)]
    push = _push(collector, numbers, timeout=PATIENCE)
    assert push.push()
    assert push.counts().batches == {"delivered": 1, "failed": 0}
    assert len(collector.headers) == 3


def test_a_batch_that_failed_is_not_kept(numbers: list[Exposition], caplog: pytest.LogCaptureFixture) -> None:
    """Not even until Python searches for cycles, which the agent rarely lets it do."""
    caplog.set_level(logging.CRITICAL, "opentelemetry")  # a captured record holds the error
    with OtlpReceiver() as gone:
        url = gone.url
    data = metrics_data(numbers, resource({}, {}, "test"), NOW)
    kept = weakref.ref(data.resource_metrics[0])
    gc.disable()
    try:
        assert Receiver(url, timeout=0.3).send(data) == (False, 0)
        del data
        assert kept() is None
    finally:
        gc.enable()


def test_rejected_points_of_a_partial_success_are_counted(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    collector.answers = [Answer(rejected=7)]
    push = _push(collector, numbers)
    assert push.push()
    total = _to_be_sent(numbers)
    assert push.counts().points == {"delivered": total - 7, "rejected": 7, "failed": 0}


def test_stopping_does_not_wait_for_a_receiver_that_hangs(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    collector.answers = [Answer(hangs=True)]
    push = _push(collector, numbers, timeout=3600)
    push.start()
    assert collector.got_one.wait(PATIENCE)
    push.stop(1.0)  # the receiver hangs until the end of the test


def test_stopping_delivers_the_last_numbers(collector: OtlpReceiver, numbers: list[Exposition]) -> None:
    push = _push(collector, numbers)
    push.start()
    assert collector.got_one.wait(PATIENCE)
    push.stop(PATIENCE)
    assert push.counts().batches == {"delivered": 2, "failed": 0}
    assert push._thread is not None
    assert not push._thread.is_alive()
