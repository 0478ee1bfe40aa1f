"""OpenTelemetry: the same numbers, pushed as OTLP over HTTP.

Points are built with the SDK's data classes and sent by its exporter, but not through its instruments: those
remember every set of attributes they ever saw, so that after as many containers as the cardinality limit each new
one would end up in one overflow point (opentelemetry-sdk 1.45, `_ViewInstrumentMatch`). This way the size follows
the containers that live, `max_series` is the limit, and each counter has the start time that it really has.

Import this module only when there is something to push: it takes some 15 MiB.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from numaudit import __version__
from numaudit.exporters.catalogue import LABELS
from numaudit.exporters.exposition import Exposition, Family
from numaudit.exporters.facts import OtlpCounts
from numaudit.exporters.metric import IDENTITY, Label
from numaudit.exporters.series import Key

METRICS_PATH = "/v1/metrics"
_UNITS = {"bytes": "By", "seconds": "s", "ratio": "1", "": ""}
_NODE_VARIABLES = ("K8S_NODE_NAME", "NODE_NAME")
"""What manifests commonly call the node's name when they pass it on."""
_log = logging.getLogger(__name__)


def resource(environment: Mapping[str, str], extra: Mapping[str, str], instance: str) -> Resource:
    """Who sends: detected, then OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, then `extra`."""
    detected = {
        "service.name": "numaudit",
        "service.version": __version__,
        "service.instance.id": instance,
        "host.name": os.uname().nodename,
    }
    node = next((environment[name] for name in _NODE_VARIABLES if environment.get(name)), None)
    if node is not None:
        detected["k8s.node.name"] = node
    return Resource.create(detected).merge(OTELResourceDetector().detect()).merge(Resource(dict(extra)))


def metrics_data(expositions: Sequence[Exposition], of: Resource, now: float) -> MetricsData:
    """All families as OTLP metrics; `now` in seconds since the epoch."""
    identities = _Identities()
    metrics = [
        _metric(family, exposition, identities, int(now * 1e9))
        for exposition in expositions
        for family in exposition.families
        if not family.metric.is_standard
    ]
    scope = ScopeMetrics(InstrumentationScope("numaudit", __version__), metrics, "")
    return MetricsData([ResourceMetrics(of, [scope], "")])


def attributes(labels: Mapping[str, str]) -> dict[str, str | int]:
    """Labels as attributes. An empty label is left out, and so is a node that is not known."""
    found: dict[str, str | int] = {}
    for name, value in labels.items():
        label: Label = LABELS[name]
        if not label.integer and value:
            found[label.attribute] = value
        elif label.integer and value.isdigit():
            found[label.attribute] = int(value)
    return found


class _Identities(dict["Key | None", dict[str, "str | int"]]):
    def __missing__(self, key: Key | None) -> dict[str, str | int]:
        found = self[key] = {} if key is None else attributes(dict(zip(IDENTITY, key, strict=True)))
        return found


def _metric(family: Family, exposition: Exposition, identities: _Identities, now: int) -> Metric:
    row = family.metric
    others: dict[tuple[str, ...], dict[str, str | int]] = {}
    points = []
    for key, labels, value in family.points:
        other = others.get(labels)
        if other is None:
            other = others[labels] = attributes(dict(zip(row.labels, labels, strict=True)))
        since = exposition.created_at(row, key)
        # A clock that was set back must not make a counter begin in the future: receivers refuse such points.
        start = 0 if since is None else min(int(since * 1e9), now)
        points.append(NumberDataPoint({**identities[key], **other}, start, now, value))
    data: Sum | Gauge = Gauge(points)
    if row.is_counter:
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Metric(row.instrument, row.help, _UNITS[row.unit], data)


@dataclass(slots=True)
class Receiver:
    """Sends one batch and says how it ended: the exporter itself counts redirects and rejections as success."""

    endpoint: str
    timeout: float = 10.0
    compression: str = "gzip"
    ca_file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    _exporter: OTLPMetricExporter = field(init=False)
    _answer: requests.Response | None = None

    def __post_init__(self) -> None:
        session = requests.Session()
        session.hooks["response"].append(self._remember)
        self._exporter = OTLPMetricExporter(
            endpoint=self.endpoint,
            timeout=self.timeout,
            compression=Compression.Gzip if self.compression == "gzip" else Compression.NoCompression,
            certificate_file=self.ca_file,
            headers=dict(self.headers),
            session=session,
        )

    def _remember(self, answer: requests.Response, *_: object, **__: object) -> None:
        self._answer = answer

    def send(self, data: MetricsData) -> tuple[bool, int]:
        """Whether it was delivered, and how many points the receiver rejected all the same."""
        self._answer = None
        result = self._exporter.export(data)
        answer = self._answer
        if result is not MetricExportResult.SUCCESS:
            # The error and the exporter's frames are a cycle that holds the whole batch.
            gc.collect(0)
            return False, 0
        if answer is None or not 200 <= answer.status_code < 300:
            _log.error("the OTLP receiver answered %s", "nothing" if answer is None else answer.status_code)
            return False, 0
        return True, _rejected(answer)

    def close(self) -> None:
        """Also ends a wait for the next attempt."""
        self._exporter.shutdown()


def _rejected(answer: requests.Response) -> int:
    if not answer.headers.get("Content-Type", "").startswith("application/x-protobuf"):
        return 0
    try:
        partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    except DecodeError:
        _log.warning("the OTLP receiver's answer is not an ExportMetricsServiceResponse")
        return 0
    if partial.rejected_data_points or partial.error_message:
        _log.warning("the OTLP receiver rejected %d points: %s", partial.rejected_data_points, partial.error_message)
    return int(partial.rejected_data_points)


@dataclass(slots=True)
class Push:
    """Pushes from a thread of its own, and counts the outcomes."""

    receiver: Receiver
    of: Resource
    current: Callable[[], Sequence[Exposition]]
    """What to send; called once for each push."""
    interval: float = 60.0
    deliveries: int = 0
    _batches: Counter[str] = field(default_factory=lambda: Counter(delivered=0, failed=0))
    _points: Counter[str] = field(default_factory=lambda: Counter(delivered=0, rejected=0, failed=0))
    _works: bool | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Push now and then every `interval`."""
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Push once more if the receiver answered last time, and end; not longer than `seconds`."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds * 0.75)
            self.receiver.close()
            self._thread.join(seconds * 0.25)

    def counts(self) -> OtlpCounts:
        return OtlpCounts(dict(self._batches), dict(self._points))

    def push(self) -> bool:
        """Send the newest values; True when they were delivered."""
        data = metrics_data(self.current(), self.of, time.time())
        points = sum(len(metric.data.data_points) for metric in _metrics_of(data))
        delivered, rejected = self.receiver.send(data)
        self._batches["delivered" if delivered else "failed"] += 1
        self._points["delivered" if delivered else "failed"] += points - rejected
        self._points["rejected"] += rejected
        self.deliveries += delivered
        if delivered is not self._works:
            self._works = delivered
            _log.log(
                logging.INFO if delivered else logging.ERROR,
                "OTLP push to %s: %s",
                self.receiver.endpoint,
                "delivered" if delivered else "failed; the agent keeps trying",
            )
        return delivered

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            try:
                self.push()
            except Exception:
                self._batches["failed"] += 1
                _log.exception("internal error in the OTLP push")
            due = max(due + self.interval, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                break
        if self._works:
            self.push()


def _metrics_of(data: MetricsData) -> list[Any]:
    return [metric for of in data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics]


def endpoint_of(setting: str) -> str:
    """The receiver's URL; one without a path means the standard one."""
    scheme, _, rest = setting.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}{slash}{path}" if path else f"{scheme}://{host}{METRICS_PATH}"
