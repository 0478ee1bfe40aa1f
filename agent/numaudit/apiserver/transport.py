"""HTTP for the API client by our own connection: one deadline for an answer however it comes, and a limit of its size.

Time limits of httpx begin again with each byte, and it reads a body of any size.
"""

from __future__ import annotations

import http.client
import logging
import ssl
from dataclasses import dataclass
from http import HTTPStatus

import httpx2
import msgspec

from numaudit.apiserver.failures import ApiFailure, Reason, refused
from numaudit.net.connection import Connection, HttpAnswer
from numaudit.net.target import Target

LARGEST_ANSWER = 4 << 20
"""Bytes. etcd takes 1.5 MiB of an object."""
_NOT_OURS = ("accept-encoding", "connection")
"""Headers of httpx that promise what is not kept here."""
logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request, and the agent logs what changes


@dataclass(slots=True, eq=False)
class BoundedTransport(httpx2.BaseTransport):
    """Sends each request by one connection. Whatever is not a 2xx answer with a JSON object raises ApiFailure."""

    tls: ssl.SSLContext | None
    """None = the server speaks plain HTTP."""
    server_name: str | None
    """That the server's certificate must have; None = the host."""
    seconds: float
    """For one request, with its connection, head and body."""
    _connection: Connection | None = None
    _is_cut: bool = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.raw_path.decode("ascii")
        what = f"{request.method} {request.url.copy_with(query=None, userinfo=b'')}"
        headers = {name: value for name, value in request.headers.items() if name not in _NOT_OURS}
        try:
            connection = self._to(request.url)
            connection.end_within(self.seconds)
            answer = connection.ask(request.method, path, request.read() or None, headers, LARGEST_ANSWER)
        except TimeoutError:
            raise ApiFailure(Reason.TIMEOUT, f"{what}: no complete answer within {self.seconds:g} s") from None
        except ssl.SSLCertVerificationError as error:
            why = f"{what}: the server's certificate is not trusted: {error.verify_message}"
            message = f"{why}; check the CA of the cluster, and this host's clock"
            raise ApiFailure(Reason.CONNECTION, message) from None
        except (OSError, http.client.HTTPException) as error:
            reason = Reason.CONNECTION if isinstance(error, OSError) else Reason.BROKEN
            raise ApiFailure(reason, f"{what}: {_words(error)}") from None
        if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
            raise refused(what, answer.status, answer.headers, answer.body)
        return httpx2.Response(
            answer.status, headers={"Content-Type": "application/json"}, content=_checked(what, answer)
        )

    def cut(self) -> None:
        """End what is under way, from any thread."""
        self._is_cut = True
        if (connection := self._connection) is not None:
            connection.cut()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _to(self, url: httpx2.URL) -> Connection:
        if self._connection is None:
            is_secure = url.scheme == "https"
            port = url.port or (443 if is_secure else 80)
            target = Target(url.host, port, "/", {}, self.tls if is_secure else None, self.server_name)
            self._connection = Connection(target, self.seconds)
        if self._is_cut:
            self._connection.cut()
        return self._connection


def _checked(what: str, answer: HttpAnswer) -> bytes:
    """The body of an answer that is an object. Raises ApiFailure."""
    if not answer.complete:
        message = f"{what}: the answer is larger than {LARGEST_ANSWER} bytes; is it an API server?"
        raise ApiFailure(Reason.BROKEN, message)
    try:
        found = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ApiFailure(Reason.BROKEN, f"{what}: the answer is no JSON: {error}; is it an API server?") from None
    if not isinstance(found, dict):
        raise ApiFailure(Reason.BROKEN, f"{what}: the answer is no object; is it an API server?")
    return answer.body


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
