"""What each path answers. No sockets here: a request and its answer are values."""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus

from numaudit.errors import NumauditError, printable
from numaudit.exporters.prometheus import Pages, accepts_gzip, negotiate
from numaudit.web.auth import Access

PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """A GET, HEAD or POST."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class Response:
    """Status, body and what describes it."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the agent does its work, and the words for it."""

    good: bool
    text: str


@dataclass(slots=True)
class AgentSite:
    """The agent's pages. Unknown paths are 404; health and readiness never render metrics and need no password."""

    metrics: Pages
    report: Callable[[], bytes | None]
    """The newest report as a JSON document; None before the first tick."""
    healthy: Callable[[], Health]
    ready: Callable[[], Health]
    access: Access
    may_reload: Callable[[], bool] = lambda: False
    """The setting `web.reload`."""
    reload: Callable[[], None] = lambda: None
    """Reads the settings again. Raises NumauditError."""
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Path (`other` for unknown ones) and status -> answers."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Response:
        known = request.path in _PATHS
        response = self._answer(request) if known else _plain(HTTPStatus.NOT_FOUND, "no such page; see /\n")
        with self._lock:
            self.requests[request.path if known else "other", str(response.status.value)] += 1
        return response

    def _answer(self, request: Request) -> Response:
        match request.path:
            case "/-/healthy":
                return _health(self.healthy())
            case "/-/ready":
                return _health(self.ready())
        if not self.access.allows(request.headers.get("authorization", "")):
            challenge = (("WWW-Authenticate", 'Basic realm="numaudit"'),)
            return Response(HTTPStatus.UNAUTHORIZED, PLAIN, b"a user and password are needed\n", challenge)
        match request.path:
            case "/-/reload":
                return self._reload(request)
            case _ if request.method == "POST":
                return _not_allowed("GET, HEAD")
            case "/metrics":
                return self._metrics(request)
            case "/report.json":
                return self._report(request)
            case _:
                return Response(HTTPStatus.OK, "text/html; charset=utf-8", _INDEX)

    def _reload(self, request: Request) -> Response:
        if request.method != "POST":
            return _not_allowed("POST")
        if not self.may_reload():
            return _plain(HTTPStatus.FORBIDDEN, "this is off; the setting web.reload switches it on\n")
        try:
            self.reload()
        except NumauditError as error:
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, f"{printable(str(error))}\n")
        return _plain(HTTPStatus.OK, "the settings were read again\n")

    def _metrics(self, request: Request) -> Response:
        form, content_type = negotiate(request.headers.get("accept", ""), request.headers.get("accept-encoding", ""))
        body = self.metrics.get(form)
        if body is None:
            return _NO_TICK
        return Response(HTTPStatus.OK, content_type, body, _encoding(form.gzip))

    def _report(self, request: Request) -> Response:
        body = self.report()
        if body is None:
            return _NO_TICK
        packed = accepts_gzip(request.headers.get("accept-encoding", ""))
        if packed:
            packer = zlib.compressobj(1, wbits=31)
            body = packer.compress(body) + packer.flush()
        return Response(HTTPStatus.OK, "application/json", body, _encoding(packed))


def _encoding(packed: bool) -> tuple[tuple[str, str], ...]:
    vary = ("Vary", "Accept, Accept-Encoding")
    return (vary, ("Content-Encoding", "gzip")) if packed else (vary,)


def _health(health: Health) -> Response:
    return _plain(HTTPStatus.OK if health.good else HTTPStatus.SERVICE_UNAVAILABLE, f"{health.text}\n")


def _plain(status: HTTPStatus, text: str) -> Response:
    return Response(status, PLAIN, text.encode())


def _not_allowed(allowed: str) -> Response:
    body = f"this page takes {allowed} only\n".encode()
    return Response(HTTPStatus.METHOD_NOT_ALLOWED, PLAIN, body, (("Allow", allowed),))


_NO_TICK = _plain(HTTPStatus.SERVICE_UNAVAILABLE, "no snapshot to serve; see /-/ready\n")
_PAGES = {
    "/metrics": "Prometheus metrics",
    "/report.json": "the newest report",
    "/-/healthy": "does the agent still tick?",
    "/-/ready": "is there a first snapshot?",
}
_PATHS = frozenset((*_PAGES, "/-/reload", "/"))
_INDEX = (
    "<!doctype html>\n<html lang=en><meta charset=utf-8><title>numaudit</title>\n<h1>numaudit</h1>\n<ul>\n"
    + "".join(f'<li><a href="{path}">{path}</a>: {escape(what)}</li>\n' for path, what in _PAGES.items())
    + "</ul>\n</html>\n"
).encode()
