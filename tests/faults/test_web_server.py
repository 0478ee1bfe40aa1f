"""Clients that are silent, slow, wrong or too many cost the others nothing."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest

from agent_process import PATIENCE
from certificates import Authority
from numaudit.errors import InputError
from numaudit.web.auth import Access
from numaudit.web.pages import Request, Response
from numaudit.web.server import Server

BODY = b"x" * 150_000
NEVER = 36_000.0
"""A time-out that no test lives to see: what waits for it fails by its own patience."""


@dataclass
class Echo:
    """Answers everything with the same bytes; `/slow` waits until it may, `/broken` fails."""

    go_on: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> Response:
        if request.path == "/slow":
            self.go_on.wait(PATIENCE)
        if request.path == "/broken":
            raise RuntimeError("a bug")
        return Response(HTTPStatus.OK, "text/plain", BODY)


StartServer = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[StartServer]:
    with contextlib.ExitStack() as stack:

        def started(
            access: Access | None = None, most: int = 8, timeout: float = PATIENCE, site: Echo | None = None
        ) -> Server:
            server = Server(("127.0.0.1", 0), site or Echo(), access or Access(), most, timeout)
            server.start()
            stack.callback(server.stop)
            return server

        yield started


def _get(server: Server, path: str = "/", method: str = "GET", timeout: float = PATIENCE) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def _silent(server: Server, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(count)]


def _threads() -> int:
    return sum(thread.name == "web" for thread in threading.enumerate())


def _eventually(check: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    end = time.monotonic() + seconds
    while not check() and time.monotonic() < end:
        time.sleep(0.02)
    return check()


def test_three_hundred_silent_clients_delay_no_scrape_and_take_no_more_threads_than_allowed(start: StartServer) -> None:
    server = start(most=16, timeout=NEVER)
    silent = _silent(server, 300)
    assert _get(server) == (200, BODY)  # a blocked server would wait for its time-out
    assert _eventually(lambda: _threads() <= 17)
    assert len(server.connections) <= 16
    assert server.connections.evicted >= 300 - 16
    for one in silent:
        one.close()
    assert _eventually(lambda: len(server.connections) == 0)


def test_a_silent_client_is_closed_when_its_time_is_up(start: StartServer) -> None:
    server = start(timeout=0.2)
    (silent,) = _silent(server, 1)
    assert silent.recv(1) == b""
    assert _eventually(lambda: len(server.connections) == 0)


def test_a_client_that_sends_a_byte_now_and_then_is_closed_all_the_same(start: StartServer) -> None:
    server = start(timeout=0.3)
    (slow,) = _silent(server, 1)
    with pytest.raises(OSError):
        for byte in b"GET / HTTP/1.1\r\nX: " + b"y" * 200:
            slow.sendall(bytes([byte]))
            time.sleep(0.1)


def test_a_request_that_is_being_answered_is_never_closed_to_make_room(start: StartServer) -> None:
    echo = Echo()
    server = start(most=4, timeout=NEVER, site=echo)
    found: list[tuple[int, bytes]] = []
    slow = threading.Thread(target=lambda: found.append(_get(server, "/slow")))
    slow.start()
    assert _eventually(lambda: any(one.busy for one in server.connections._open))
    silent = _silent(server, 50)
    assert _get(server) == (200, BODY)
    echo.go_on.set()
    slow.join(PATIENCE)
    assert found == [(200, BODY)]
    for one in silent:
        one.close()


def test_when_every_connection_is_busy_a_new_one_is_closed_at_once(start: StartServer) -> None:
    echo = Echo()
    server = start(most=4, timeout=NEVER, site=echo)
    threads = [threading.Thread(target=_get, args=(server, "/slow")) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert _eventually(lambda: sum(one.busy for one in server.connections._open) == 4)
    (refused,) = _silent(server, 1)
    assert refused.recv(1) == b""
    echo.go_on.set()
    for thread in threads:
        thread.join(PATIENCE)


def test_a_connection_is_used_again_for_the_next_scrape(start: StartServer) -> None:
    server = start(timeout=3)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    for pause in (3.5, 0):  # longer than a request may take
        connection.request("GET", "/")
        assert connection.getresponse().read() == BODY
        time.sleep(pause)
    assert len(server.connections) == 1
    connection.close()


def test_head_is_get_without_the_body(start: StartServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", start().port, timeout=PATIENCE)
    connection.request("HEAD", "/")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Content-Length"], answer.read()) == (200, str(len(BODY)), b"")


@pytest.mark.parametrize("method", ["POST", "DELETE", "CONNECT", "BREW"])
def test_other_methods_are_refused(start: StartServer, method: str) -> None:
    assert _get(start(), method=method)[0] == 501


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"\x16\x03\x01\x02\x00\x01\x00\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /", b"200"),
    ],
)
def test_a_wrong_request_gets_one_answer_and_the_connection_ends(
    start: StartServer, request_bytes: bytes, status: bytes
) -> None:
    (client,) = _silent(start(), 1)
    client.sendall(request_bytes)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            answer += part
    assert status in answer[:500]
    assert answer.count(b"HTTP/1.1 ") <= 1


def test_a_bug_in_a_page_is_an_error_for_its_reader_only(start: StartServer) -> None:
    server = start()
    assert _get(server, "/broken") == (500, b"internal error\n")
    assert _get(server)[0] == 200


def test_stopping_closes_open_connections_and_frees_the_port(start: StartServer) -> None:
    server = start(timeout=NEVER)
    (silent,) = _silent(server, 1)
    port = server.port
    assert _eventually(lambda: len(server.connections) == 1)
    stopping = threading.Thread(target=server.stop, daemon=True)
    stopping.start()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert silent.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_taken_port_is_an_input_error_that_says_what_to_do(start: StartServer) -> None:
    with pytest.raises(InputError, match=r"cannot listen on 127\.0\.0\.1:\d+: .*--listen"):
        Server(("127.0.0.1", start().port), Echo(), Access())


def test_no_host_means_every_address(start: StartServer) -> None:
    server = Server(("", 0), Echo(), Access())
    server.start()
    assert _get(server)[0] == 200
    server.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def _tls_access(authority: Authority, folder: Path, extra: str = "") -> Access:
    certificate, key = authority.issue("localhost", folder)
    path = folder / "web.yaml"
    path.write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n{extra}")
    return Access.by(path)


def _get_tls(server: Server, authority: Authority, client: tuple[Path, Path] | None = None) -> int:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if client is not None:
        context.load_cert_chain(*client)
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=PATIENCE, context=context)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.read() == BODY
    connection.close()
    return answer.status


def test_silent_clients_do_not_stop_tls_scrapes(start: StartServer, authority: Authority, tmp_path: Path) -> None:
    server = start(_tls_access(authority, tmp_path), most=16, timeout=NEVER)
    silent = _silent(server, 100)
    assert _get_tls(server, authority) == 200
    for one in silent:
        one.close()


def test_plain_text_on_a_tls_port_ends_that_connection_only(
    start: StartServer, authority: Authority, tmp_path: Path
) -> None:
    server = start(_tls_access(authority, tmp_path))
    (plain,) = _silent(server, 1)
    plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        assert b"200" not in plain.recv(100)
    assert _get_tls(server, authority) == 200


def test_only_certificates_with_an_allowed_name_get_in(
    start: StartServer, authority: Authority, tmp_path: Path
) -> None:
    extra = (
        f"  client_ca_file: {authority.certificate}\n  client_auth_type: RequireAndVerifyClientCert\n"
        "  client_allowed_sans: [prometheus]\n"
    )
    server = start(_tls_access(authority, tmp_path, extra))
    assert _get_tls(server, authority, authority.issue("prometheus", tmp_path)) == 200
    for client in (None, authority.issue("stranger", tmp_path)):
        with pytest.raises((OSError, http.client.HTTPException)):
            _get_tls(server, authority, client)


def test_a_renewed_certificate_is_served_without_a_restart(
    start: StartServer, authority: Authority, tmp_path: Path
) -> None:
    server = start(_tls_access(authority, tmp_path))

    def serial() -> str:
        return ssl.get_server_certificate(("127.0.0.1", server.port))

    first = serial()
    authority.issue("localhost", tmp_path)
    assert serial() != first
    assert _get_tls(server, authority) == 200
