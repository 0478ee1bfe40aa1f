"""One connection's HTTP: requests are read and answered one after another.

h11 parses and frames. It is strict, and it does no input or output, so that time and size are limited here.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

import h11
from msgspec import Struct, field

from numaudit.daemon.web.auth import AccessRules
from numaudit.daemon.web.connections import ClientConnection, Connections
from numaudit.daemon.web.pages import Request, Response, plain

KEEP_ALIVE = 120.0
"""Seconds that a connection may stay open between two requests."""
MOST_HEAD = 32 << 10
"""Bytes of a request's first line and headers together."""
MOST_HEADERS = 100
_RECEIVED_AT_ONCE = 8 << 10
_SENT_AT_ONCE = 256 << 10
"""Bytes. A client that has not read as many since it last did may be closed for a newer one."""
_LINGER_SECONDS, _LINGER_BYTES = 1.0, 1 << 20
"""For the rest of a refused request: closing before it has come would destroy the answer."""
_BRAKE_SECONDS = 0.25
"""After each answer that is an error: guesses and nonsense at full speed would take all of the agent's time."""
_VERSIONS = (b"1.0", b"1.1")
_log = logging.getLogger(__name__)


class Site(Protocol):
    """A site that answers requests. Called from many threads at once."""

    def answer(self, request: Request) -> Response: ...

    def count(self, path: str, status: HTTPStatus) -> None:
        """An answer leaves. The path is empty when no request could be read."""


class _Refused(Exception):
    """The request gets this answer, and the connection ends."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.response = plain(status, f"{reason}\n")


class Conversation(Struct):
    """All requests of one connection. `run` raises OSError when the other side is gone or its time is up."""

    slot: ClientConnection
    connections: Connections
    site: Site
    access: AccessRules
    admission: tuple[object, ...]
    """The rules under which the connection was made."""
    patience: float
    """Seconds for a whole request to come, or its answer to leave."""
    _http: h11.Connection = field(default_factory=lambda: h11.Connection(h11.SERVER, 2 * MOST_HEAD))

    def run(self) -> None:
        self.connections.waits(self.slot, self.patience)
        while self._exchange():
            self._http.start_next_cycle()
            self.connections.waits(self.slot, KEEP_ALIVE)

    def _exchange(self) -> bool:
        """Read a request and answer it. Whether another may follow."""
        request = None
        try:
            request = self._read()
            if request is None or self.access.now().admission != self.admission:
                return False
            response = self._answer(request)
            # A body is never read: what follows would be taken for the next request.
            last = not isinstance(self._http.next_event(), h11.EndOfMessage)
        except _Refused as refused:
            response, last = refused.response, True
        except h11.RemoteProtocolError as error:
            response, last = plain(HTTPStatus(error.error_status_hint), f"{error}\n"), True
        self._send(request, response, last)
        if last:
            self._linger()
        elif response.status >= HTTPStatus.BAD_REQUEST:
            self._brake()
        return not last and self._http.our_state is h11.DONE

    def _read(self) -> Request | None:
        """The next request; None when the client has ended the connection. Raises h11.RemoteProtocolError, _Refused."""
        begun = False
        while True:
            _check_head(self._http.trailing_data[0])
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                break
            self._http.receive_data(self.slot.socket.recv(_RECEIVED_AT_ONCE))
            if not begun:
                begun = True
                self.connections.waits(self.slot, self.patience)
        if not isinstance(event, h11.Request):
            return None
        if event.http_version not in _VERSIONS:
            raise _Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "use HTTP/1.1")
        headers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        path, _, query = event.target.decode().partition("?")
        return Request(path, headers, event.method.decode(), self.slot.client, query)

    def _answer(self, request: Request) -> Response:
        self.connections.answers(self.slot, 2 * self.patience)
        try:
            return self.site.answer(request)
        except Exception:
            _log.exception("internal error while answering %s", request.path)
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error\n")

    def _send(self, request: Request | None, response: Response, last: bool) -> None:
        self.connections.waits(self.slot, self.patience)
        path = "" if request is None else request.path
        self.site.count(path, response.status)
        _log.debug("%s: %s %s", self.slot.client, path or "not understood", response.status.value)
        head = self._http.send(
            h11.Response(
                status_code=response.status,
                reason=response.status.phrase,
                headers=list(self._headers(response, last)),
            )
        )
        parts = [head or b""]
        if request is None or request.method != "HEAD":
            parts += [self._http.send(h11.Data(data=part)) or b"" for part in response.body]
        self._http.send(h11.EndOfMessage())
        self._write(parts)

    def _headers(self, response: Response, last: bool) -> Iterable[tuple[str, str]]:
        headers = {
            "Server": "numaudit",
            "Date": formatdate(usegmt=True),
            "Content-Type": response.content_type,
            "Content-Length": str(response.size),
            "X-Content-Type-Options": "nosniff",
            **dict(response.headers),
            **dict(self.access.headers()),
        }
        if response.status is HTTPStatus.NOT_MODIFIED:  # they would describe a body that is not sent
            del headers["Content-Type"], headers["Content-Length"]
        if last:
            headers["Connection"] = "close"
        return headers.items()

    def _write(self, parts: list[bytes]) -> None:
        if sum(map(len, parts)) <= _SENT_AT_ONCE:
            parts = [b"".join(parts)]
        for part in parts:
            whole = memoryview(part)
            for begin in range(0, len(whole), _SENT_AT_ONCE):
                self.slot.socket.sendall(whole[begin : begin + _SENT_AT_ONCE])
                self.connections.goes_on(self.slot)

    def _brake(self) -> None:
        """Let some time pass before the next request, unless the connection is closed meanwhile."""
        self.connections.waits(self.slot, self.patience)
        closed = select.poll()
        closed.register(self.slot.socket, 0)
        closed.poll(_BRAKE_SECONDS * 1000)

    def _linger(self) -> None:
        self.connections.waits(self.slot, _LINGER_SECONDS)
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.slot.socket, socket.SHUT_WR)
            for _ in range(_LINGER_BYTES // _RECEIVED_AT_ONCE):
                if not self.slot.socket.recv(_RECEIVED_AT_ONCE):
                    return


def _check_head(received: bytes) -> None:
    """Refuse a head that h11 would let through. Raises _Refused."""
    head, end, _ = received[: MOST_HEAD + 4].partition(b"\r\n\r\n")
    if not end and len(received) > MOST_HEAD:
        if b"\n" not in head:
            raise _Refused(HTTPStatus.REQUEST_URI_TOO_LONG, f"the request line has more than {MOST_HEAD} bytes")
        raise _Refused(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"request line and headers have more than {MOST_HEAD} bytes"
        )
    if head.count(b"\n") > MOST_HEADERS:
        raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the request has more than {MOST_HEADERS} headers")
    if head.lower().count(b"\ncontent-length:") > 1:
        raise _Refused(HTTPStatus.BAD_REQUEST, "the request has more than one Content-Length")
    if b"\n " in head or b"\n\t" in head:
        raise _Refused(HTTPStatus.BAD_REQUEST, "a header is continued on the next line")
