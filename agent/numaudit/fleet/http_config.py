"""Credentials and trusted authorities, from a file in promtool's format (--http.config.file).

Format: https://prometheus.io/docs/prometheus/latest/configuration/promtool/ (http_config). Files that it names are
beside it. Keys that are not supported are an error: a security setting is never passed over.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from numaudit.config import yaml_document
from numaudit.containermanager.plain import shown
from numaudit.net.files import read_text
from numaudit.net.target import basic_authorization, check_headers
from numaudit.scenario.document import Document

_KEYS = ("basic_auth", "authorization", "tls_config", "http_headers", "follow_redirects", "enable_http2")
_BASIC = ("username", "username_file", "password", "password_file")
_AUTHORIZATION = ("type", "credentials", "credentials_file")
_HEADER = ("values", "secrets", "files")
_TLS = (
    "ca", "ca_file", "cert", "cert_file", "key", "key_file", "server_name", "insecure_skip_verify", "min_version",
    "max_version",
)  # fmt: skip
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Headers, credentials and trust of requests."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: ssl.SSLContext | None = None
    """None = the system's authorities."""
    server_name: str | None = None
    """That the server's certificate must have; None = the URL's host."""


def read_http_config(path: Path) -> HttpConfig:
    """The whole file and those that it names. Raises InputError: `file:line: path: reason`, without any secret."""
    document = yaml_document.read(path, "the HTTP settings")
    fields = document.fields(_KEYS)
    if fields.get("basic_auth") is not None and fields.get("authorization") is not None:
        raise document.error("give basic_auth or authorization, not both")
    if fields.get("follow_redirects") is True:
        raise document.part("follow_redirects").error("redirects are never followed; give the URL they lead to")
    _bool(document.part("follow_redirects"))
    _bool(document.part("enable_http2"))
    tls = document.part("tls_config")
    headers = {**_headers(document.part("http_headers"), path), **_authorization(document, path)}
    check_headers(headers, str(path))
    return HttpConfig(headers, _context(tls, path), _text(tls.part("server_name")))


def _authorization(document: Document, path: Path) -> dict[str, str]:
    basic, other = document.part("basic_auth"), document.part("authorization")
    if basic.value is not None:
        basic.fields(_BASIC)
        user = _text_or_file(basic, "username", path) or ""
        if ":" in user:
            raise basic.part("username").error("a user's name cannot have a colon")
        return {"Authorization": basic_authorization(user, _text_or_file(basic, "password", path) or "")}
    if other.value is not None:
        other.fields(_AUTHORIZATION)
        kind = _text(other.part("type")) or "Bearer"
        if kind.lower() == "basic":
            raise other.part("type").error("use basic_auth for that")
        credentials = _text_or_file(other, "credentials", path)
        if not credentials:
            raise other.error("needs credentials or credentials_file")
        return {"Authorization": f"{kind} {credentials}"}
    return {}


def _headers(part: Document, path: Path) -> dict[str, str]:
    """One value each: a query has no use for more, and whoever gives several means something else."""
    found: dict[str, str] = {}
    if part.value is not None and not isinstance(part.value, Mapping):
        raise part.error("must hold keys and values")
    for name in part.value or ():
        header = part.part(str(name))
        header.fields(_HEADER)
        values = [_needed(one) for key in ("values", "secrets") for one in header.part(key).elements()]
        values += [_read(path.parent / _needed(one), one) for one in header.part("files").elements()]
        if len(values) != 1:
            raise header.error(f"needs one value, not {len(values)}")
        found[str(name)] = values[0]
    return found


def _context(part: Document, path: Path) -> ssl.SSLContext | None:
    if part.value is None:
        return None
    part.fields(_TLS)
    context = ssl.create_default_context(cadata=_authorities(part, path))
    for bound, attribute in (("min_version", "minimum_version"), ("max_version", "maximum_version")):
        name = _text(part.part(bound))
        if name is not None and name not in _VERSIONS:
            raise part.part(bound).error(f"choose one of {', '.join(_VERSIONS)}, not {shown(name)}")
        if name is not None:
            setattr(context, attribute, _VERSIONS[name])
    certificate, key = _text_or_file(part, "cert", path), _text_or_file(part, "key", path)
    if (certificate is None) != (key is None):
        raise part.error("a certificate and its key belong together: give both or neither")
    if certificate is not None and key is not None:
        _load(context, certificate, key, part)
    if _bool(part.part("insecure_skip_verify")):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _authorities(part: Document, path: Path) -> str | None:
    """None = the system's."""
    text = _text_or_file(part, "ca", path)
    if text is None:
        return None
    place = part.part("ca" if _text(part.part("ca")) else "ca_file")
    if not text.isascii():
        raise place.error("no certificate authorities in PEM: it is not ASCII")
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise place.error(f"no certificate authorities in PEM: {_reason(error)}") from None
    return text


def _load(context: ssl.SSLContext, certificate: str, key: str, part: Document) -> None:
    """OpenSSL reads files only: text gets one without a name."""
    descriptor = os.memfd_create("numaudit-client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, f"{certificate}\n{key}\n".encode())
        context.load_cert_chain(
            f"/proc/self/fd/{descriptor}", password=""
        )  # an encrypted key is refused, not asked for
    except (OSError, ValueError) as error:
        raise part.error(f"the certificate and its key cannot be used: {_reason(error)}") from None
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else None) or str(error) or type(error).__name__


def _text_or_file(part: Document, name: str, path: Path) -> str | None:
    """A value, or that of the file beside it; None = neither."""
    text, file = _text(part.part(name)), _text(part.part(f"{name}_file"))
    if text is not None and file is not None:
        raise part.error(f"give {name} or {name}_file, not both")
    return text if file is None else _read(path.parent / file, part.part(f"{name}_file"))


def _read(file: Path, place: Document) -> str:
    """Without the line end that editors leave."""
    try:
        return read_text(file).strip()
    except OSError as error:
        raise place.error(f"cannot read {file}: {error.strerror or error}") from None


def _needed(place: Document) -> str:
    text = _text(place)
    if text is None:
        raise place.error("is empty")
    return text


def _text(place: Document) -> str | None:
    """None = absent or empty. A wrong value may be a secret, so it is not shown."""
    if place.value is None or place.value == "":
        return None
    if not isinstance(place.value, str):
        raise place.error(f"must be text, not a {type(place.value).__name__}: put it in quotes")
    return place.value


def _bool(place: Document) -> bool:
    if place.value is None:
        return False
    if not isinstance(place.value, bool):
        raise place.error("must be true or false")
    return place.value
