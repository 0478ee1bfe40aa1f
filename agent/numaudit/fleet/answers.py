"""What a Prometheus answers to an instant query, as values. Pure.

Format: https://prometheus.io/docs/prometheus/latest/querying/api/ (instant queries, errors, warnings).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from numaudit.errors import Unavailable

Labels = Mapping[str, str]


class Sample(Struct, frozen=True):
    """One element of an instant vector."""

    labels: dict[str, str] = msgspec.field(name="metric")
    stamped: tuple[float, str] = msgspec.field(name="value")
    """Seconds since the epoch, and the number as text: Inf and NaN are not JSON."""

    @property
    def value(self) -> float:
        return float(self.stamped[1])

    def label(self, name: str) -> str:
        """Empty = it has none of this name, which Prometheus does not tell apart."""
        return self.labels.get(name, "")


class Reply(Struct, frozen=True):
    """The samples of one query, and what the server says of them."""

    samples: tuple[Sample, ...]
    warnings: tuple[str, ...] = ()
    """Such as Thanos' of stores that did not answer: then samples are missing."""


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
_VECTOR = msgspec.json.Decoder(tuple[Sample, ...])
_SCALAR = msgspec.json.Decoder(tuple[float, str])
_LONGEST = 300
MOST_SAMPLES = 500_000
"""In one answer. Each is two objects of JSON, and takes some hundred bytes more in memory than there."""
_AROUND = 10
"""Objects around them."""


def read_vector(body: bytes) -> Reply:
    """An instant vector without what is no number. Raises Unavailable for an error and for anything else."""
    found = _read(body)
    data = found.data or _Data()
    if data.result_type != "vector":
        raise _not_prometheus(body)
    if body.count(b"{") > 2 * MOST_SAMPLES + _AROUND:
        raise Unavailable(f"the answer has more than {MOST_SAMPLES} series; --selector or --namespace asks for less")
    try:
        samples = tuple(one for one in _VECTOR.decode(data.result) if math.isfinite(one.value))
    except (msgspec.MsgspecError, ValueError):
        raise _not_prometheus(body) from None
    warnings = tuple(found.warnings or ())
    if found.is_partial:
        warnings += ("the answer is partial: some of its stores did not answer",)
    return Reply(samples, warnings)


def read_scalar(body: bytes) -> float:
    """One number. Raises as `read_vector`. VictoriaMetrics answers with a vector of one."""
    found = _read(body)
    data = found.data or _Data()
    try:
        if data.result_type == "scalar":
            return float(_SCALAR.decode(data.result)[1])
        if data.result_type == "vector":
            return _VECTOR.decode(data.result)[0].value
    except (msgspec.MsgspecError, ValueError, IndexError):
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
