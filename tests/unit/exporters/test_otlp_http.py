"""Where a push goes, and what of it may be shown."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest

from numaudit.errors import InputError
from numaudit.exporters.otlp_delivery import target
from numaudit.net.connection import Connection
from numaudit.net.target import Target


def _target(endpoint: str, **headers: str) -> Target:
    return target(endpoint, headers, None, "gzip")


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("http://c:4318", "http://c:4318/v1/metrics"),
        ("http://c:4318/", "http://c:4318/v1/metrics"),
        ("https://c/opentelemetry/v1/metrics", "https://c:443/opentelemetry/v1/metrics"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/metrics"),
        ("http://c?token=secret", "http://c:80/v1/metrics"),
        ("http://user:s%2Fecret@c:4318", "http://c:4318/v1/metrics"),
    ],
)
def test_an_endpoint_without_a_path_means_the_standard_one_and_secrets_are_not_shown(setting: str, shown: str) -> None:
    found = _target(setting)
    assert str(found) == shown
    assert "secret" not in repr(found).replace(found.path, "")


def test_user_and_password_of_the_endpoint_are_sent_as_basic_auth() -> None:
    sent = _target("http://user:s%2Fecret@c:4318").headers["Authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"user:s/ecret"


def test_a_header_that_is_set_wins_over_the_password_in_the_endpoint() -> None:
    sent = _target("http://user:secret@c", authorization="Bearer t").headers
    assert [value for name, value in sent.items() if name.lower() == "authorization"] == ["Bearer t"]


def test_authorities_are_read_from_a_regular_file_alone() -> None:
    with pytest.raises(InputError, match=r"otlp\.ca_file /dev/zero: it is not a regular file; give a readable file"):
        target("https://c", {}, Path("/dev/zero"), "gzip")


@pytest.mark.parametrize("headers", [{"x": "secret\r\nInjected: 1"}, {"x y": "secret"}, {"x": "secret\u20ac"}])
def test_a_header_that_cannot_be_sent_is_named_without_its_value(headers: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"otlp\.headers: 'x") as raised:
        _target("http://c", **headers)
    assert "secret" not in str(raised.value)


def test_a_query_goes_along() -> None:
    assert _target("http://c/push?tenant=a b&x=1").path == "/push?tenant=a%20b&x=1"


def test_a_server_that_says_nothing_of_tls_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(_target(f"https://127.0.0.1:{server.getsockname()[1]}"), 0.3)
        with pytest.raises(TimeoutError):
            connection.post(b"")
        connection.close()


def test_a_connection_that_is_cut_opens_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(_target(f"http://127.0.0.1:{server.getsockname()[1]}"), 60)
        connection.cut()
        with pytest.raises(TimeoutError):
            connection.post(b"")
        connection.close()
