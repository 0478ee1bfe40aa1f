"""Answers of a Prometheus to instant queries, as values. Pure.

Format: https://prometheus.io/docs/prometheus/latest/querying/api/ (instant queries, errors, warnings).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Self

import msgspec
from msgspec import Struct

from numaudit.errors import Unavailable

Labels = Mapping[str, str]


class Sample(Struct, frozen=True):
    """One element of an instant vector."""

    names_and_values: tuple[str, ...]
    """Of its labels by turns: a dictionary of each sample's takes three times the memory."""
    stamped: tuple[float, str]
    """Seconds since the epoch, and the number as text: Inf and NaN are not JSON."""

    @classmethod
    def of(cls, labels: Labels, stamped: tuple[float, str]) -> Self:
        return cls(tuple([part for name, value in labels.items() for part in (intern(name), value)]), stamped)

    @property
    def labels(self) -> dict[str, str]:
        return dict(zip(self.names_and_values[::2], self.names_and_values[1::2], strict=True))

    @property
    def value(self) -> float:
        return float(self.stamped[1])

    def label(self, name: str) -> str:
        """Empty = it has none of this name, which Prometheus does not tell apart."""
        parts = self.names_and_values
        return next((parts[at + 1] for at in range(0, len(parts), 2) if parts[at] == name), "")


class Reply(Struct, frozen=True):
    """The samples of one query, and what the server says of them."""

    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()
    """Such as Thanos' of stores that did not answer: then samples are missing."""


class _Object(Struct):
    """Any object, without what is in it."""


class _Element(Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(Struct):
    result_type: str = msgspec.field(name="resultType", default="")
    result: msgspec.Raw = msgspec.Raw(b"null")


class _Body(Struct):
    status: str
    data: _Data | None = None
    error_type: str | None = msgspec.field(name="errorType", default=None)
    error: str | None = None
    warnings: list[str] | None = None
    is_partial: bool = msgspec.field(name="isPartial", default=False)
    """VictoriaMetrics' word for an answer without some of its stores."""


_BODY: msgspec.json.Decoder[_Body] = msgspec.json.Decoder(_Body)
_OBJECTS = msgspec.json.Decoder(list[_Object])
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_ELEMENT = msgspec.json.Decoder(_Element)
_SCALAR = msgspec.json.Decoder(tuple[float, str])
_LONGEST = 300
MOST_SAMPLES = 500_000
"""In one answer. Each is two objects of JSON, and takes some hundred bytes more in memory than there."""
LARGEST_SAMPLE = 64 << 10
"""Bytes of JSON of one. Its labels take ten times as much while they are decoded."""


def read_vector(body: bytes) -> Reply:
    """An instant vector without what is no number. Raises Unavailable for an error and for anything else."""
    found = _read(body)
    data = found.data or _Data()
    if data.result_type != "vector":
        raise _not_prometheus(body)
    try:
        samples = tuple(one for one in _samples(data.result) if math.isfinite(one.value))
    except (msgspec.MsgspecError, ValueError):
        raise _not_prometheus(body) from None
    warnings = tuple(found.warnings or ())
    if found.is_partial:
        warnings += ("the answer is partial: some of its stores did not answer",)
    return Reply(samples, warnings)


def _samples(result: msgspec.Raw) -> Iterator[Sample]:
    """One by one, each element's JSON forgotten: all of them at once take more memory than the answer.

    That they are objects, of which there are not too many, is looked at first: a number of two bytes would take fifty.
    """
    if bytes(result).count(b"{") > 2 * MOST_SAMPLES:
        raise Unavailable(f"the answer has more than {MOST_SAMPLES} series; --selector or --namespace asks for less")
    _OBJECTS.decode(result)
    elements = _ELEMENTS.decode(result)
    elements.reverse()
    while elements:
        element = elements.pop()
        if len(memoryview(element)) > LARGEST_SAMPLE:
            raise Unavailable(f"the labels of a series take more than {LARGEST_SAMPLE >> 10} KiB")
        one = _ELEMENT.decode(element)
        yield Sample.of(one.metric, one.value)


def read_scalar(body: bytes) -> float:
    """One number. Raises as `read_vector`. VictoriaMetrics answers with a vector of one."""
    found = _read(body)
    data = found.data or _Data()
    try:
        if data.result_type == "scalar":
            return float(_SCALAR.decode(data.result)[1])
        if data.result_type == "vector":
            return next(_samples(data.result)).value
    except (msgspec.MsgspecError, ValueError, StopIteration):
        pass
    raise _not_prometheus(body)


def error_in(body: bytes) -> str | None:
    """The server's own words about a failed query; None = it has none."""
    try:
        found = _BODY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return None if found.error is None else f"{found.error_type or 'error'}: {found.error[:_LONGEST]}"


def _read(body: bytes) -> _Body:
    try:
        found = _BODY.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _not_prometheus(body) from None
    if found.status != "success":
        raise Unavailable(error_in(body) or "the query failed, and the server does not say why")
    return found


def _not_prometheus(body: bytes) -> Unavailable:
    begin = body[:40].decode("utf-8", "replace").strip()
    what = "a web page" if begin.lstrip().lower().startswith(("<!doctype", "<html")) else f"{begin!r}..."
    return Unavailable(
        f"the answer is not that of Prometheus' HTTP API but {what}; is there a path prefix missing in the URL "
        "(/prometheus, /select/0/prometheus), or a login page in front?"
    )
