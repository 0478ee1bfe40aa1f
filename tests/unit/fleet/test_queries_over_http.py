"""Queries over HTTP: what goes wrong there is said, and nothing lasts longer or grows larger than it may."""

from __future__ import annotations

import gzip
import os
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from kubelets.http import serving
from monitoring.fleet_nodes import vector
from numaudit.errors import InputError, Unavailable
from numaudit.fleet import answers
from numaudit.fleet import prometheus as module
from numaudit.fleet.answers import Reply, read_vector
from numaudit.fleet.http_config import HttpConfig, read_http_config
from numaudit.fleet.prometheus import connected
from processes.certificates import Authority
from processes.hostile_http import FILLING, KEEPING, MIB, hostile

TIME = 2.0
"""Seconds, of which a busy machine may take some."""
NOW = b'{"status":"success","data":{"resultType":"scalar","result":[1700000000.5,"1700000000.5"]}}'
ONE = vector([{"metric": {"__name__": "up", "instance": "a"}, "value": [1700000000.5, "1"]}])


class FakePrometheus:
    """Answers the question for the time as it should, and others as a test says."""

    def __init__(self, body: bytes = ONE, status: int = 200, **headers: str) -> None:
        self.body, self.status, self.headers = body, status, headers
        self.asked: list[dict[str, list[str]]] = []
        self.sent: list[dict[str, str]] = []
        self.paths: list[str] = []

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        form = parse_qs(request.rfile.read(int(request.headers["Content-Length"])).decode())
        self.asked.append(form)
        self.sent.append(dict(request.headers))
        self.paths.append(request.path)
        is_time = form["query"] == ["time()"]
        body = NOW if is_time else self.body
        request.send_response(200 if is_time else self.status)
        for name, value in ({} if is_time else self.headers).items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def ask(url: str, config: HttpConfig | None = None, timeout: float = 60) -> list[str]:
    with connected(url, config or HttpConfig(), timeout) as prometheus:
        return [one.label("instance") for one in prometheus.vector("up")]


def test_all_queries_are_of_one_moment_of_the_servers_clock() -> None:
    fake = FakePrometheus()
    with serving(fake) as url, connected(url, HttpConfig(), 60) as prometheus:
        assert [one.value for one in prometheus.vector("up")] == [1.0]
        prometheus.vector("down")
        assert prometheus.at == 1700000000.5
        assert prometheus.where == url
    assert [form.get("time") for form in fake.asked] == [None, ["1700000000.5"], ["1700000000.5"]]
    assert [form["query"] for form in fake.asked] == [["time()"], ["up"], ["down"]]


@pytest.mark.parametrize("path", ["", "/", "/select/0/prometheus", "/select/0/prometheus/"])
def test_a_path_prefix_is_kept(path: str) -> None:
    fake = FakePrometheus()
    with serving(fake) as url:
        ask(url + path)
    assert set(fake.paths) == {f"{path.rstrip('/')}/api/v1/query"}


def test_user_and_password_of_the_url_are_sent_and_never_shown() -> None:
    fake = FakePrometheus(b"", 403)
    with serving(fake) as url, pytest.raises(Unavailable) as raised:
        ask(url.replace("//", "//me:s3cret@"))
    assert fake.sent[0]["Authorization"] == "Basic bWU6czNjcmV0"
    assert "s3cret" not in str(raised.value)
    assert "me" not in str(raised.value).split(": ")[0]


def test_a_url_and_settings_that_both_name_who_asks_are_refused() -> None:
    with pytest.raises(InputError, match="both give a user"):
        ask("http://me:secret@127.0.0.1:1", HttpConfig({"Authorization": "Bearer x"}))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "prometheus:9090",
        "/prometheus",
        "ftp://host",
        "http://",
        "http://h:99999",
        "http://me:s3cret@",
        "http://h:x",
    ],
)
def test_what_is_no_url_is_a_usage_error(url: str) -> None:
    with pytest.raises(InputError, match="not the URL of a server") as raised:
        ask(url)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        (FakePrometheus(b"", 401), "401: it wants to know who asks; give --http.config.file"),
        (FakePrometheus(b"", 403), "403: whoever asks may not query"),
        (FakePrometheus(b"404 page not found", 404), "404: there is no /api/v1/query; is a path prefix missing"),
        (FakePrometheus(b"", 302, Location="http://login"), "302: it redirects"),
        (FakePrometheus(b"", 503), "the server answered with status 503"),
        (
            FakePrometheus(b'{"status":"error","errorType":"bad_data","error":"parse error at char 3"}', 400),
            "400: the query was refused; it says bad_data: parse error at char 3",
        ),
        (
            FakePrometheus(b'{"status":"error","errorType":"timeout","error":"query timed out"}', 503),
            "503; it says timeout: query timed out",
        ),
        (
            FakePrometheus(b"<!DOCTYPE html><html><body>Sign in</body></html>"),
            "not that of Prometheus' HTTP API but a web page",
        ),
        (FakePrometheus(b'{"hello": "world"}'), "not that of Prometheus' HTTP API"),
        (FakePrometheus(b"\xff\xfe\x00"), "not that of Prometheus' HTTP API"),
        (FakePrometheus(b'{"status":"success","data":{"resultType":"matrix","result":[]}}'), "not that of Prometheus'"),
        (FakePrometheus(b"not gzip", Content_Encoding="gzip"), "cannot be decompressed"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_a_server_answers_instead_is_said(fake: FakePrometheus, said: str) -> None:
    with serving(fake) as url, pytest.raises(Unavailable) as raised:
        ask(url)
    assert str(raised.value).startswith(f"{url}: ")
    assert said in str(raised.value)


def test_an_answer_may_be_packed() -> None:
    with serving(FakePrometheus(gzip.compress(ONE), Content_Encoding="gzip")) as url:
        assert ask(url) == ["a"]


@pytest.mark.parametrize("is_packed", [False, True])
def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, is_packed: bool) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWER", 1 << 20)
    body = vector([{"metric": {"a": "x" * (2 << 20)}, "value": [0, "1"]}])
    fake = FakePrometheus(gzip.compress(body), Content_Encoding="gzip") if is_packed else FakePrometheus(body)
    with serving(fake) as url, pytest.raises(Unavailable, match="larger than 1 MiB; --selector"):
        ask(url)


def test_an_answer_of_too_many_series_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_SAMPLES", 100)
    one = {"metric": {"instance": "a"}, "value": [0, "1"]}
    for many, is_read in ((100, True), (200, False)):
        with serving(FakePrometheus(vector([one] * many))) as url:
            if is_read:
                assert len(ask(url)) == many
            else:
                with pytest.raises(Unavailable, match="more than 100 series; --selector or --namespace"):
                    ask(url)


def test_the_time_to_read_an_answer_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(body: bytes) -> Reply:
        time.sleep(TIME)
        return read_vector(body)

    monkeypatch.setattr(module, "read_vector", slow)
    with serving(FakePrometheus()) as url, pytest.raises(Unavailable, match=f"no answer within {TIME:g} s"):
        ask(url, timeout=TIME)


@pytest.mark.parametrize("how", [*KEEPING, *FILLING])
def test_a_hostile_server_takes_neither_time_nor_memory(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWER", MIB)
    with hostile({**KEEPING, **FILLING}[how]) as server:
        tracemalloc.start()
        try:
            begun = time.monotonic()
            with pytest.raises(Unavailable):
                ask(server.url, timeout=0.3)
            assert time.monotonic() - begun < 10
            assert tracemalloc.get_traced_memory()[1] < 8 * MIB
        finally:
            tracemalloc.stop()


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server that sends a header forever, a letter at a time."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stop.wait(0.01):
                    try:
                        peer.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stop.set()
        thread.join()


def test_a_server_that_never_comes_to_an_end_is_given_up(dripping: str) -> None:
    with pytest.raises(Unavailable, match=r"no answer within 0\.3 s; --timeout"):
        ask(dripping, timeout=0.3)


def test_a_server_that_is_not_there_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot be reached: Connection refused"):
        ask(f"http://127.0.0.1:{port}")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority: Authority) -> ssl.SSLContext:
    """Of a server called prometheus.example that wants to see its clients' certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("prometheus.example", authority.folder))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


Settings = Callable[..., HttpConfig]


@pytest.fixture
def settings(tmp_path: Path, authority: Authority) -> Settings:
    authority.issue("client", tmp_path)
    (tmp_path / "ca.pem").write_bytes(authority.certificate.read_bytes())

    def read(*lines: str) -> HttpConfig:
        file = tmp_path / "http.yaml"
        file.write_text("tls_config:\n" + "".join(f"  {line}\n" for line in lines))
        return read_http_config(file)

    return read


def test_certificates_of_both_sides_are_shown_and_checked(tls: ssl.SSLContext, settings: Settings) -> None:
    client = ("cert_file: client.pem", "key_file: client.key")
    with serving(FakePrometheus(), tls=tls) as url:
        assert ask(url, settings("ca_file: ca.pem", "server_name: prometheus.example", *client)) == ["a"]
        assert ask(url, settings("insecure_skip_verify: true", *client)) == ["a"]
        with pytest.raises(Unavailable, match="its certificate is not trusted"):
            ask(url, settings(*client))
        with pytest.raises(Unavailable, match=r"its certificate is not trusted: .*other\.example"):
            ask(url, settings("ca_file: ca.pem", "server_name: other.example", *client))
        with pytest.raises(Unavailable, match=r"TLS failed|cannot be reached"):
            ask(url, settings("ca_file: ca.pem", "server_name: prometheus.example"))


def test_a_file_that_is_a_pipe_is_not_an_empty_one(settings: Settings, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"ca_file: cannot read .*/pipe: it is not a regular file"):
        settings("ca_file: pipe")


def test_certificates_may_stand_in_the_file_itself(
    tls: ssl.SSLContext, settings: Settings, tmp_path: Path, authority: Authority
) -> None:
    def inline(name: str, file: Path) -> list[str]:
        return [f"{name}: |", *(f"  {line}" for line in file.read_text().splitlines())]

    lines = inline("ca", authority.certificate) + inline("cert", tmp_path / "client.pem")
    lines += [*inline("key", tmp_path / "client.key"), "server_name: prometheus.example"]
    with serving(FakePrometheus(), tls=tls) as url:
        assert ask(url, settings(*lines)) == ["a"]


def test_a_server_of_plain_http_is_no_server_of_https() -> None:
    with serving(FakePrometheus()) as url, pytest.raises(Unavailable, match=r"TLS failed: .*plain HTTP"):
        ask(url.replace("http:", "https:"))
