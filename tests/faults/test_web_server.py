"""Clients that are silent, slow, wrong or too many cost the others nothing."""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import bcrypt
import pytest

from numaudit.daemon.web.auth import AccessRules
from numaudit.daemon.web.connections import Connections
from numaudit.daemon.web.conversation import Site
from numaudit.daemon.web.pages import AgentSite, Health, Request, Response
from numaudit.daemon.web.server import Server
from numaudit.errors import InputError
from numaudit.exporters.exposition import Exposition
from numaudit.exporters.prometheus import MetricPages
from processes.agent_process import PATIENCE
from processes.certificates import Authority

BODY = b"x" * 150_000
LARGE = bytes(50_000_000)
NEVER = 36_000.0
"""A time-out that no test lives to see: what waits for it fails by its own patience."""


@dataclass
class Echo:
    """Answers everything with the same bytes; `/slow` waits until it may, `/broken` fails."""

    go_on: threading.Event = field(default_factory=threading.Event)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def answer(self, request: Request) -> Response:
        if request.path == "/slow":
            self.go_on.wait(PATIENCE)
        if request.path == "/known":
            return Response(HTTPStatus.NOT_MODIFIED, "text/plain", (), (("ETag", '"a"'),))
        if request.path == "/large":
            return Response(HTTPStatus.OK, "text/plain", (LARGE,))
        if request.path == "/broken":
            raise RuntimeError("a bug")
        return Response(HTTPStatus.OK, "text/plain", (BODY,))

    def count(self, path: str, status: HTTPStatus) -> None:
        self.answers[path, status.value] += 1


StartServer = Callable[..., Server]


@pytest.fixture
def start() -> Iterator[StartServer]:
    with contextlib.ExitStack() as stack:

        def started(
            access: AccessRules | None = None, most: int = 8, timeout: float = PATIENCE, site: Site | None = None
        ) -> Server:
            server = Server(("127.0.0.1", 0), site or Echo(), access or AccessRules(), Connections(most), timeout)
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


def test_a_client_that_sends_a_byte_now_and_then_is_closed_when_its_time_is_up(start: StartServer) -> None:
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
    assert _eventually(lambda: any(one.answering for one in server.connections._open))
    silent = _silent(server, 50)
    assert _get(server) == (200, BODY)
    echo.go_on.set()
    slow.join(PATIENCE)
    assert found == [(200, BODY)]
    for one in silent:
        one.close()


def test_who_comes_while_every_slot_is_being_answered_is_closed_and_gets_in_when_one_ends(start: StartServer) -> None:
    echo = Echo()
    server = start(most=4, timeout=NEVER, site=echo)
    threads = [threading.Thread(target=_get, args=(server, "/slow")) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert _eventually(lambda: sum(one.answering for one in server.connections._open) == 4)
    with pytest.raises((OSError, http.client.HTTPException)):
        _get(server)
    echo.go_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert _get(server) == (200, BODY)
    assert sum(echo.answers.values()) == 5


def _never_reading(server: Server, count: int, path: str = "/large") -> list[socket.socket]:
    """Clients that ask for more than their and the server's buffers hold, and leave it there."""
    clients = []
    for _ in range(count):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE)
        client.connect(("127.0.0.1", server.port))
        with contextlib.suppress(OSError):  # closed for a newer one already
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        clients.append(client)
    return clients


def test_clients_that_never_read_their_answer_lose_their_place_to_others(start: StartServer) -> None:
    server = start(most=8, timeout=NEVER)
    clients = _never_reading(server, 40)
    for _ in range(40):
        assert _get(server, "/-/healthy")[0] == 200
    assert _get(server) == (200, BODY)
    for one in clients:
        one.close()


def test_a_client_that_reads_a_byte_now_and_then_is_closed_when_its_time_is_up(start: StartServer) -> None:
    server = start(timeout=0.3)
    (slow,) = _never_reading(server, 1)
    assert _eventually(lambda: len(server.connections) == 1)
    end = time.monotonic() + PATIENCE
    while len(server.connections) and time.monotonic() < end:
        slow.recv(1)
        time.sleep(0.05)
    assert len(server.connections) == 0
    slow.close()


def test_a_connection_is_used_again_for_the_next_scrape(start: StartServer) -> None:
    server = start(timeout=3)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    for pause in (3.5, 0):  # longer than a request may take
        connection.request("GET", "/")
        assert connection.getresponse().read() == BODY
        time.sleep(pause)
    assert len(server.connections) == 1
    connection.close()


def test_the_connection_that_has_been_idle_longest_is_closed_for_a_newer_one(start: StartServer) -> None:
    server = start(most=4, timeout=NEVER)
    oldest, used, other = (_silent(server, 1)[0] for _ in range(3))
    assert _eventually(lambda: len(server.connections) == 3)
    used.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert used.recv(8) == b"HTTP/1.1"
    newer = _silent(server, 2)
    oldest.settimeout(PATIENCE)
    assert oldest.recv(1) == b""
    assert _eventually(lambda: server.connections.evicted == 1)
    for one in (oldest, used, other, *newer):
        one.close()


@pytest.mark.quiet
def test_an_answer_without_news_has_no_length_of_a_body_and_makes_nobody_wait(start: StartServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", start().port, timeout=PATIENCE)
    begun = time.monotonic()
    for _ in range(200):  # 50 s, if each were followed by the wait after an error
        connection.request("GET", "/known")
        answer = connection.getresponse()
        assert (answer.status, answer.headers["ETag"], answer.read()) == (304, '"a"', b"")
        assert not set(answer.headers) & {"Content-Length", "Content-Type", "Transfer-Encoding"}
    assert time.monotonic() - begun < 40
    connection.close()


HOST = b"Host: a\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 200 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 33_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X%d: " % i + b"y" * 65_000 + b"\r\n" for i in range(99)), 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"\x16\x03\x01\x02\x00\x01\x00\n", 400),
        (b"GET / HTTP/9.9\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/0.9\r\n\r\n", 505),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b" X: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nGET /", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nGET /", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: five\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: odd\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nGET /", 200),
    ],
)
def test_a_wrong_request_gets_one_answer_with_every_header_and_the_connection_ends(
    start: StartServer, tmp_path: Path, request_bytes: bytes, status: int
) -> None:
    (tmp_path / "web.yaml").write_text("http_server_config: {headers: {X-Frame-Options: deny}}\n")
    echo = Echo()
    (client,) = _silent(start(AccessRules.by(tmp_path / "web.yaml"), site=echo), 1)
    with contextlib.suppress(OSError):  # the server need not take all of it
        client.sendall(request_bytes)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nX-Frame-Options: deny\r\n" in answer
    assert b"\r\nConnection: close\r\n" in answer
    assert sum(count for (_, code), count in echo.answers.items() if code == status) == 1


def test_requests_that_were_sent_together_are_answered_in_order(start: StartServer) -> None:
    (client,) = _silent(start(), 1)
    client.sendall(b"HEAD /-/healthy HTTP/1.1\r\nHost: a\r\n\r\nGET /broken HTTP/1.0\r\n\r\n")
    answer = b""
    while part := client.recv(65536):
        answer += part
    assert [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/")] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 500 Internal Server Error",
    ]


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
        Server(("127.0.0.1", start().port), Echo(), AccessRules(), Connections(8))


def test_no_host_means_every_address(start: StartServer) -> None:
    server = Server(("", 0), Echo(), AccessRules(), Connections(8))
    server.start()
    assert _get(server)[0] == 200
    server.stop()


USERS = f"basic_auth_users: {{ali: {bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}}}\n"


@pytest.mark.parametrize(
    ("host", "config", "warns"),
    [
        ("", "", True),
        ("0.0.0.0", "", True),
        ("127.0.0.1", "", False),
        ("localhost", "", False),
        ("", USERS, False),
        ("", "http_server_config: {headers: {X-Frame-Options: deny}}\n", True),
    ],
    ids=["any", "any-v4", "loopback", "localhost", "users", "headers"],
)
def test_an_address_that_others_reach_without_a_password_is_warned_of(
    tmp_path: Path, host: str, config: str, warns: bool
) -> None:
    (tmp_path / "web.yaml").write_text(config)
    with Server((host, 0), Echo(), AccessRules.by(tmp_path / "web.yaml"), Connections(8)) as server:
        exposure = server.exposure()
    assert (exposure is not None) == warns
    if exposure is not None:
        assert all(word in exposure for word in ("pods and namespaces", "cgroup paths", "kubelet", "findings"))
        assert "set web.config_file" in exposure


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def _tls_access(authority: Authority, folder: Path, extra: str = "") -> AccessRules:
    certificate, key = authority.issue("localhost", folder)
    path = folder / "web.yaml"
    path.write_text(f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n{extra}")
    return AccessRules.by(path)


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


def test_plain_text_on_a_tls_port_ends_that_connection_only(
    start: StartServer, authority: Authority, tmp_path: Path
) -> None:
    server = start(_tls_access(authority, tmp_path))
    (plain,) = _silent(server, 1)
    plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        assert b"200" not in plain.recv(100)
    assert _get_tls(server, authority) == 200


@pytest.mark.parametrize(("auth", "warns"), [("NoClientCert", True), ("RequireAndVerifyClientCert", False)])
def test_tls_alone_keeps_no_stranger_out(authority: Authority, tmp_path: Path, auth: str, warns: bool) -> None:
    extra = f"  client_ca_file: {authority.certificate}\n  client_auth_type: {auth}\n"
    with Server(("", 0), Echo(), _tls_access(authority, tmp_path, extra), Connections(8)) as server:
        assert (server.exposure() is not None) == warns


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


def _kept_alive(
    server: Server, authority: Authority, client: tuple[Path, Path] | None = None
) -> http.client.HTTPSConnection:
    """A connection that has made a request and never connects again by itself."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if client is not None:
        context.load_cert_chain(*client)
    connection = http.client.HTTPSConnection("localhost", server.port, timeout=PATIENCE, context=context)
    connection.request("GET", "/")
    assert connection.getresponse().read() == BODY
    connection.auto_open = False
    return connection


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[prometheus]", "[somebody]"),
        ("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"),
        ("ca.pem", "other.pem"),
    ],
)
def test_a_connection_made_under_old_rules_ends_at_its_next_request(
    start: StartServer, authority: Authority, tmp_path: Path, old: str, new: str
) -> None:
    (tmp_path / "other.pem").write_bytes(Authority(tmp_path).certificate.read_bytes())
    (tmp_path / "ca.pem").write_bytes(authority.certificate.read_bytes())
    extra = (
        f"  client_ca_file: {tmp_path}/ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
        "  client_allowed_sans: [prometheus]\n"
    )
    access = _tls_access(authority, tmp_path, extra)
    connection = _kept_alive(start(access), authority, authority.issue("prometheus", tmp_path))
    text = (tmp_path / "web.yaml").read_text().replace(old, new)
    if new == "VerifyClientCertIfGiven":
        text = text.replace("[prometheus]", "[]")
    (tmp_path / "web.yaml").write_text(text)
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.request("GET", "/")
        connection.getresponse()
    assert access.valid


def test_a_renewed_certificate_of_the_server_ends_no_connection(
    start: StartServer, authority: Authority, tmp_path: Path
) -> None:
    connection = _kept_alive(start(_tls_access(authority, tmp_path)), authority)
    authority.issue("localhost", tmp_path)
    connection.request("GET", "/")
    assert connection.getresponse().read() == BODY


def test_a_connection_in_the_clear_ends_when_tls_is_turned_on(
    start: StartServer, authority: Authority, tmp_path: Path
) -> None:
    _tls_access(authority, tmp_path)
    text = (tmp_path / "web.yaml").read_text()
    (tmp_path / "web.yaml").write_text("")
    server = start(AccessRules.by(tmp_path / "web.yaml"))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.request("GET", "/")
    assert connection.getresponse().read() == BODY
    connection.auto_open = False
    (tmp_path / "web.yaml").write_text(text)
    with pytest.raises((OSError, http.client.HTTPException)):
        connection.request("GET", "/")
        connection.getresponse()
    assert _get_tls(server, authority) == 200


def test_a_removed_user_is_refused_at_the_next_request_of_the_same_connection(
    start: StartServer, tmp_path: Path
) -> None:
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    path = tmp_path / "web.yaml"
    path.write_text(f"basic_auth_users: {{ali: {hashed}, baba: {hashed}}}\n")
    access = AccessRules.by(path)
    pages = MetricPages(Exposition)
    pages.publish(Exposition())
    site = AgentSite(pages, lambda: None, lambda: True, lambda: Health(True, "ok"), lambda: Health(True, "ok"), access)
    connection = http.client.HTTPConnection("127.0.0.1", start(access, site=site).port, timeout=PATIENCE)
    headers = {"Authorization": "Basic " + base64.b64encode(b"ali:sesame").decode()}
    statuses = []
    for users in (f"{{ali: {hashed}, baba: {hashed}}}", f"{{baba: {hashed}}}"):
        path.write_text(f"basic_auth_users: {users}\n")
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        answer.read()
        connection.auto_open = False
        statuses.append(answer.status)
    assert statuses == [200, 401]
