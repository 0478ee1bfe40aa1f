"""One push: its parts, sent again where the protocol says so, all within one deadline.

Source: https://opentelemetry.io/docs/specs/otlp/#otlphttp-response.
"""

from __future__ import annotations

import http.client
import logging
import random
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from isal import isal_zlib
from msgspec import Struct
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from numaudit import __version__
from numaudit.errors import InputError, printable, without_password
from numaudit.exporters.otel import PushPart
from numaudit.net.connection import MOST_OF_AN_ANSWER, Connection, HttpAnswer
from numaudit.net.target import Target, check_headers, retry_after, target_of, tls_context

METRICS_PATH = "/v1/metrics"


def target(endpoint: str, headers: Mapping[str, str], ca_file: Path | None, compression: str) -> Target:
    """The receiver of a URL; one without a path means the standard one. Raises InputError."""
    url = urlsplit(endpoint)
    tls = url.scheme == "https"
    context = _context(ca_file) if tls or ca_file is not None else None
    sent = {"Content-Type": "application/x-protobuf", "User-Agent": f"numaudit/{__version__}"}
    if compression == "gzip":
        sent["Content-Encoding"] = "gzip"
    check_headers(headers, "otlp.headers")
    path = METRICS_PATH if url.path in ("", "/") else url.path
    return target_of(url, path, {**sent, **headers}, context if tls else None)


def _context(ca_file: Path | None) -> ssl.SSLContext:
    """Trusts these authorities alone; None = the system's."""
    try:
        return tls_context(ca_file)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        raise InputError(
            f"otlp.ca_file {ca_file}: {reason or error}; give a readable file with certificate authorities in PEM"
        ) from None


_SENT_AGAIN = frozenset((429, 502, 503, 504))
_FIRST_WAIT = 1.0
_PROTOBUF = "application/x-protobuf"
_GZIP = 16 + isal_zlib.MAX_WBITS
_MOST_WORDS = 300
_log = logging.getLogger(__name__)


class Delivery(Struct):
    """Result of a push."""

    delivered: int = 0
    """Points that the receiver took."""
    rejected: int = 0
    """Points that it rejected of parts that it took."""
    problem: str | None = None
    """Reason why not all were delivered; None = every part was."""
    wait: float = 0.0
    """Seconds for which the receiver wants no further push."""


@dataclass(eq=False)
class _Refusal(Exception):
    """The receiver's reason for refusing a request."""

    reason: str
    again: bool
    """May the same request be sent again?"""
    wait: float | None = None
    """Seconds after which the receiver wants it."""


@dataclass(slots=True)
class Receiver:
    """Takes whole pushes. Raises InputError for settings that are wrong."""

    endpoint: str
    timeout: float = 10.0
    """Seconds for one push: connecting, sending, answers and repetitions."""
    compression: str = "gzip"
    ca_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    target: Target = field(init=False)
    _connection: Connection | None = None
    _closed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.target = target(self.endpoint, self.headers, self.ca_file, self.compression)

    def deliver(self, parts: Iterable[PushPart]) -> Delivery:
        """Send each part. One that is refused does not keep the others back."""
        found = Delivery()
        connection = self._connection = Connection(self.target, self.timeout)
        try:
            for part in parts:
                try:
                    rejected = self._send(part, connection)
                except _Refusal as refusal:
                    found.problem = refusal.reason
                    if refusal.again:  # there is no time left, or the receiver wants none
                        found.wait = refusal.wait or 0.0
                        break
                else:
                    found.delivered += part.points - rejected
                    found.rejected += rejected
        finally:
            connection.close()
        return found

    def close(self) -> None:
        """End the push that is under way, and each later one at once."""
        self._closed.set()
        if (connection := self._connection) is not None:
            connection.cut()

    def _send(self, part: PushPart, connection: Connection) -> int:
        """Points that were rejected. Raises _Refusal when it is final, or no time is left for another attempt."""
        body = isal_zlib.compress(part.body, 1, wbits=_GZIP) if self.compression == "gzip" else part.body
        pause = _FIRST_WAIT
        while True:
            try:
                return self._post(body, part, connection)
            except _Refusal as refusal:
                wait = pause * random.uniform(0.8, 1.2) if refusal.wait is None else refusal.wait  # noqa: S311
                if not refusal.again or wait >= connection.left() or self._closed.wait(wait):
                    raise
                pause *= 2

    def _post(self, body: bytes, part: PushPart, connection: Connection) -> int:
        try:
            answer = connection.post(body)
        except TimeoutError:
            raise _Refusal(f"no complete answer within {self.timeout:g} s", again=True) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise _Refusal(_words(str(reason)), again=True) from None
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise _refusal(answer)
        return min(_rejected(answer), part.points)


def _refusal(answer: HttpAnswer) -> _Refusal:
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        where = without_password(_words(answer.headers.get("Location", "nowhere")))
        return _Refusal(f"{answer.status}: a redirect to {where}; it is not followed, set otlp.endpoint", again=False)
    again = answer.status in _SENT_AGAIN
    wait = retry_after(answer.headers.get("Retry-After", ""), time.time()) if again else None
    asks = "" if wait is None else f"the next request waits for {wait:.0f} s (Retry-After)"
    words = ": ".join(filter(None, (asks, _words(_message(answer)))))
    return _Refusal(f"{answer.status}: {words}" if words else f"{answer.status} without a message", again, wait)


def _message(answer: HttpAnswer) -> str:
    """A receiver's message about a request that it does not take: a google.rpc.Status, or text."""
    if not _is_plain(answer):
        return ""
    if _kind(answer) == _PROTOBUF:
        try:
            return str(Status.FromString(answer.body).message)
        except DecodeError:
            return ""
    return answer.body[: 4 * _MOST_WORDS].decode(errors="replace")


def _rejected(answer: HttpAnswer) -> int:
    """Points of a request that was taken, but not all of it."""
    if not answer.complete:
        _log.warning("the OTLP receiver's answer is longer than %d bytes; it is not read", MOST_OF_AN_ANSWER)
        return 0
    if not _is_plain(answer) or _kind(answer) != _PROTOBUF:
        return 0
    try:
        partial = ExportMetricsServiceResponse.FromString(answer.body).partial_success
    except DecodeError:
        _log.warning("the OTLP receiver's answer is not an ExportMetricsServiceResponse")
        return 0
    rejected = max(0, partial.rejected_data_points)
    if rejected or partial.error_message:
        _log.warning("the OTLP receiver rejected %d points: %s", rejected, _words(partial.error_message))
    return rejected


def _is_plain(answer: HttpAnswer) -> bool:
    """A compressed answer, which no request asks for, may unfold to any size."""
    plain = answer.headers.get("Content-Encoding", "identity") == "identity"
    if not plain:
        _log.warning("the OTLP receiver's answer is compressed, which the request did not accept; it is not read")
    return plain


def _kind(answer: HttpAnswer) -> str:
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def _words(text: str) -> str:
    """On one line, of bounded length."""
    return printable(text.strip()[:_MOST_WORDS])[:_MOST_WORDS]
