"""Servers that do all they can to keep a client, or to fill its memory."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MIB = 1 << 20
BOMB = 64 * MIB
GIVES_UP_AFTER = 30.0
"""Seconds: a client that is kept for that long has no deadline."""


@dataclass
class Peer:
    """One connection to a client."""

    socket: socket.socket
    stop: threading.Event

    def read_request(self) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = self.socket.recv(65536)
            if not more:
                raise OSError("gone")
            data += more

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_forever(self, data: bytes, pause: float = 0.0) -> None:
        end = time.monotonic() + GIVES_UP_AFTER
        while not self.stop.wait(pause) and time.monotonic() < end:
            self.send(data)


Hostility = Callable[[Peer], None]


@dataclass
class HostileServer:
    """Where it listens, and how many clients have come."""

    url: str
    clients: list[int] = field(default_factory=list)


@contextmanager
def hostile(do: Hostility, certificate: Path | None = None) -> Iterator[HostileServer]:
    """Serve each client so, in a thread of its own. `certificate`: a folder with the kubelet's, for TLS."""
    stop = threading.Event()
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "kubelet.crt", certificate / "kubelet.key")

    def serve(client: socket.socket) -> None:
        client.settimeout(GIVES_UP_AFTER)
        try:
            with client if context is None else context.wrap_socket(client, server_side=True) as plain:
                do(Peer(plain, stop))
        except OSError:
            pass

    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = HostileServer(f"http{'s' if certificate else ''}://127.0.0.1:{server.getsockname()[1]}")

        def accept() -> None:
            while not stop.is_set():
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                found.clients.append(client.fileno())
                threads.append(threading.Thread(target=serve, args=(client,), daemon=True))
                threads[-1].start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            server.shutdown(socket.SHUT_RDWR)
            for one in (thread, *threads):
                one.join(GIVES_UP_AFTER)


def _answer(*headers: bytes) -> bytes:
    return b"".join(b"%s\r\n" % line for line in (b"HTTP/1.1 200 OK", *headers, b""))


def bomb(times: int) -> bytes:
    """Zeros, packed so many times."""
    pack = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    body = b"".join([*(pack.compress(bytes(MIB)) for _ in range(BOMB // MIB)), pack.flush()])
    for _ in range(times - 1):
        body = gzip.compress(body)
    return body


def _packed(times: int, *coding: bytes) -> Hostility:
    body = bomb(times)

    def do(peer: Peer) -> None:
        peer.read_request()
        peer.send(_answer(*coding, b"Content-Length: %d" % len(body)) + body)

    return do


def _after_request(head: bytes, forever: bytes, pause: float = 0.0) -> Hostility:
    def do(peer: Peer) -> None:
        peer.read_request()
        peer.send(head)
        peer.send_forever(forever, pause)

    return do


def _silent(peer: Peer) -> None:
    peer.stop.wait(GIVES_UP_AFTER)


KEEPING: dict[str, Hostility] = {
    "says nothing": _silent,
    "drips its head": _after_request(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.01),
    "drips its body": _after_request(_answer(b"Content-Length: 1000000"), b"x", 0.01),
    "says to go on": _after_request(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
    "sends trailers": _after_request(_answer(b"Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n", b"X: y\r\n" * 100),
    "drips chunks": _after_request(_answer(b"Transfer-Encoding: chunked"), b"1\r\nx\r\n", 0.01),
    "sends one size of a chunk": _after_request(_answer(b"Transfer-Encoding: chunked") + b"1;x=", b"x", 0.01),
}
"""Until the deadline, without much to read."""

FILLING: dict[str, Hostility] = {
    "packs twice": _packed(2, b"Content-Encoding: gzip, gzip"),
    "packs twice and says so twice": _packed(2, b"Content-Encoding: gzip", b"Content-Encoding: gzip"),
    "packs three times": _packed(3, b"Content-Encoding: gzip, gzip, gzip"),
    "packs zeros": _packed(1, b"Content-Encoding: gzip"),
    "sends a head without end": _after_request(b"HTTP/1.1 200 OK\r\n", b"X: %s\r\n" % (b"x" * 1000)),
    "sends a status without end": _after_request(b"HTTP/1.1 200 ", b"x" * 1000),
    "says to go on without a pause": _after_request(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "says much to go on": _after_request(b"", b"HTTP/1.1 100 Continue\r\nX: %s\r\n\r\n" % (b"x" * 1000)),
    "sends a body without end": _after_request(_answer(), b"x" * 65536),
    "sends chunks without end": _after_request(_answer(b"Transfer-Encoding: chunked"), b"2\r\nxx\r\n" * 10_000),
}
"""More than anybody wants to read."""


def redirecting(server: list[HostileServer]) -> Hostility:
    """To itself, for ever."""

    def do(peer: Peer) -> None:
        peer.read_request()
        peer.send(b"HTTP/1.1 302 Found\r\nLocation: %s/pods\r\nContent-Length: 0\r\n\r\n" % server[0].url.encode())

    return do
