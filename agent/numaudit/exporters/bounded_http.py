"""HTTP requests that end in time, however the server behaves.

Nothing but what is given decides where a request goes and whom it trusts: no proxy, no .netrc, no redirect.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import re
import socket
import ssl
import string
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from urllib.parse import SplitResult, quote, unquote

from numaudit.errors import InputError

MOST_OF_AN_ANSWER = 64 << 10
"""Bytes of an answer that are read where nobody expects more than a few words."""
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go, and what they carry."""

    host: str
    port: int
    path: str
    headers: Mapping[str, str] = field(repr=False)
    tls: ssl.SSLContext | None
    server_name: str | None = None
    """That the server's certificate must have; None = the host."""

    def __str__(self) -> str:
        """Without user, password and query, which may be secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}{self.path.partition('?')[0]}"


def target_of(url: SplitResult, path: str, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> Target:
    """A path and the query of a URL; its user and password are sent unless there is an Authorization already."""
    sent = dict(headers)
    if url.username is not None and "authorization" not in map(str.lower, headers):
        sent["Authorization"] = basic_authorization(unquote(url.username), unquote(url.password or ""))
    query = f"?{quote(url.query, safe=string.punctuation)}" if url.query else ""
    path = quote(path, safe=string.punctuation) + query
    port = url.port or (80 if tls is None else 443)
    return Target(url.hostname or "", port, path, sent, tls)


def basic_authorization(user: str, password: str) -> str:
    """The value of the header (RFC 7617)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def check_headers(headers: Mapping[str, str], where: str) -> None:
    """Raise InputError for a header that cannot be sent; its value, which may be secret, is not shown."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise InputError(f"{where}: {name!r} has a character that no HTTP header can have; remove it")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered."""

    status: int
    headers: Message
    body: bytes
    complete: bool
    """False: it was longer than what is read."""


class Connection(http.client.HTTPConnection):
    """A connection of which all requests together end by a deadline.

    The time limit of a socket begins again with each byte that arrives. So at the deadline the socket is shut down
    from another thread, which ends whatever waits for it. Only the look-up of a host name has limits of its own
    (/etc/resolv.conf).
    """

    def __init__(self, to: Target, seconds: float, most: int = MOST_OF_AN_ANSWER) -> None:
        super().__init__(to.host, to.port)
        self._most = most
        self._to, self._end, self._is_cut = to, time.monotonic() + seconds, False
        if to.tls is not None:
            self.default_port = http.client.HTTPS_PORT
        self._open: socket.socket | None = None
        self._deadline = threading.Timer(seconds, self.cut)
        self._deadline.daemon = True
        self._deadline.start()

    def left(self) -> float:
        """Seconds until the deadline."""
        return 0.0 if self._is_cut else max(0.0, self._end - time.monotonic())

    def cut(self) -> None:
        """End what is under way; nothing more can be sent."""
        self._is_cut = True
        if (now_open := self._open) is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(now_open, socket.SHUT_RDWR)  # that of an SSLSocket is not for two threads

    def end(self) -> None:
        """Close it for good."""
        self._deadline.cancel()
        self.close()

    def post(self, body: bytes) -> Answer:
        """Raises OSError (TimeoutError at the deadline) and HTTPException."""
        try:
            if self.sock is None:
                self.connect()
            with contextlib.suppress(BrokenPipeError):  # it may have answered before it had read everything
                self.request("POST", self._to.path, body, dict(self._to.headers))
            with self.getresponse() as response:
                received = response.read(self._most + 1)
        except (OSError, http.client.HTTPException):
            self.close()
            if not self.left():
                raise TimeoutError from None
            raise
        if not self.left():
            raise TimeoutError
        complete = len(received) <= self._most
        if not complete:
            self.close()
        return Answer(response.status, response.headers, received[: self._most], complete)

    def connect(self) -> None:
        """To the first address that answers; each gets its share of the time that is left."""
        found = socket.getaddrinfo(self._to.host, self._to.port, type=socket.SOCK_STREAM)
        for index, (family, kind, protocol, _, address) in enumerate(found):
            plain = socket.socket(family, kind, protocol)
            self._watch(plain, shares=len(found) - index)
            try:
                plain.connect(address)
            except OSError:
                plain.close()
                if index == len(found) - 1:
                    raise
            else:
                self.sock = self._secured(plain)
                break

    def _watch(self, one: socket.socket, shares: int = 1) -> None:
        """From now on `cut` ends what this socket does."""
        self._open = one
        left = self.left()
        if not left:
            one.close()
            raise TimeoutError
        one.settimeout(left / shares)

    def _secured(self, plain: socket.socket) -> socket.socket:
        self._watch(plain)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._to.tls is None:
            return plain
        name = self._to.server_name or self._to.host
        secured = self._to.tls.wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
        try:
            self._watch(secured)
            secured.do_handshake()
        except OSError:
            secured.close()
            raise
        return secured
