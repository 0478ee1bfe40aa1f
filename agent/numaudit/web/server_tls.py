"""The TLS of a web-config file: certificate, key, versions and what a client has to show."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numaudit.errors import InputError
from numaudit.net.files import check_regular

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


def context_of(path: Path, tls: Mapping[str, Any]) -> ssl.SSLContext:
    """Raises InputError."""
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


def _beside(path: Path, name: str) -> Path:
    return path.parent / name
