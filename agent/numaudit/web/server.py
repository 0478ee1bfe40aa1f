"""The standard library's HTTP server, bounded: silent, slow and too many clients cost the others nothing.

A connection gets a thread. Their number is limited: at the limit, the one that has been waiting longest for
its client is closed. A TLS handshake runs in the connection's thread, never where connections are accepted.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Protocol, cast

from numaudit.errors import InputError
from numaudit.web.auth import Access
from numaudit.web.pages import Request, Response

KEEP_ALIVE = 120.0
"""Seconds that a connection may stay open between two requests."""
_BACKLOG = 1024
_log = logging.getLogger(__name__)


class Site(Protocol):
    """What answers requests. Called from many threads at once."""

    def answer(self, request: Request) -> Response: ...


@dataclass(slots=True, eq=False)
class _Connection:
    socket: socket.socket
    waiting_since: float
    """When it began to wait for its client."""
    deadline: float
    """Until when the client has to act."""
    busy: bool = False
    """A whole request has arrived and is being answered: never closed to make room."""


@dataclass(slots=True)
class Connections:
    """All open connections. Who takes one more than allowed has the longest waiting one closed."""

    most: int
    evicted: int = 0
    _open: set[_Connection] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, one: socket.socket, seconds: float) -> _Connection | None:
        """A new connection; None when all others are being answered."""
        now = time.monotonic()
        connection = _Connection(one, now, now + seconds)
        with self._lock:
            if len(self._open) >= self.most:
                waiting = [other for other in self._open if not other.busy]
                if not waiting:
                    return None
                self._close(min(waiting, key=lambda other: other.waiting_since))
                self.evicted += 1
            self._open.add(connection)
        return connection

    def wrapped(self, connection: _Connection, by: socket.socket) -> None:
        """The same connection has become another socket object (TLS)."""
        with self._lock:
            connection.socket = by

    def waits(self, connection: _Connection, seconds: float) -> None:
        """From now on its client has this long to act."""
        now = time.monotonic()
        with self._lock:
            connection.busy, connection.waiting_since, connection.deadline = False, now, now + seconds

    def answers(self, connection: _Connection, seconds: float) -> None:
        """A whole request is here."""
        with self._lock:
            connection.busy, connection.deadline = True, time.monotonic() + seconds

    def remove(self, connection: _Connection) -> None:
        with self._lock:
            self._open.discard(connection)

    def close_overdue(self) -> None:
        """Close those whose time is up, also when they send a byte now and then."""
        now = time.monotonic()
        with self._lock:
            for connection in [one for one in self._open if one.deadline < now]:
                self._close(connection)

    def close_all(self) -> None:
        with self._lock:
            for connection in list(self._open):
                self._close(connection)

    def _close(self, connection: _Connection) -> None:
        """Its thread wakes up with an error and ends; the slot is free at once."""
        self._open.discard(connection)
        with contextlib.suppress(OSError):  # the client was quicker
            connection.socket.shutdown(socket.SHUT_RDWR)


class Server(HTTPServer):
    """Serves a site until `stop`."""

    request_queue_size = _BACKLOG
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], site: Site, access: Access, max_connections: int = 64, timeout: float = 5.0
    ) -> None:
        """Bind and listen. Raises InputError when the address cannot be had."""
        self.site, self.access, self.patience = site, access, timeout
        self.connections = Connections(max_connections)
        host, port = address
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            # `:PORT` means every address: one IPv6 socket also takes IPv4 where the host has both.
            found.sort(key=lambda one: one[0] != socket.AF_INET6 if not host else 0)
            self._bind(found)
        except OSError as error:
            raise InputError(
                f"cannot listen on {host or '*'}:{port}: {error.strerror or error}; "
                "choose an address of this host and a port that no other process has with --listen HOST:PORT"
            ) from error
        self._thread = threading.Thread(target=self.serve_forever, args=(0.2,), name="web", daemon=True)

    def _bind(self, found: list[Any]) -> None:
        problem: OSError | None = None
        for family, _, _, _, address in found:
            self.address_family = family
            try:
                super().__init__(address[:2], cast("Any", _Handler))
                return
            except OSError as error:
                problem = error
        raise problem or OSError("no such address")

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # HTTPServer.server_bind would resolve the host's name, which may take a resolver's time-out.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    @property
    def port(self) -> int:
        return cast("int", self.socket.getsockname()[1])

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take no more connections and close those there are; at most about half a second."""
        self.shutdown()
        self.server_close()
        self.connections.close_all()

    def service_actions(self) -> None:
        self.connections.close_overdue()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(0.05)  # out of descriptors: the listening socket stays readable, so do not spin
            raise

    def process_request(self, request: object, client_address: object) -> None:
        accepted = cast("socket.socket", request)
        connection = self.connections.add(accepted, self.patience)
        if connection is None:
            self.shutdown_request(accepted)
            return
        thread = threading.Thread(target=self._serve, args=(connection, client_address), name="web", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads to be had
            self.connections.remove(connection)
            self.shutdown_request(accepted)

    def _serve(self, connection: _Connection, client_address: object) -> None:
        try:
            connection.socket.settimeout(self.patience)
            self._begin_tls(connection)
            _Handler(connection, client_address, self)
        except (OSError, ValueError) as error:
            _log.debug("connection from %s ended: %s", client_address, error)
        finally:
            self.connections.remove(connection)
            self.shutdown_request(connection.socket)

    def _begin_tls(self, connection: _Connection) -> None:
        context = self.access.tls()
        if context is None:
            return
        wrapped = context.wrap_socket(connection.socket, server_side=True, do_handshake_on_connect=False)
        self.connections.wrapped(connection, wrapped)
        wrapped.settimeout(self.patience)
        wrapped.do_handshake()
        if not self.access.allows_certificate(wrapped.getpeercert()):
            raise ssl.SSLError("the client's certificate has none of the allowed names")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def __init__(self, connection: _Connection, client_address: object, server: Server) -> None:
        self.slot = connection
        super().__init__(connection.socket, client_address, server)

    def version_string(self) -> str:
        return "numaudit"

    def handle_one_request(self) -> None:
        connections, patience = self.server.connections, self.server.patience
        first = not hasattr(self, "raw_requestline")
        idle = patience if first else KEEP_ALIVE
        connections.waits(self.slot, idle)
        self.connection.settimeout(idle)
        try:
            if not cast("Any", self.rfile).peek(1):
                self.close_connection = True
                return
            connections.waits(self.slot, patience)
            self.connection.settimeout(patience)
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def parse_request(self) -> bool:
        whole = super().parse_request()
        self.server.connections.answers(self.slot, self.server.patience * 2)
        return whole

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_POST(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # a body that was never read would be taken for the next request
        path = self.path.partition("?")[0]
        request = Request(path, {name.lower(): value for name, value in self.headers.items()}, self.command)
        try:
            response = self.server.site.answer(request)
        except Exception:
            _log.exception("internal error while answering %s", path)
            response = Response(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", b"internal error\n")
        self._send(response, with_body)

    def _send(self, response: Response, with_body: bool) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in (*response.headers, *self.server.access.headers()):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        _log.debug("%s %s", self.address_string(), format % args)
