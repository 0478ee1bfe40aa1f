"""A web-config file as all Prometheus exporters take it (exporter-toolkit, docs/web-configuration.md), as rules.

Keys that are not supported are an error: a security setting is never passed over.
"""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from numaudit.config import yaml_file
from numaudit.errors import InputError
from numaudit.net.target import check_regular

CheckPassword = Callable[[bytes, bytes], bool]

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


class Rules(Struct, frozen=True):
    """One web-config file as it was read."""

    tls: ssl.SSLContext | None = None
    allowed_names: frozenset[str] = frozenset()
    """Subject alternative names; a client's certificate must have one of them. Empty = any."""
    users: Mapping[str, bytes] = field(default_factory=dict)
    """Name -> bcrypt hash; empty = no password is needed."""
    headers: tuple[tuple[str, str], ...] = ()
    files: tuple[Path, ...] = ()
    """Files that it was read from."""
    named: frozenset[str] = frozenset()
    """Keys of the file and of its tls_server_config that have a value, an empty one included."""
    admission: tuple[object, ...] = ()
    """Settings that decide who may connect. A connection that was made under another admission ends."""

    def without_saying_so(self, before: Rules) -> list[str]:
        """Keys whose protection these rules drop although the file does not say so: it is cut off, or empty."""
        lost = [key for key, _ in _PROTECTIONS if before.protects(key) and not self.protects(key)]
        if self.tls is None and "tls_server_config" in self.named:
            lost = [key for key in lost if not key.startswith("client_")]
        return [key for key in lost if key not in self.named]

    @property
    def lets_strangers_read(self) -> bool:
        """Neither a password nor a client's certificate is needed."""
        return not self.users and (self.tls is None or self.tls.verify_mode is not ssl.CERT_REQUIRED)

    def protects(self, key: str) -> bool:
        """Return True when a key of the file restricts access."""
        return dict(_PROTECTIONS)[key](self)


_PROTECTIONS: tuple[tuple[str, Callable[[Rules], bool]], ...] = (
    ("tls_server_config", lambda rules: rules.tls is not None),
    ("client_auth_type", lambda rules: rules.tls is not None and rules.tls.verify_mode is not ssl.CERT_NONE),
    ("client_allowed_sans", lambda rules: bool(rules.allowed_names)),
    ("basic_auth_users", lambda rules: bool(rules.users)),
)
_HOW_TO_DROP = {
    "tls_server_config": "{}",
    "client_auth_type": "NoClientCert",
    "client_allowed_sans": "[]",
    "basic_auth_users": "{}",
}


def read_next_rules(path: Path, before: Rules) -> Rules:
    """Read a changed web-config file. Raises InputError, also when it drops protection without saying so."""
    rules = read_rules(path)
    if lost := rules.without_saying_so(before):
        raise InputError(
            f"{path}: the change would remove protection, because the file no longer has {', '.join(lost)}; "
            f"to remove it on purpose, write {', '.join(f'`{key}: {_HOW_TO_DROP[key]}`' for key in lost)}"
        )
    return rules


def read_rules(path: Path) -> Rules:
    """Read a web-config file. Raises InputError with what is wrong, and in which key."""
    document = yaml_file.values(path, "the web-config file")
    top = _mapping(document, path, "the file", {"tls_server_config", "http_server_config", "basic_auth_users"})
    tls = _mapping(top.get("tls_server_config"), path, "tls_server_config", _TLS_KEYS)
    http = _mapping(top.get("http_server_config"), path, "http_server_config", {"http2", "headers"})
    headers = _mapping(http.get("headers"), path, "http_server_config.headers", set(_HEADERS))
    names = _names(path, tls)
    for key in _TLS_KEYS & tls.keys() - {"client_allowed_sans"}:
        tls[key] = _line(path, key, tls[key])
    named = [_beside(path, tls[key]) for key in ("cert_file", "key_file", "client_ca_file") if tls.get(key)]
    context = _context(path, tls) if tls else None
    return Rules(
        tls=context,
        allowed_names=names,
        users=_users(path, top.get("basic_auth_users")),
        headers=tuple((name, _line(path, name, value)) for name, value in headers.items()),
        files=(path, *named),
        named=frozenset(key for part in (top, tls) for key, value in part.items() if value is not None),
        admission=_admission(context, names),
    )


def _admission(context: ssl.SSLContext | None, names: frozenset[str]) -> tuple[object, ...]:
    """A renewed certificate of the server's own changes nothing about it."""
    if context is None:
        return ()
    return (context.verify_mode, context.minimum_version, names, frozenset(context.get_ca_certs(binary_form=True)))


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
        for file in (certificate, key):
            check_regular(file)
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
            check_regular(_beside(path, authorities))
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
            user = str(name).partition(":")[0]  # a whole line of htpasswd has more
            raise InputError(
                f"{path}: the password of {user} is not a bcrypt hash; make one with `htpasswd -nBC 10 {user}`"
            )
    password_checker()
    return {str(name): str(hash_).encode() for name, hash_ in found.items()}


def password_checker() -> CheckPassword:
    """bcrypt's. Raises InputError when it is not installed."""
    try:
        found: CheckPassword = importlib.import_module("bcrypt").checkpw
    except ImportError:
        raise InputError(
            "the web-config file lists users, which needs the package bcrypt: pip install 'numaudit[web-auth]'"
        ) from None
    return found
