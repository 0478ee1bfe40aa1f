"""An OTLP receiver for tests that can misbehave in every way the protocol knows."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)


@dataclass(frozen=True)
class Answer:
    """How one request is answered."""

    status: int = 200
    retry_after: str | None = None
    reset: bool = False
    """End the connection without an answer."""
    hangs: bool = False
    """No answer before the receiver ends."""
    rejected: int = 0
    """Points of a partial success."""
    body: bytes | None = None
    """Instead of an ExportMetricsServiceResponse."""
    headers: tuple[tuple[str, str], ...] = ()
    """More of them; one of these names wins."""
    drips: bool = False
    """The body comes byte by byte, without end."""
    drips_headers: bool = False
    """The headers come byte by byte, without end."""
    endless: bool = False
    """The body has no end, and comes as fast as it is taken."""


class OtlpReceiver(ThreadingHTTPServer):
    """Takes pushes on a port of the loopback interface; 0 = a free one."""

    daemon_threads = True

    def __init__(self, port: int = 0, keeps: int | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.keeps = keeps
        """Requests kept at most; None = all."""
        self.answers: list[Answer] = []
        """For the next requests; then all are taken."""
        self.requests: list[ExportMetricsServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.got_one, self.got_two, self.ending = threading.Event(), threading.Event(), threading.Event()
        self.clients: set[object] = set()
        """The address of each connection so far."""
        self.arrived: list[float] = []
        """When each request was complete, by the monotonic clock."""
        self.connections: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/v1/metrics"

    def points(self, request: int = -1) -> dict[tuple[str, frozenset[tuple[str, object]]], float]:
        """(instrument, attributes) -> value of one request."""
        found: dict[tuple[str, frozenset[tuple[str, object]]], float] = {}
        for metric in self.requests[request].resource_metrics[0].scope_metrics[0].metrics:
            data = metric.sum if metric.HasField("sum") else metric.gauge
            for point in data.data_points:
                labels = frozenset(
                    (one.key, one.value.int_value if one.value.HasField("int_value") else one.value.string_value)
                    for one in point.attributes
                )
                found[metric.name, labels] = point.as_int if point.HasField("as_int") else point.as_double
        return found

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        self.shutdown()
        self.server_close()
        for connection in list(self.connections):  # clients keep theirs open for the next push
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        receiver = cast("OtlpReceiver", self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer = receiver.answers.pop(0) if receiver.answers else Answer()
        if receiver.keeps is None or len(receiver.requests) < receiver.keeps:
            receiver.requests.append(ExportMetricsServiceRequest.FromString(body))
        receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
        receiver.clients.add(self.client_address)
        receiver.arrived.append(time.monotonic())
        (receiver.got_two if receiver.got_one.is_set() else receiver.got_one).set()
        if answer.hangs:
            receiver.ending.wait()
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        self._reply(answer)

    def _drip(self) -> None:
        while not cast("OtlpReceiver", self.server).ending.wait(0.02):
            self.wfile.write(b"x")

    def _reply(self, answer: Answer) -> None:
        if answer.drips_headers:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
            self._drip()
            return
        response = ExportMetricsServiceResponse()
        response.partial_success.rejected_data_points = answer.rejected
        body = response.SerializeToString() if answer.body is None else answer.body
        headers = {"Content-Type": "application/x-protobuf", **dict(answer.headers)}
        if not (answer.drips or answer.endless):
            headers["Content-Length"] = str(len(body))
        if answer.retry_after is not None:
            headers["Retry-After"] = answer.retry_after
        self.send_response(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if answer.drips:
            self._drip()
        while answer.endless:
            self.wfile.write(bytes(1 << 20))

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle(self) -> None:
        connections = cast("OtlpReceiver", self.server).connections
        connections.add(self.connection)
        with contextlib.suppress(OSError):  # the client has gone
            super().handle()
        connections.discard(self.connection)
