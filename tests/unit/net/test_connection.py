"""The HTTP client: one connection for several requests, and what ends it."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from email.message import Message
from urllib.parse import urlsplit

import pytest

from numaudit.net.connection import Connection, HttpAnswer, NotUnderstood, TooLarge
from numaudit.net.target import target_of
from processes.hostile_http import Peer, hostile

MOST = 1000
PATIENCE = 30.0


@pytest.fixture
def connection(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """To a server that does what the test's parameter says."""
    with hostile(request.param) as server:
        one = Connection(target_of(urlsplit(server.url), "/", {}, None), PATIENCE)
        yield one
        one.close()


def says(*answers: bytes, ends: bool = False) -> object:
    def do(peer: Peer) -> None:
        for one in answers:
            peer.read_request()
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(one), one))
        if not ends:
            peer.read_request()

    return do


@pytest.mark.parametrize("connection", [says(b"one", b"two")], indirect=True)
def test_a_connection_serves_several_requests(connection: Connection) -> None:
    assert [connection.get("/", {}, MOST).body for _ in range(2)] == [b"one", b"two"]


@pytest.mark.parametrize("connection", [says(b"one", ends=True)], indirect=True)
def test_a_connection_that_the_server_ended_meanwhile_is_made_again(connection: Connection) -> None:
    assert connection.get("/", {}, MOST).body == b"one"
    end = time.monotonic() + PATIENCE
    while not connection._is_ended_by_the_server():
        assert time.monotonic() < end
    assert connection.get("/", {}, MOST).body == b"one"


@pytest.mark.parametrize("connection", [says(b"x" * MOST)], indirect=True)
def test_an_answer_of_just_the_limit_is_complete(connection: Connection) -> None:
    assert connection.get("/", {}, MOST).complete


@pytest.mark.parametrize("connection", [says(b"x" * (MOST + 1))], indirect=True)
def test_of_a_longer_answer_no_more_than_the_limit_is_read(connection: Connection) -> None:
    answer = connection.get("/", {}, MOST)
    assert (len(answer.body), answer.complete) == (MOST, False)
    with pytest.raises(TooLarge):
        answer.unpacked(MOST)


def _breaks_off(peer: Peer) -> None:
    peer.read_request()
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


@pytest.mark.parametrize("connection", [_breaks_off], indirect=True)
def test_an_answer_that_breaks_off_is_no_answer(connection: Connection) -> None:
    with pytest.raises(NotUnderstood, match="ends too early"):
        connection.get("/", {}, MOST)


def _answer(body: bytes, *coding: str) -> HttpAnswer:
    headers = Message()
    for one in coding:
        headers["Content-Encoding"] = one
    return HttpAnswer(200, headers, body, complete=True)


def test_one_layer_of_gzip_is_unpacked_up_to_the_limit() -> None:
    packed = gzip.compress(b"x" * MOST)
    assert _answer(packed, "gzip").unpacked(MOST) == b"x" * MOST
    assert _answer(b"x", "identity").unpacked(MOST) == _answer(b"x").unpacked(MOST) == b"x"
    with pytest.raises(TooLarge):
        _answer(packed, "GZIP").unpacked(MOST - 1)
    with pytest.raises(NotUnderstood, match="ends too early"):
        _answer(packed[:-4], "gzip").unpacked(MOST)


@pytest.mark.parametrize("coding", [("gzip, gzip",), ("gzip", "gzip"), ("br",), ("deflate",), ("gzip,identity",)])
def test_any_other_packing_is_refused(coding: tuple[str, ...]) -> None:
    with pytest.raises(NotUnderstood, match="which the request did not accept"):
        _answer(gzip.compress(b"x"), *coding).unpacked(MOST)


def test_a_look_up_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, done = threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> list[object]:
        asked.set()
        done.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    one = Connection(target_of(urlsplit("http://a.name"), "/", {}, None), 0.3)
    with pytest.raises(TimeoutError):
        one.get("/", {}, MOST)
    assert asked.is_set()
    one.end_within(PATIENCE)
    threading.Timer(0.1, one.cut).start()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        one.get("/", {}, MOST)
    assert time.monotonic() - begun < PATIENCE
    done.set()


def test_what_is_no_name_of_a_host_is_said() -> None:
    one = Connection(target_of(urlsplit(f"http://{'a' * 70}.b"), "/", {}, None), PATIENCE)
    with pytest.raises(OSError, match="is no name of a host"):
        one.get("/", {}, MOST)


def test_a_request_is_ended_from_another_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = Connection(target_of(urlsplit(f"http://127.0.0.1:{server.getsockname()[1]}"), "/", {}, None), PATIENCE)
        threading.Timer(0.1, one.cut).start()
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            one.get("/", {}, MOST)
        assert time.monotonic() - begun < PATIENCE
        one.close()
