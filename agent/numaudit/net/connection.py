"""An HTTP connection of which everything ends in time and has a limit, however the server behaves."""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import select
import socket
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from email.message import Message
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from numaudit.net.target import Target

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer


MOST_OF_AN_ANSWER = 64 << 10
"""Bytes of an answer that are read where nobody expects more than a few words."""
MOST_OF_A_HEAD = 64 << 10
"""Bytes of status line and headers, with those of every interim answer (1xx) before them."""
_AT_ONCE = 64 << 10

_Addresses = Sequence[tuple[int, int, int, str, Any]]
"""As getaddrinfo gives them."""


class NotUnderstood(http.client.HTTPException):
    """An answer that cannot be read."""


class TooLarge(NotUnderstood):
    """An answer that is larger than the limit."""


class HttpAnswer(Struct, frozen=True):
    """Answer of a server."""

    status: int
    headers: Message
    body: bytes
    complete: bool
    """False: it was longer than what is read."""

    def unpacked(self, most: int) -> bytes:
        """The body without its compression, which is none or gzip, once.

        Raises TooLarge for more than `most` bytes, and NotUnderstood for what is not such a body.
        """
        if not self.complete:
            raise TooLarge(f"the answer is larger than {most} bytes")
        coding = ", ".join(self.headers.get_all("Content-Encoding", ())).strip().lower()
        if coding in ("", "identity"):
            return self.body
        if coding not in ("gzip", "x-gzip"):
            raise NotUnderstood(f"the answer is encoded as {coding[:60]!r}, which the request did not accept")
        unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            body = unpack.decompress(self.body, most + 1)
        except zlib.error as error:
            raise NotUnderstood(f"the answer cannot be decompressed: {error}") from None
        if len(body) > most:
            raise TooLarge(f"the answer is larger than {most} bytes")
        if not unpack.eof:
            raise NotUnderstood("the answer cannot be decompressed: it ends too early")
        return body


class Connection(http.client.HTTPConnection):
    """A connection of which all requests together end by a deadline: look-up, TLS, head and body.

    The time limit of a socket begins again with each byte that arrives, so it is set to what is left before each read.
    Not safe for threads, but for `cut`.
    """

    def __init__(self, to: Target, seconds: float) -> None:
        """Raises HTTPException for a host that no URL can have."""
        super().__init__(to.host, to.port)
        if to.tls is not None:
            self.default_port = http.client.HTTPS_PORT
        self._to, self._is_cut = to, False
        self._open: socket.socket | None = None
        self._found: SimpleQueue[_Addresses | OSError] = SimpleQueue()
        self._head_left: int | None = None
        """Bytes that the head may still have; None = it has ended."""
        self.end_within(seconds)

    def end_within(self, seconds: float) -> None:
        """A new deadline."""
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until the deadline."""
        return 0.0 if self._is_cut else max(0.0, self._end - time.monotonic())

    def cut(self) -> None:
        """End what is under way, from any thread; nothing more can be sent."""
        self._is_cut = True
        self._found.put(TimeoutError())
        if (now_open := self._open) is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(now_open, socket.SHUT_RDWR)  # that of an SSLSocket is not for two threads

    def post(self, body: bytes, most: int = MOST_OF_AN_ANSWER) -> HttpAnswer:
        """`most`: bytes of its body that are read. Raises OSError (TimeoutError at the deadline) and HTTPException."""
        return self.ask("POST", self._to.path, body, {}, most)

    def get(self, path: str, headers: Mapping[str, str], most: int) -> HttpAnswer:
        """With these headers beside the target's. Raises as `post`."""
        return self.ask("GET", path, None, headers, most)

    def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], most: int) -> HttpAnswer:
        """After a failure the next request makes a new connection."""
        answer = None
        try:
            if self.sock is not None and self._is_ended_by_the_server():
                self.close()
            if self.sock is None:
                self.connect()
            with contextlib.suppress(BrokenPipeError):  # it may have answered before it had read everything
                self.request(method, path, body, {**self._to.headers, **headers})
            answer = self._answer(most)
        except (OSError, http.client.HTTPException):
            if not self.left():
                raise TimeoutError from None
            raise
        finally:
            if answer is None or not answer.complete:
                self.close()
        return answer

    def _answer(self, most: int) -> HttpAnswer:
        self._head_left = MOST_OF_A_HEAD
        with self.getresponse() as response:
            self._head_left = None
            body = io.BytesIO()
            part = memoryview(bytearray(_AT_ONCE))
            while size := response.readinto(part[: min(_AT_ONCE, most + 1 - body.tell())]):
                body.write(part[:size])
            if response.length and body.tell() <= most:
                raise NotUnderstood("the answer ends too early")
            complete = body.tell() <= most
            body.truncate(most)
            return HttpAnswer(response.status, response.headers, body.getvalue(), complete)

    def came(self, size: int) -> None:
        """Bytes were read. Raises TooLarge while they are of a head without end."""
        if self._head_left is not None:
            self._head_left -= size
            if self._head_left < 0:
                raise TooLarge(f"the head of its answer is larger than {MOST_OF_A_HEAD} bytes")

    def connect(self) -> None:
        """To the first address that answers; each gets its share of the time that is left."""
        found = self._addresses()
        for index, (family, kind, protocol, _, address) in enumerate(found):
            plain = socket.socket(family, kind, protocol)
            try:
                self.watch(plain, shares=len(found) - index)
                plain.connect(address)
            except OSError:
                plain.close()
                if index == len(found) - 1:
                    raise
            else:
                self.sock = cast("socket.socket", _Wire(self._secured(plain), self))
                break

    def watch(self, one: socket.socket, shares: int = 1) -> None:
        """The next operation of this socket ends in time, and `cut` ends it. Raises TimeoutError when none is left."""
        self._open = one
        left = self.left()
        if not left:
            raise TimeoutError
        one.settimeout(left / shares)

    def _addresses(self) -> _Addresses:
        """A name is looked up by a thread, since nothing ends that but the resolver's own limits."""
        host, port = self._to.host, self._to.port
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(host.partition("%")[0])
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found: SimpleQueue[_Addresses | OSError] = SimpleQueue()
        self._found = found

        def look_up() -> None:
            try:
                found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except OSError as error:
                found.put(error)
            except UnicodeError as error:
                found.put(OSError(f"{host[:60]!r} is no name of a host: {error}"))

        try:
            threading.Thread(target=look_up, name="look-up", daemon=True).start()
        except RuntimeError as error:
            raise OSError(f"{host} cannot be looked up: {error}") from None
        try:
            addresses = found.get(timeout=self.left())
        except Empty:
            raise TimeoutError from None
        if isinstance(addresses, OSError):
            raise addresses
        return addresses

    def _secured(self, plain: socket.socket) -> socket.socket:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._to.tls is None:
            return plain
        secured = self._to.tls.wrap_socket(plain, server_hostname=self._to.host, do_handshake_on_connect=False)
        try:
            self.watch(secured)
            secured.do_handshake()
        except OSError:
            secured.close()
            raise
        return secured

    def _is_ended_by_the_server(self) -> bool:
        """Between two requests a server says nothing; what can be read is the end of the connection."""
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))


class _Wire:
    """The socket as http.client uses it. Each operation has the time that the connection has left."""

    def __init__(self, socket_: socket.socket, of: Connection) -> None:
        self._socket, self._of = socket_, of

    def sendall(self, data: ReadableBuffer) -> None:
        left = memoryview(data).cast("B")
        while left:
            self._of.watch(self._socket)
            left = left[self._socket.send(left) :]

    def makefile(self, _: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._socket, self._of))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class _Reader(io.RawIOBase):
    """Reader of arriving bytes. It keeps the socket open until it is closed itself, as the file of a socket does."""

    def __init__(self, socket_: socket.socket, of: Connection) -> None:
        super().__init__()
        self._socket, self._of = socket_, of
        self._file = socket_.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        self._of.watch(self._socket)
        size = self._file.readinto(buffer) or 0
        self._of.came(size)
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


class LocalConnection(Connection):
    """A connection to a Unix socket, with the same limits as any other."""

    def __init__(self, at: Path, seconds: float) -> None:
        super().__init__(Target("localhost", 80, "/", {"Accept-Encoding": "gzip"}, None), seconds)
        self._at = at

    def _addresses(self) -> list[tuple[int, int, int, str, Any]]:
        return [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", str(self._at))]

    def _secured(self, plain: socket.socket) -> socket.socket:
        return plain
