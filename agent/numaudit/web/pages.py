"""What each path answers. No sockets here: a request and its answer are values."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from http import HTTPStatus

from numaudit.errors import NumauditError, printable
from numaudit.exporters.prometheus import Pages, accepts_gzip, negotiate
from numaudit.web.auth import Access
from numaudit.web.budget import SECONDS_PER_TRY
from numaudit.web.passwords import Verdict
from numaudit.web.tick_document import Document

PLAIN = "text/plain; charset=utf-8"
_GET = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Request:
    """One request, without a body."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    method: str = "GET"
    client: str = ""
    """The address it came from."""


@dataclass(frozen=True, slots=True)
class Response:
    """Status, body and what describes it."""

    status: HTTPStatus
    content_type: str
    body: tuple[bytes, ...]
    """In parts, so that answers can share a large one."""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return sum(map(len, self.body))


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the agent does its work, and the words for it."""

    good: bool
    text: str


@dataclass(slots=True)
class AgentSite:
    """The agent's pages. Health and readiness never render metrics, need no password and are answered at once."""

    metrics: Pages
    report: Callable[[], Document | None]
    """The newest report; None before the first tick."""
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

    def is_urgent(self, path: str) -> bool:
        route = _ROUTES.get(path)
        return route is not None and route.is_urgent

    def count(self, path: str, status: HTTPStatus) -> None:
        with self._lock:
            self.requests[path if path in _ROUTES else "other", str(status.value)] += 1

    def answer(self, request: Request) -> Response:
        route = _ROUTES.get(request.path)
        if route is None:
            return plain(HTTPStatus.NOT_FOUND, "no such page; see /\n")
        if request.method not in route.methods:
            allowed = ", ".join(route.methods)
            return plain(HTTPStatus.METHOD_NOT_ALLOWED, f"use {allowed}\n", ("Allow", allowed))
        if not route.is_urgent:
            match self.access.check(request.headers.get("authorization", ""), request.client):
                case Verdict.WRONG:
                    return _CHALLENGE
                case Verdict.TOO_MANY:
                    return _TOO_MANY
        return route.answer(self, request)

    def _reload(self, _: Request) -> Response:
        if not self.may_reload():
            return plain(HTTPStatus.FORBIDDEN, "this is off; the setting web.reload switches it on\n")
        try:
            self.reload()
        except NumauditError as error:
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, f"{printable(str(error))}\n")
        return plain(HTTPStatus.OK, "the settings were read again\n")

    def _metrics(self, request: Request) -> Response:
        form, content_type = negotiate(request.headers.get("accept", ""), request.headers.get("accept-encoding", ""))
        body = self.metrics.parts(form)
        if body is None:
            return _NO_TICK
        return Response(HTTPStatus.OK, content_type, body, _encoding(form.gzip))

    def _report(self, request: Request) -> Response:
        document = self.report()
        if document is None:
            return _NO_TICK
        packed = accepts_gzip(request.headers.get("accept-encoding", ""))
        return Response(HTTPStatus.OK, "application/json", (document.get(packed),), _encoding(packed))


def plain(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Response:
    """An answer of words."""
    return Response(status, PLAIN, (text.encode(),), headers)


def _encoding(packed: bool) -> tuple[tuple[str, str], ...]:
    vary = ("Vary", "Accept, Accept-Encoding")
    return (vary, ("Content-Encoding", "gzip")) if packed else (vary,)


def _health(health: Health) -> Response:
    return plain(HTTPStatus.OK if health.good else HTTPStatus.SERVICE_UNAVAILABLE, f"{health.text}\n")


_NO_TICK = plain(HTTPStatus.SERVICE_UNAVAILABLE, "no snapshot to serve; see /-/ready\n")
_CHALLENGE = plain(
    HTTPStatus.UNAUTHORIZED, "a user and password are needed\n", ("WWW-Authenticate", 'Basic realm="numaudit"')
)
_TOO_MANY = plain(
    HTTPStatus.TOO_MANY_REQUESTS, "too many wrong passwords\n", ("Retry-After", str(math.ceil(SECONDS_PER_TRY)))
)


def _index(*_: object) -> Response:
    items = "".join(f'<li><a href="{path}">{path}</a>: {escape(one.what)}</li>\n' for path, one in _ROUTES.items())
    head = "<!doctype html>\n<html lang=en><meta charset=utf-8><title>numaudit</title>\n<h1>numaudit</h1>\n"
    body = f"{head}<ul>\n{items}</ul>\n</html>\n"
    return Response(HTTPStatus.OK, "text/html; charset=utf-8", (body.encode(),))


@dataclass(frozen=True, slots=True)
class _Route:
    """One path."""

    what: str
    """For the index."""
    answer: Callable[[AgentSite, Request], Response]
    methods: tuple[str, ...] = _GET
    is_urgent: bool = False
    """Answered without a password, and while all else must wait."""


_ROUTES: Mapping[str, _Route] = {
    "/": _Route("this index", _index),
    "/metrics": _Route("Prometheus metrics", AgentSite._metrics),
    "/report.json": _Route("the newest report", AgentSite._report),
    "/-/healthy": _Route("does the agent still tick?", lambda site, _: _health(site.healthy()), is_urgent=True),
    "/-/ready": _Route("is there a first snapshot?", lambda site, _: _health(site.ready()), is_urgent=True),
    "/-/reload": _Route("POST reads the settings again, where web.reload is on", AgentSite._reload, methods=("POST",)),
}
