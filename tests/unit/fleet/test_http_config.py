"""The HTTP settings, as promtool takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numaudit.errors import InputError
from numaudit.fleet.http_config import HttpConfig, read_http_config


def read(folder: Path, text: str) -> HttpConfig:
    (folder / "http.yaml").write_text(text)
    return read_http_config(folder / "http.yaml")


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("basic_auth: {username: me, password: 'a:b'}", {"Authorization": "Basic bWU6YTpi"}),
        ("basic_auth: {username_file: user, password_file: secret}", {"Authorization": "Basic bWU6czNjcmV0"}),
        ("authorization: {credentials: t0ken}", {"Authorization": "Bearer t0ken"}),
        ("authorization: {type: Token, credentials_file: secret}", {"Authorization": "Token s3cret"}),
        ("http_headers: {X-Scope-OrgID: {values: [a]}}", {"X-Scope-OrgID": "a"}),
        ("http_headers: {X-Key: {files: [secret]}}", {"X-Key": "s3cret"}),
        ("{follow_redirects: false, enable_http2: true}", {}),
    ],
)
def test_who_asks_goes_along_with_every_query(tmp_path: Path, text: str, headers: dict[str, str]) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "user").write_text("me\n")
    assert read(tmp_path, text).headers == headers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("oauth2: {client_id: s3cret}", "oauth2: unknown field"),
        ("basic_auth: {user: s3cret}", "basic_auth.user: unknown field; did you mean username"),
        ("basic_auth: {username: me, password: s3cret, password_file: x}", "give password or password_file, not both"),
        ("basic_auth: {username: me, password: 53}", "basic_auth.password: must be text, not a int"),
        ("basic_auth: {username: 'm:e', password: s3cret}", "cannot have a colon"),
        ("{basic_auth: {username: me}, authorization: {credentials: s3cret}}", "not both"),
        ("authorization: {type: Basic, credentials: s3cret}", "use basic_auth for that"),
        ("authorization: {type: Bearer}", "needs credentials or credentials_file"),
        ("authorization: {credentials_file: absent}", "authorization.credentials_file: cannot read"),
        ('authorization: {credentials: "s3cret\\nX: 1"}', "'Authorization' has a character"),
        ("http_headers: {X-Key: {values: [a, b]}}", "needs one value, not 2"),
        ("http_headers: [s3cret]", "http_headers: must hold keys and values"),
        ("follow_redirects: true", "redirects are never followed"),
        ("tls_config: {insecure_skip_verify: yes please}", "must be true or false"),
        ("tls_config: {cert: x}", "a certificate and its key belong together"),
        ("tls_config: {cert: s3cret, key: s3cret}", "the certificate and its key cannot be used"),
        ("tls_config: {ca: s3cret}", "tls_config.ca: no certificate authorities in PEM"),
        ("tls_config: {ca: s3cret-\u00e9}", "tls_config.ca: no certificate authorities in PEM: it is not ASCII"),
        ("tls_config: {min_version: TLS10}", "choose one of TLS12, TLS13"),
        ("- s3cret", "must"),
    ],
)
def test_what_is_wrong_is_named_without_any_secret(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read(tmp_path, text)
    assert said in str(raised.value)
    assert str(raised.value).startswith(str(tmp_path / "http.yaml"))
    assert "s3cret" not in str(raised.value)


def test_an_encrypted_key_is_refused_without_a_question(tmp_path: Path) -> None:
    key = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHs\n-----END ENCRYPTED PRIVATE KEY-----"
    indented = key.replace("\n", "\n    ")
    with pytest.raises(InputError, match="cannot be used"):
        read(tmp_path, f"tls_config:\n  cert: x\n  key: |\n    {indented}\n")


_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)
_KEYS = st.sampled_from(["basic_auth", "authorization", "tls_config", "http_headers", "follow_redirects"])
_INNER = st.sampled_from(["username", "password", "type", "credentials", "ca", "cert", "key", "server_name", "X-A"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(_KEYS, _VALUE | st.dictionaries(_INNER, _VALUE, max_size=3), max_size=3))
def test_any_settings_are_read_or_refused(tmp_path: Path, found: dict[str, object]) -> None:
    import yaml  # noqa: PLC0415

    try:
        read(tmp_path, yaml.safe_dump(found))
    except InputError as error:
        assert str(error).startswith(str(tmp_path))
