"""The answer of each path. No sockets here: a request and its answer are values."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from http import HTTPStatus

from msgspec import Struct, field

from numaudit.daemon.web.auth import SECONDS_PER_ATTEMPT, AccessRules, PasswordCheck
from numaudit.daemon.web.tick_document import TickDocument, TickDocuments
from numaudit.exporters.prometheus import MetricPages, accepts_gzip, negotiate
from numaudit.views.page.report_page import policy, waiting_page

PLAIN = "text/plain; charset=utf-8"


class Request(Struct, frozen=True):
    """One request, without a body."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name."""
    method: str = "GET"
    client: str = ""
    """The address it came from."""
    query: str = ""
    """Of the address, without its question mark."""

    @property
    def container(self) -> str | None:
        """The container that the query names by its key; None = none. No key has a letter that must be escaped."""
        fields = (part.partition("=") for part in self.query.split("&"))
        return next((value for name, _, value in fields if name == "container"), None)


class Response(Struct, frozen=True):
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


class Health(Struct, frozen=True):
    """State of the agent, and a sentence about it."""

    good: bool
    text: str


class AgentSite(Struct):
    """The agent's pages. Health and readiness never render metrics and need no password."""

    metrics: MetricPages
    newest: Callable[[], TickDocuments | None]
    """Of the newest tick that succeeded, however old it is; None before the first."""
    is_current: Callable[[], bool]
    """Returns True when that tick may still be served."""
    healthy: Callable[[], Health]
    ready: Callable[[], Health]
    access: AccessRules
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Path (`other` for unknown ones) and status -> answers."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, path: str, status: HTTPStatus) -> None:
        with self._lock:
            self.requests[path if path in _ROUTES else "other", str(status.value)] += 1

    def answer(self, request: Request) -> Response:
        route = _ROUTES.get(request.path)
        if route is None:
            return plain(HTTPStatus.NOT_FOUND, "no such page; see /\n")
        if request.method not in ("GET", "HEAD"):
            return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use GET, HEAD\n", ("Allow", "GET, HEAD"))
        if not route.is_public:
            match self.access.check(request.headers.get("authorization", ""), request.client):
                case PasswordCheck.WRONG:
                    return _CHALLENGE
                case PasswordCheck.TOO_MANY:
                    return _TOO_MANY
        return route.answer(self, request)

    def _metrics(self, request: Request) -> Response:
        form, content_type = negotiate(request.headers.get("accept", ""), request.headers.get("accept-encoding", ""))
        body = self.metrics.parts(form)
        if body is None:
            return _NO_TICK
        return Response(HTTPStatus.OK, content_type, body, _encoding(form.gzip))

    def _report(self, request: Request) -> Response:
        newest = self.newest()
        if newest is None:
            return _NO_TICK
        if not self.is_current():
            return plain(
                HTTPStatus.SERVICE_UNAVAILABLE, "no current snapshot to serve; see /-/healthy\n", *_age(newest)
            )
        return _document(request, newest, newest.report, "application/json")

    def _page(self, request: Request) -> Response:
        newest = self.newest()
        if newest is None:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, _HTML, (_waiting_page(),), _PAGE_HEADERS)
        is_current, page = self.is_current(), newest.page
        if not is_current:
            page = newest.stale_page
        if request.container is not None:
            made = newest.container_page(request.container, not is_current)
            if made is None:
                return _NO_CONTAINER
            page = TickDocument(lambda: made)
        if is_current:
            return _document(request, newest, page, _HTML, *_PAGE_HEADERS)
        body = page.get(gzip=False)
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, _HTML, (body,), _PAGE_HEADERS)


def plain(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Response:
    """An answer of words."""
    return Response(status, PLAIN, (text.encode(),), headers)


def _encoding(packed: bool) -> tuple[tuple[str, str], ...]:
    vary = ("Vary", "Accept, Accept-Encoding")
    return (vary, ("Content-Encoding", "gzip")) if packed else (vary,)


def _health(health: Health) -> Response:
    return plain(HTTPStatus.OK if health.good else HTTPStatus.SERVICE_UNAVAILABLE, f"{health.text}\n")


_NO_TICK = plain(HTTPStatus.SERVICE_UNAVAILABLE, "no snapshot to serve; see /-/ready\n")
_NO_CONTAINER = plain(HTTPStatus.NOT_FOUND, "the newest report has no such container; see /\n")
_CHALLENGE = plain(
    HTTPStatus.UNAUTHORIZED, "a user and password are needed\n", ("WWW-Authenticate", 'Basic realm="numaudit"')
)
_TOO_MANY = plain(
    HTTPStatus.TOO_MANY_REQUESTS, "too many wrong passwords\n", ("Retry-After", str(math.ceil(SECONDS_PER_ATTEMPT)))
)


def _document(
    request: Request, tick: TickDocuments, document: TickDocument, content_type: str, *headers: tuple[str, str]
) -> Response:
    """A document of a tick, or that the client has it already."""
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    headers = (*headers, ("ETag", tick.tag), ("Cache-Control", "no-cache"), *_age(tick))
    if known & {"*", tick.tag.removeprefix("W/")}:
        return Response(HTTPStatus.NOT_MODIFIED, content_type, (), (*headers, *_encoding(packed=False)))
    packed = accepts_gzip(request.headers.get("accept-encoding", ""))
    return Response(HTTPStatus.OK, content_type, (document.get(packed),), (*headers, *_encoding(packed)))


def _age(tick: TickDocuments) -> tuple[tuple[str, str], ...]:
    """In seconds: clocks of agent and client may differ, so a time would not say how old the answer is."""
    return (("Numaudit-Age", f"{tick.age:.2f}"), ("Numaudit-Interval", f"{tick.interval:g}"))


@cache
def _waiting_page() -> bytes:
    return waiting_page(LINKS).encode()


_HTML = "text/html; charset=utf-8"
_PAGE_HEADERS = (("Content-Security-Policy", policy()), ("Referrer-Policy", "no-referrer"))


class _Route(Struct, frozen=True):
    """One path."""

    what: str
    """For the page's list."""
    answer: Callable[[AgentSite, Request], Response]
    is_public: bool = False
    """Answered without a password."""


_HEALTHZ = "/healthz"
"""As Kubernetes's own components call it; Prometheus and its relatives say /-/healthy."""
_ROUTES: Mapping[str, _Route] = {
    "/": _Route("the newest report as a page", AgentSite._page),
    "/metrics": _Route("Prometheus metrics", AgentSite._metrics),
    "/report.json": _Route("the newest report", AgentSite._report),
    "/-/healthy": _Route("does the agent still tick?", lambda site, _: _health(site.healthy()), is_public=True),
    _HEALTHZ: _Route("as /-/healthy", lambda site, _: _health(site.healthy()), is_public=True),
    "/-/ready": _Route("is there a first snapshot?", lambda site, _: _health(site.ready()), is_public=True),
}
LINKS: Mapping[str, str] = {path: route.what for path, route in _ROUTES.items() if path not in ("/", _HEALTHZ)}
"""Links of the agent's page."""
