"""OpenTelemetry: the same numbers as OTLP messages.

Messages are built directly, not through the SDK's instruments: those remember every set of attributes they ever saw,
so that after as many containers as the cardinality limit each new one would end up in one overflow point
(opentelemetry-sdk 1.45, `_ViewInstrumentMatch`). This way the size follows the containers that live, `max_series` is
the limit, each counter has the start time that it really has, and one request is in memory at a time.

Import this module only when there is something to push: it takes some 10 MiB.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, NumberDataPoint
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.semconv.schemas import Schemas

from numaudit import __version__
from numaudit.exporters.catalogue import LABELS
from numaudit.exporters.exposition import Exposition, MetricFamily
from numaudit.exporters.metric import IDENTITY, Label, Metric
from numaudit.exporters.series import ContainerName

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

MOST_POINTS = 5_000
"""In one request: some 1.5 MB, where receivers that pass it on by gRPC take 4 MiB."""
SCHEMA = Schemas.V1_44_0.value
"""The semantic conventions that names of attributes and of `process.*` follow."""
"""Environment variables in which manifests commonly pass the node's name on."""
_INSTANCES = uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320")
"""The namespace that the semantic conventions give for a service.instance.id of version 5."""


class PushPart(Struct, frozen=True):
    """One request of a push."""

    body: bytes
    """An ExportMetricsServiceRequest."""
    points: int


def resource(node: str | None, extra: Mapping[str, str], instance: str) -> Resource:
    """The resource that sends: detected, then OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, then `extra`.

    `node`: what Kubernetes calls this node; None = no manifest says.
    """
    detected = {
        "service.name": "numaudit",
        "service.version": __version__,
        "service.instance.id": instance,
        "host.name": os.uname().nodename,
    }
    if node is not None:
        detected["k8s.node.name"] = node
    return Resource(detected).merge(OTELResourceDetector().detect()).merge(Resource(dict(extra)))


def instance_id(machine: str | None, node: str | None, listen: tuple[str, int]) -> str:
    """The same UUID after each restart, and another one for an agent that listens elsewhere.

    `machine` is the machine id, `node` the node's name. A host that has neither goes by its host name.
    """
    stable = [part for part in (machine, node) if part] or [os.uname().nodename]
    host, port = listen
    return str(uuid.uuid5(_INSTANCES, "/".join((*stable, f"{host}:{port}"))))


def requests(
    expositions: Sequence[Exposition], of: Resource, now: float, most_points: int = MOST_POINTS
) -> Iterator[PushPart]:
    """All families as requests of at most `most_points` points; `now` in seconds since the epoch.

    Each point has the time at which it was measured: with that of the push, rates would be wrong by up to a tick.
    """
    identities = _Attributes(IDENTITY)
    request, count = _empty(of), 0
    for exposition in expositions:
        at = int((now if exposition.taken_at is None else min(exposition.taken_at, now)) * 1e9)
        for family in _sent(exposition):
            into = None
            for point in _points(family, exposition, identities, at):
                if count == most_points:
                    yield PushPart(request.SerializeToString(), count)
                    request, count, into = _empty(of), 0, None
                if into is None:
                    into = _points_of(request, family.metric)
                start, number, attributes = point
                added = into.add(start_time_unix_nano=start, time_unix_nano=at)
                added.MergeFromString(attributes)
                if isinstance(number, int):
                    added.as_int = number
                else:
                    added.as_double = number
                count += 1
    if count:
        yield PushPart(request.SerializeToString(), count)


def points(expositions: Sequence[Exposition]) -> int:
    """Number of points to send."""
    return sum(len(family) for one in expositions for family in _sent(one))


def _sent(exposition: Exposition) -> Iterator[MetricFamily]:
    return (family for family in exposition.families if family.metric.is_pushed)


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


class _Attributes(dict[tuple[str, ...], bytes]):
    """Label values -> the attributes as bytes of a point: merging these is three times as fast as adding each."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, values: tuple[str, ...]) -> bytes:
        pairs = attributes(dict(zip(self.names, values, strict=True)))
        found = self[values] = NumberDataPoint(attributes=_key_values(pairs)).SerializeToString()
        return found


def _points(
    family: MetricFamily, exposition: Exposition, identities: _Attributes, at: int
) -> Iterator[tuple[int, int | float, bytes]]:
    """Start time in nanoseconds, number, attributes."""
    row = family.metric
    own = _Attributes(row.labels)
    for key, labels, number in family.points:
        yield _start(row, exposition, key, at), number, (b"" if key is None else identities[key]) + own[labels]


def _start(row: Metric[Any], exposition: Exposition, key: ContainerName | None, at: int) -> int:
    """Time when the counting began; of a sum that may fall, when its series did. 0 = not known, as for a gauge."""
    if row.adds_up:
        since = exposition.created.get(key) if key is not None else exposition.since.get("agent")
    else:
        since = exposition.created_at(row, key)
    # A clock that was set back must not make a counter begin in the future: receivers refuse such points.
    return 0 if since is None else min(int(since * 1e9), at)


def _points_of(
    request: ExportMetricsServiceRequest, row: Metric[Any]
) -> RepeatedCompositeFieldContainer[NumberDataPoint]:
    """Add a metric to this request and return the list for its points."""
    metrics = request.resource_metrics[0].scope_metrics[0].metrics
    metric = metrics.add(name=row.instrument, description=row.help, unit=row.ucum)
    if not row.is_counter and not row.adds_up:
        return metric.gauge.data_points
    metric.sum.is_monotonic = row.is_counter
    metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    return metric.sum.data_points


def _empty(of: Resource) -> ExportMetricsServiceRequest:
    """A request without metrics yet."""
    request = ExportMetricsServiceRequest()
    sender = request.resource_metrics.add(schema_url=SCHEMA)
    sender.resource.attributes.extend(_key_values(of.attributes))
    scope = sender.scope_metrics.add(schema_url=SCHEMA)
    scope.scope.name, scope.scope.version = "numaudit", __version__
    return request


def _key_values(pairs: Mapping[str, Any]) -> list[KeyValue]:
    return [
        KeyValue(key=name, value=AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value))
        for name, value in pairs.items()
    ]
