"""Web-config files: what is wrong with them is named, and changes are taken over."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from numaudit.daemon.web.auth import AccessRules, allows_certificate
from numaudit.daemon.web.rules import Rules, read_rules
from numaudit.errors import InputError
from processes.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def issued(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key."""
    return authority.issue("localhost", tmp_path_factory.mktemp("issued"))


def _config(folder: Path, body: str) -> Path:
    path = folder / "web.yaml"
    path.write_text(body)
    return path


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("- x\n", "the file must hold keys and values"),
        ("a: [\n", "not YAML"),
        (f"basic_auth_users: {{a: {'9' * 5000}}}", "a number or date cannot be read; quote it"),
        ("basic_auth_users: {a: 2001-99-99}", "a number or date cannot be read; quote it"),
        ("tls_config: {}\n", "the file has tls_config, which numaudit does not support"),
        ("rate_limit: {interval: 1s}\n", "the file has rate_limit, which numaudit does not support"),
        ("tls_server_config: {cipher_suites: [x]}\n", "tls_server_config has cipher_suites"),
        ("tls_server_config: {cert_file: c.pem}\n", "needs cert_file and key_file"),
        ("tls_server_config: {cert_file: c.pem, key_file: k.pem}\n", "cannot use"),
        ("tls_server_config: {cert_file: c, key_file: k, min_version: TLS10}\n", "choose one of TLS12, TLS13"),
        ("tls_server_config: {cert_file: c, key_file: k, min_version: [1]}\n", "min_version must be one line of ASCII"),
        ('tls_server_config: {cert_file: "c\\0", key_file: k}\n', "cert_file must be one line of ASCII text"),
        ("tls_server_config: {client_allowed_sans: a.b}\n", "client_allowed_sans must be a list of names, such as"),
        ("tls_server_config: {client_allowed_sans: [1]}\n", "client_allowed_sans must be a list of names, such as"),
        ('http_server_config: {headers: {X-Frame-Options: "a\\nb"}}\n', "X-Frame-Options must be one line of ASCII"),
        ("http_server_config: {headers: {X-Frame-Options: [a]}}\n", "X-Frame-Options must be one line of ASCII"),
        ('http_server_config: {headers: {"X\\n": a}}\n', r"http_server_config.headers has X\n, which"),
        ("http_server_config: {headers: {Server: x}}\n", "http_server_config.headers has Server"),
        ("basic_auth_users: {ali: sesame}\n", "the password of ali is not a bcrypt hash"),
        ("basic_auth_users: [ali]\n", "basic_auth_users must hold names and bcrypt hashes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(InputError, match=r"web\.yaml") as raised:
        read_rules(_config(tmp_path, body))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("client_auth_type: Maybe", "client_auth_type 'Maybe': choose one of NoClientCert"),
        ("client_auth_type: RequireAndVerifyClientCert", "needs client_ca_file"),
        ("client_allowed_sans: [a]", "client_allowed_sans needs client_auth_type RequireAndVerifyClientCert"),
        ("client_ca_file: none.pem", "cannot use client_ca_file none.pem: No such file"),
        ("client_ca_file: /dev/zero", "cannot use client_ca_file /dev/zero: it is not a regular file"),
    ],
)
def test_what_is_wrong_about_client_certificates_is_named(
    authority: Authority, tmp_path: Path, extra: str, message: str
) -> None:
    certificate, key = authority.issue("localhost", tmp_path)
    with pytest.raises(InputError) as raised:
        read_rules(_config(tmp_path, f"tls_server_config: {{cert_file: {certificate}, key_file: {key}, {extra}}}\n"))
    assert message in str(raised.value)


_odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=5,
)


@given(data=st.data())
def test_any_values_are_rules_or_an_input_error(
    issued: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    certificate, key = issued
    document: dict[str, Any] = {
        "tls_server_config": {
            "cert_file": str(certificate),
            "key_file": str(key),
            "client_ca_file": str(certificate),
            "client_auth_type": "RequireAndVerifyClientCert",
            "client_allowed_sans": ["a"],
            "min_version": "TLS12",
        },
        "http_server_config": {"headers": {"X-Frame-Options": "deny"}},
        "basic_auth_users": {"ali": f"$2b$10${'.' * 53}"},
    }
    section = document[data.draw(st.sampled_from(sorted(document)))]
    section[data.draw(st.sampled_from(sorted(section)))] = data.draw(_odd)
    path = _config(tmp_path_factory.getbasetemp(), yaml.safe_dump(document))
    with contextlib.suppress(InputError):
        read_rules(path)


def test_files_are_found_beside_the_web_config_file(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("localhost", tmp_path)
    body = f"tls_server_config: {{cert_file: {certificate.name}, key_file: {key.name}}}\n"
    rules = read_rules(_config(tmp_path, body))
    assert rules.tls is not None
    assert rules.files[1:] == (certificate, key)


def test_a_changed_file_is_taken_over_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    path = _config(tmp_path, "http_server_config: {headers: {X-Frame-Options: deny}}\n")
    access = AccessRules.by(path)
    assert access.headers() == (("X-Frame-Options", "deny"),)
    path.write_text("http_server_config: {headers: {X-Frame-Options: sameorigin}}\n")
    assert access.now().tls is None
    assert access.headers() == (("X-Frame-Options", "sameorigin"),)
    path.write_text("nonsense: 1\n")
    access.now()
    assert (access.valid, access.headers()) == (False, (("X-Frame-Options", "sameorigin"),))
    path.unlink()
    access.now()
    assert access.valid is False
    path.write_text("{}\n")
    access.now()
    assert (access.valid, access.headers()) == (True, ())


HASH = "$2b$10$" + 53 * "."


def _guarded(authority: Authority, folder: Path) -> tuple[AccessRules, str]:
    """Access by a file that has everything that keeps somebody out, and the file's text."""
    certificate, key = authority.issue("localhost", folder)
    body = (
        f"tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n"
        f"  client_ca_file: {authority.certificate}\n  client_auth_type: RequireAndVerifyClientCert\n"
        f"  client_allowed_sans: [prometheus]\nbasic_auth_users:\n  ali: {HASH}\n"
    )
    return AccessRules.by(_config(folder, body)), body


def test_an_empty_file_protects_nothing_at_start(tmp_path: Path) -> None:
    access = AccessRules.by(_config(tmp_path, ""))
    assert (access.valid, access.now().tls, access.now().users) == (True, None, {})


def test_wherever_a_file_is_cut_off_a_reload_removes_no_protection(authority: Authority, tmp_path: Path) -> None:
    access, body = _guarded(authority, tmp_path)
    for end in range(len(body)):
        _config(tmp_path, body[:end])
        rules = access.now()
        assert rules.tls is not None
        assert rules.tls.verify_mode is ssl.CERT_REQUIRED
        assert rules.allowed_names == {"prometheus"}
        assert rules.users == {"ali": HASH.encode()}


def test_a_refused_reload_says_what_would_be_lost_and_how_to_remove_it(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access, _ = _guarded(authority, tmp_path)
    _config(tmp_path, "")
    access.now()
    assert access.valid is False
    assert "would remove protection, because the file no longer has tls_server_config, " in caplog.text
    assert "`tls_server_config: {}`" in caplog.text
    assert "`basic_auth_users: {}`" in caplog.text


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda body: "tls_server_config: {}\nbasic_auth_users: {}\n", (False, False, False, False)),
        (lambda body: body.partition("basic_auth_users")[0] + "basic_auth_users: {}\n", (True, True, True, False)),
        (lambda body: "tls_server_config: {}\n" + body[body.index("basic_auth") :], (False, False, False, True)),
        (lambda body: body.replace("[prometheus]", "[]"), (True, True, False, True)),
        (
            lambda body: body.replace("[prometheus]", "[]").replace("RequireAndVerifyClientCert", "NoClientCert"),
            (True, False, False, True),
        ),
    ],
)
def test_protection_goes_when_the_file_says_so(
    authority: Authority, tmp_path: Path, change: Callable[[str], str], left: tuple[bool, ...]
) -> None:
    access, body = _guarded(authority, tmp_path)
    _config(tmp_path, change(body))
    rules = access.now()
    asks = rules.tls is not None and rules.tls.verify_mode is ssl.CERT_REQUIRED
    assert access.valid
    assert (rules.tls is not None, asks, bool(rules.allowed_names), bool(rules.users)) == left


def test_a_certificate_must_have_one_of_the_allowed_names() -> None:
    assert allows_certificate(Rules(), None)
    rules = Rules(allowed_names=frozenset({"prometheus"}))
    assert allows_certificate(rules, {"subjectAltName": (("DNS", "x"), ("DNS", "prometheus"))})
    assert not allows_certificate(rules, {"subjectAltName": (("DNS", "x"),)})
    assert not allows_certificate(rules, None)
