"""No part of a secret comes out again, in whatever setting, flag or URL it was given."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from numaudit.cli.main import call
from numaudit.config.settings import KEYS
from numaudit.daemon import logs
from numaudit.daemon.web.rules import read_rules
from numaudit.errors import InputError, brief, without_password

LETTERS = "QZJX"
"""No message has four of these in a row, whatever stands between them."""
URLS = (
    "http://user:{}@host",
    "https://user:{}@host:1/v1/metrics?x=1",
    "http://{}@host",
    "user:{}@host",
    "//user:{}@host",
    "http:/user:{}@host",
    "http://user:{}",
    "http://host/?token={}",
    "http://host/#{}",
    "http://user:{}@host x",
    "ftp://user:{}@host",
    "http://user:{}@" + "h" * 70,
    "http://user:{}@host:99999",
    "x" * 55 + "http://user:{}@host",
    "ftp://user:{}",
    "a,k8s=http://user:{}@host",
    " 'http://user:{}@host'",
)
WAYS = (
    "--set",
    "variable",
    "file",
    "--config",
    "--set without =",
    "--root",
    "NUMAUDIT_CONFIG",
    "word",
    "list",
    "names",
    "key",
    "--set as key",
    "-f",
    "POD",
    "--fail-below",
    "--fail-on",
    "verb",
)
OTHERS = st.text(st.sampled_from(LETTERS + " @/?#:%'\"\\&=+[],\N{SECTION SIGN}"), max_size=6)
SECRETS = st.builds(
    lambda pairs, end: "".join(other + letter for other, letter in pairs) + end,
    st.lists(st.tuples(OTHERS, st.sampled_from(LETTERS)), min_size=4, max_size=12),
    OTHERS,
)
"""With enough letters that nobody else writes."""


def _parts(secret: str) -> Iterator[str]:
    """Each four characters in a row with enough letters that nobody else writes, as they are and as they are quoted."""
    for place in range(len(secret) - 3):
        part = secret[place : place + 4]
        if sum(char in LETTERS for char in part) >= 3:
            yield from {part, quote(part), repr(part)[1:-1]}


def _in(url: str, secret: str) -> str:
    """What follows the last @ is the host, so where the URL ends with the secret an @ can only begin it."""
    return secret[:1] + secret[1:].replace("@", "") if url.endswith(":{}") else secret


def _command(way: str, key: str, value: str, folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    match way:
        case "--set":
            return ["config", "show", "--set", f"{key}={value}"]
        case "variable":
            patch.setenv(KEYS[key].variable, value)
            return ["config", "show"]
        case "NUMAUDIT_CONFIG":
            patch.setenv("NUMAUDIT_CONFIG", value)
            return ["config", "show"]
        case "file" | "list" | "names" | "key":
            forms: dict[str, object] = {"list": ["a:b", value, 5], "names": {"a:b": "c", value: []}}
            nested = {value: {key: value}} if way == "key" else forms.get(way, value)
            for name in reversed(key.split(".")):
                nested = {name: nested}
            (folder / "agent.yaml").write_text(yaml.safe_dump(nested), encoding="utf-8")
            return ["config", "check", "--config", str(folder / "agent.yaml")]
        case "--set as key":
            return ["config", "check", "--set", f"{value}={value}"]
        case "-f":
            return ["fit", "-f", value]
        case "POD":
            return ["explain", value, "--root", str(folder)]
        case "--fail-below" | "--fail-on":
            return ["report", "--root", str(folder), way, value]
        case "verb":
            return [value]
        case "--set without =":
            return ["config", "show", "--set", value.replace("=", "")]
        case "word":
            return ["config", "show", value]
        case "--root":
            return ["topology", "--root", value]
    return ["config", "show", way, value]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(SECRETS, st.sampled_from(URLS), st.sampled_from(WAYS), st.sampled_from(sorted(KEYS)))
@example("Q" * 80, "http://user:{}@host", "--set", "interval")
@example("QZJX QZJX", "http://user:{}@host", "--set", "otlp.endpoint")
@example("QZJXQZJX", "http://host/?token={}", "--set", "otlp.endpoint")
@example("QZJXQZJX", "user:{}@host", "--set", "otlp.endpoint")
@example("QZJX QZJX", "http://user:{}@host", "--config", "interval")
@example("QZJX'QZJX", "http://user:{}@host", "word", "interval")
@example("QZJX ", "user:{}@host", "variable", "kubelet.ca_file")
@example("QZJX ", "user:{}@host", "file", "web.config_file")
@example("@QZJX", "http://user:{}", "--set", "otlp.endpoint")
@example("QZJ=?X", "http://{}@host", "--set", "otlp.resource")
@example("QZ=J,X=Z", "http://user:{}@host", "file", "otlp.resource")
@example("QZJX QZJX", "user:{}@host", "NUMAUDIT_CONFIG", "interval")
@example("QZJX QZJX,", "http://user:{}@host", "--fail-on", "interval")
def test_any_secret_in_a_url_stays_hidden_wherever_it_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, secret: str, url: str, way: str, key: str
) -> None:
    secret = _in(url, secret)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NUMAUDIT_DEBUG", raising=False)
        patch.setattr("socket.getaddrinfo", _no_such_host)
        code = call(_command(way, key, url.format(secret), tmp_path, patch))
    out, err = capsys.readouterr()
    assert code != 4, err
    for part in _parts(secret):
        assert part not in out + err


def _no_such_host(*_: object, **__: object) -> None:
    raise OSError(-2, "Name or service not known")


@pytest.mark.parametrize(
    "body",
    [
        "headers: {{token: '{}'",
        "headers: {}",
        "headers: {{t: *{}}}",
        "headers: {{t: !{} x}}",
        "headers: [{}]",
        "headers: {{t: [{}]}}",
    ],
)
def test_a_header_stays_hidden_however_its_file_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, body: str
) -> None:
    secret = "QZJXQZJX" * 9
    file = tmp_path / "agent.yaml"
    file.write_text(f"otlp:\n  {body.format(secret)}\n")
    call(["config", "check", "--config", str(file)])
    call(["config", "show", "--config", str(file)])
    out, err = capsys.readouterr()
    assert err
    assert "QZJXQZJXQZJXQ" not in out + err


@pytest.mark.parametrize(
    "users", ["admin:QZJXQZJX", "{'admin:QZJXQZJX': null}", "{admin: QZJXQZJX}", "[admin:QZJXQZJX]"]
)
def test_a_password_in_a_web_config_file_stays_hidden(tmp_path: Path, users: str) -> None:
    (tmp_path / "web.yaml").write_text(f"basic_auth_users: {users}\n")
    with pytest.raises(InputError) as refusal:
        read_rules(tmp_path / "web.yaml")
    assert "QZJX" not in str(refusal.value)


@pytest.mark.parametrize("format_", ["text", "json"])
def test_a_line_of_the_log_shows_no_secret_of_a_url(format_: str) -> None:
    stream = io.StringIO()
    names = [logging.getLogger(name) for name in logs.LOGGERS]
    before = [(one, list(one.handlers), one.propagate) for one in names]
    try:
        logs.set_up("info", format_, stream)
        try:
            raise OSError("no answer from http://user:QZJXQZJX@host/?token=QZJXQZJX")
        except OSError as error:
            logs.log.exception("cannot reach %s", error)
    finally:
        for one, handlers, propagate in before:
            one.handlers[:], one.propagate = handlers, propagate
    assert "no answer from http://(hidden)@host/?(hidden)" in stream.getvalue()
    assert "QZJX" not in stream.getvalue()


@given(SECRETS, st.sampled_from(URLS))
def test_any_secret_in_a_url_is_hidden_before_the_url_is_cut(secret: str, url: str) -> None:
    secret = _in(url, secret)
    for part in _parts(secret):
        assert part not in brief(url.format(secret))
        if not any(char.isspace() for char in secret) and "@" in url:
            assert part not in without_password(f"see {url.format(secret)} there")
