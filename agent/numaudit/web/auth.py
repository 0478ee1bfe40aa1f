"""Who may connect: a web-config file as all Prometheus exporters take it (exporter-toolkit, docs/web-configuration.md).

It is read again when it or a file it names changes. A changed file that is wrong is reported, and the one read
before stays in force. Keys that are not supported are an error: a security setting is never passed over.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib
import logging
import os
import secrets
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from numaudit.config import yaml_file
from numaudit.errors import InputError

CheckPassword = Callable[[bytes, bytes], bool]

_log = logging.getLogger(__name__)
_TLS_VERSIONS = {
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH = {
    "": ssl.CERT_NONE,
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_HEADERS = (
    "Strict-Transport-Security",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Content-Security-Policy",
)
_TLS_KEYS = {
    "cert_file", "key_file", "client_ca_file", "client_auth_type", "client_allowed_sans", "min_version", "max_version"
}  # fmt: skip
_REMEMBERED_PASSWORDS = 100


@dataclass(frozen=True, slots=True)
class Rules:
    """One web-config file as it was read."""

    tls: ssl.SSLContext | None = None
    allowed_names: frozenset[str] = frozenset()
    """Subject alternative names; a client's certificate must have one of them. Empty = any."""
    users: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> bcrypt hash; empty = no password is needed."""
    headers: tuple[tuple[str, str], ...] = ()
    files: tuple[Path, ...] = ()
    """What it was read from."""


def read_rules(path: Path) -> Rules:
    """Read a web-config file. Raises InputError with what is wrong, and in which key."""
    try:
        document = yaml.safe_load(yaml_file.read(path, "the web-config file"))
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    except ValueError as error:  # 5,000 digits, or a month 99
        raise InputError(f"{path}: a number or date in it cannot be read; quote it if it is text") from error
    top = _mapping(document, path, "the file", {"tls_server_config", "http_server_config", "basic_auth_users"})
    tls = _mapping(top.get("tls_server_config"), path, "tls_server_config", _TLS_KEYS)
    http = _mapping(top.get("http_server_config"), path, "http_server_config", {"http2", "headers"})
    headers = _mapping(http.get("headers"), path, "http_server_config.headers", set(_HEADERS))
    names = _names(path, tls)
    for key in _TLS_KEYS & tls.keys() - {"client_allowed_sans"}:
        tls[key] = _line(path, key, tls[key])
    named = [_beside(path, tls[key]) for key in ("cert_file", "key_file", "client_ca_file") if tls.get(key)]
    return Rules(
        tls=_context(path, tls) if tls else None,
        allowed_names=names,
        users=_users(path, top.get("basic_auth_users")),
        headers=tuple((name, _line(path, name, value)) for name, value in headers.items()),
        files=(path, *named),
    )


def _mapping(found: object, path: Path, where: str, known: set[str]) -> dict[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{path}: {where} must hold keys and values")
    unknown = sorted(ascii(key).strip("'") for key in found if key not in known)
    if unknown:
        raise InputError(
            f"{path}: {where} has {', '.join(unknown)}, which numaudit does not support; "
            f"it knows {', '.join(sorted(known))}"
        )
    return found


def _line(path: Path, key: str, value: object) -> str:
    """Text of one line; nothing counts as empty. A line end would begin another header, a NUL end a path."""
    if type(value) is int:
        value = str(value)
    if value is not None and not (isinstance(value, str) and value.isascii() and value.isprintable()):
        raise InputError(f"{path}: {key} must be one line of ASCII text, not {value!r}")
    return value or ""


def _names(path: Path, tls: Mapping[str, Any]) -> frozenset[str]:
    """The names; a client's certificate must have one of them. Text in place of the list would be its letters."""
    found = tls.get("client_allowed_sans") or []
    if not isinstance(found, list) or not all(isinstance(name, str) and name for name in found):
        raise InputError(
            f"{path}: client_allowed_sans must be a list of names, such as [prometheus.svc], not {found!r}"
        )
    return frozenset(found)


def _beside(path: Path, name: str) -> Path:
    return path.parent / name


def _context(path: Path, tls: Mapping[str, Any]) -> ssl.SSLContext:
    if not tls.get("cert_file") or not tls.get("key_file"):
        raise InputError(f"{path}: tls_server_config needs cert_file and key_file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    context.minimum_version = _version(path, tls, "min_version", ssl.TLSVersion.TLSv1_2)
    context.maximum_version = _version(path, tls, "max_version", ssl.TLSVersion.MAXIMUM_SUPPORTED)
    certificate, key = _beside(path, tls["cert_file"]), _beside(path, tls["key_file"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"{path}: cannot use {certificate} with {key}: {error.strerror or error}") from error
    wanted = tls.get("client_auth_type") or ""
    if wanted not in _CLIENT_AUTH:
        raise InputError(f"{path}: client_auth_type {wanted!r}: choose one of {', '.join(filter(None, _CLIENT_AUTH))}")
    authorities = tls.get("client_ca_file")
    if _CLIENT_AUTH[wanted] is not ssl.CERT_NONE and not authorities:
        raise InputError(f"{path}: client_auth_type {wanted} needs client_ca_file")
    if tls.get("client_allowed_sans") and _CLIENT_AUTH[wanted] is not ssl.CERT_REQUIRED:
        raise InputError(f"{path}: client_allowed_sans needs client_auth_type RequireAndVerifyClientCert")
    if authorities:
        try:
            context.load_verify_locations(_beside(path, authorities))
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"{path}: cannot use client_ca_file {authorities}: {error.strerror or error}") from error
    context.verify_mode = _CLIENT_AUTH[wanted]
    return context


def _version(path: Path, tls: Mapping[str, Any], key: str, default: ssl.TLSVersion) -> ssl.TLSVersion:
    name = tls.get(key)
    if not name:
        return default
    if name not in _TLS_VERSIONS:
        raise InputError(f"{path}: {key} {name!r}: choose one of {', '.join(_TLS_VERSIONS)}")
    return _TLS_VERSIONS[name]


def _users(path: Path, found: object) -> dict[str, bytes]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{path}: basic_auth_users must hold names and bcrypt hashes")
    for name, hash_ in found.items():
        if not str(hash_).startswith(("$2a$", "$2b$", "$2y$")) or len(str(hash_)) != 60:
            raise InputError(
                f"{path}: the password of {name} is not a bcrypt hash; make one with `htpasswd -nBC 10 {name}`"
            )
    _password_checker()
    return {str(name): str(hash_).encode() for name, hash_ in found.items()}


def _password_checker() -> CheckPassword:
    try:
        found: CheckPassword = importlib.import_module("bcrypt").checkpw
    except ImportError:
        raise InputError(
            "the web-config file lists users, which needs the package bcrypt: pip install 'numaudit[web-auth]'"
        ) from None
    return found


@dataclass(slots=True)
class Access:
    """The rules in force, kept up to date with the file. Without a file everybody may read."""

    path: Path | None = None
    valid: bool | None = None
    """False: the file on disk is wrong, and what was read before is in force."""
    _rules: Rules = field(default_factory=Rules)
    _read_as: tuple[object, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _check_lock: threading.Lock = field(default_factory=threading.Lock)
    _secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _verdicts: dict[bytes, bool] = field(default_factory=dict)

    @classmethod
    def by(cls, path: Path | None) -> Access:
        """Read the file. Raises InputError when it is wrong."""
        if path is None:
            return cls()
        rules = read_rules(path)
        return cls(path, True, rules, _state_of(rules.files))

    def headers(self) -> tuple[tuple[str, str], ...]:
        """HTTP headers for every answer."""
        return self._rules.headers

    def tls(self) -> ssl.SSLContext | None:
        """The context for a new connection, from files as they are now; None = plain HTTP."""
        self._refresh()
        return self._rules.tls

    def allows_certificate(self, certificate: Mapping[str, Any] | None) -> bool:
        """`certificate` is what SSLSocket.getpeercert() gives."""
        allowed = self._rules.allowed_names
        return not allowed or any(name in allowed for _, name in (certificate or {}).get("subjectAltName", ()))

    def allows(self, authorization: str) -> bool:
        """Whether the Authorization header opens the door."""
        users = self._rules.users
        if not users:
            return True
        kind, _, coded = authorization.partition(" ")
        try:
            name, colon, password = base64.b64decode(coded.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        if kind.lower() != "basic" or not colon:
            return False
        # Hash for an unknown name too, so that the time does not reveal which names exist.
        hash_ = users.get(name) or next(iter(users.values()))
        return self._matches(password.encode(), hash_) and name in users

    def _matches(self, password: bytes, hash_: bytes) -> bool:
        """bcrypt takes tens of milliseconds on purpose, so verdicts are remembered, and only one is made at a time."""
        key = hashlib.blake2b(hash_ + password, key=self._secret).digest()
        with self._check_lock:
            verdict = self._verdicts.get(key)
            if verdict is None:
                if len(self._verdicts) >= _REMEMBERED_PASSWORDS:
                    self._verdicts.pop(next(iter(self._verdicts)))
                try:
                    verdict = _password_checker()(password, hash_)
                except ValueError:  # longer than the 72 bytes that bcrypt can tell apart
                    verdict = False
                self._verdicts[key] = verdict
            return verdict

    def _refresh(self) -> None:
        if self.path is None:
            return
        with self._lock:
            now = _state_of(self._rules.files)
            if now == self._read_as:
                return
            self._read_as = now
            try:
                self._rules = read_rules(self.path)
                self._read_as = _state_of(self._rules.files)
                self.valid = True
                _log.info("the web-config file %s was read again", self.path)
            except InputError as error:
                self.valid = False
                _log.error("the web-config file is wrong, the one read before stays in force: %s", error)


def _state_of(files: tuple[Path, ...]) -> tuple[object, ...]:
    states: list[object] = []
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 (on every connection: several times quicker)
            states.append((status.st_mtime_ns, status.st_ino, status.st_size))
        except OSError as error:
            states.append(error.errno)
    return tuple(states)
