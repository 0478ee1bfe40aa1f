"""The HTTP API of Prometheus and of those that speak it too: Thanos, Mimir, VictoriaMetrics.

Only the URL and the HTTP settings decide where a query goes and which authorities it trusts: no proxy, no redirect.
"""

from __future__ import annotations

import http.client
import math
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import SplitResult, urlencode

from msgspec import Struct, field

from numaudit import __version__
from numaudit.errors import InputError, Unavailable, without_password
from numaudit.fleet.answers import Reply, Sample, error_in, read_scalar, read_vector
from numaudit.fleet.http_config import HttpConfig
from numaudit.net.connection import Connection, HttpAnswer, NotUnderstood, TooLarge
from numaudit.net.target import target_of
from numaudit.net.url import parse_url

LARGEST_ANSWER = 64 << 20
"""Bytes, unpacked."""
_PATH = "/api/v1/query"


class Prometheus(Struct):
    """A server, asked for one moment of its own clock."""

    where: str
    """Its URL without secrets."""
    at: float
    """Seconds since the epoch by the server's clock."""
    warnings: dict[str, None] = field(default_factory=dict)
    """Warnings in its answers, each once."""
    _connection: Connection | None = None
    _timeout: float = 0.0

    def vector(self, promql: str) -> tuple[Sample, ...]:
        """An instant query. Raises Unavailable."""
        assert self._connection is not None
        found: Reply = read_vector(self._ask(promql, time=repr(self.at)))
        if not self._connection.left():
            raise self._is_late()
        self.warnings |= dict.fromkeys(found.warnings)
        return found.samples

    def _ask(self, promql: str, **parameters: str) -> bytes:
        assert self._connection is not None
        left = max(1, math.ceil(self._connection.left()))
        body = urlencode({"query": promql, "timeout": f"{left}s", **parameters}).encode()
        try:
            answer = self._connection.post(body, LARGEST_ANSWER)
        except TimeoutError:
            raise self._is_late() from None
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(_reason(error)) from None
        return _checked(answer)

    def _is_late(self) -> Unavailable:
        return Unavailable(f"no answer within {self._timeout:g} s; --timeout gives it longer, --selector asks for less")


@contextmanager
def connected(url: str, config: HttpConfig, timeout: float) -> Iterator[Prometheus]:
    """Ask for the server's time, and then whatever the block asks.

    All together within `timeout` seconds. Errors name the server: InputError for a wrong URL, else Unavailable.
    """
    parts = _parse(url)
    if parts.username is not None and "Authorization" in config.headers:
        raise InputError("--prometheus and --http.config.file both give a user: remove user and password from the URL")
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "User-Agent": f"numaudit/{__version__}",
        **config.headers,
    }
    tls = None if parts.scheme == "http" else config.tls or ssl.create_default_context()
    target = target_of(parts, f"{parts.path.rstrip('/')}{_PATH}", headers, tls)
    target = replace(target, server_name=config.server_name)
    where = str(target).removesuffix(_PATH)
    connection = Connection(target, timeout)
    try:
        found = Prometheus(where, math.nan, _connection=connection, _timeout=timeout)
        found.at = read_scalar(found._ask("time()"))
        yield found
    except Unavailable as error:
        raise Unavailable(f"{where}: {without_password(str(error))}") from None
    finally:
        connection.close()


def _parse(url: str) -> SplitResult:
    try:
        return parse_url(url)
    except ValueError as why:
        raise InputError(
            f"--prometheus: the value (hidden) is not the URL of a server: {why}; give one such as "
            "http://prometheus.monitoring:9090"
        ) from None


def _checked(answer: HttpAnswer) -> bytes:
    """The body of a query that went well, unpacked."""
    try:
        body = answer.unpacked(LARGEST_ANSWER)
    except TooLarge:
        raise Unavailable(
            f"the answer is larger than {LARGEST_ANSWER >> 20} MiB; --selector or --namespace asks for less"
        ) from None
    except NotUnderstood as error:
        raise Unavailable(str(error)) from None
    if answer.status == http.client.OK:
        return body
    said = error_in(body)
    raise Unavailable(f"{_refusal(answer.status)}{'' if said is None else f'; it says {said}'}")


def _refusal(status: int) -> str:
    match status:
        case 401:
            return "401: it wants to know who asks; give --http.config.file with basic_auth or authorization"
        case 403:
            return "403: whoever asks may not query; check the credentials in --http.config.file"
        case 404:
            return f"404: there is no {_PATH}; is a path prefix missing in the URL (/prometheus, /select/0/prometheus)?"
        case _ if 300 <= status < 400:
            return f"{status}: it redirects, to a login page maybe; give the URL of the API itself"
        case 400 | 422:
            return f"{status}: the query was refused"
    return f"the server answered with status {status}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; see tls_config in --http.config.file"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}; is it a server of plain HTTP, or does it want a certificate?"
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    if isinstance(error, NotUnderstood):
        return str(error)
    return f"it does not speak HTTP: {type(error).__name__} {error}"
